// Makes the realm the same for every expression that runs in it: nothing reachable can be changed, nothing makes code
// of text, nothing remembers what another expression worked on.

/** Objects that only syntax reaches. */
function* hidden() {
  yield function* () {};
  yield async function () {};
  yield async function* () {};
  yield (function* () {})();
  yield (async function* () {})();
  yield [][Symbol.iterator]();
  yield ""[Symbol.iterator]();
  yield new Map()[Symbol.iterator]();
  yield new Set()[Symbol.iterator]();
  yield "x".matchAll(/x/g);
  yield Iterator.from([]);
  yield Iterator.from({ next() {} });
  yield [].values().map((value) => value);
  yield new Intl.Segmenter().segment("x");
  yield new Intl.Segmenter().segment("x")[Symbol.iterator]();
}

const noCode = Object.freeze(function () {
  throw new TypeError("code cannot be made of text here");
});

/** The constructors of functions lead nowhere. */
function closeCompilers() {
  for (const made of [function () {}, function* () {}, async function () {}, async function* () {}]) {
    Object.defineProperty(Object.getPrototypeOf(made), "constructor", { value: noCode });
  }
}

/** `RegExp.$1` and the like tell of the last match, whosever it was. Waiting outlives an evaluation. */
function forget() {
  for (const name of Object.getOwnPropertyNames(RegExp)) {
    if (/^\$|^last|^left|^right|^input$/.test(name)) delete RegExp[name];
  }
  for (const name of ["Atomics", "SharedArrayBuffer", "WebAssembly", "setTimeout", "clearTimeout"]) {
    if (!Reflect.deleteProperty(globalThis, name)) globalThis[name] = undefined;
  }
  delete Array.fromAsync;
}

/** An object may have a field of its own though the frozen prototype has one of that name. */
function overridable(prototype) {
  for (const name of Object.getOwnPropertyNames(prototype)) {
    const found = Object.getOwnPropertyDescriptor(prototype, name);
    if (!("value" in found) || !found.configurable) continue;
    const { value, enumerable } = found;
    Object.defineProperty(prototype, name, {
      enumerable,
      get: () => value,
      set(given) {
        if (this === prototype) throw new TypeError(`${name} cannot be changed here`);
        Object.defineProperty(this, name, { value: given, writable: true, enumerable: true, configurable: true });
      },
    });
  }
}

function freezeAll(roots) {
  const seen = new Set();
  const waiting = [...roots];
  while (waiting.length) {
    const one = waiting.pop();
    if ((typeof one !== "object" && typeof one !== "function") || one === null || seen.has(one)) continue;
    seen.add(one);
    if (!ArrayBuffer.isView(one)) Object.freeze(one);
    waiting.push(Object.getPrototypeOf(one));
    for (const name of Reflect.ownKeys(one)) {
      const found = Object.getOwnPropertyDescriptor(one, name);
      waiting.push(found.value, found.get, found.set);
    }
  }
}

convoq.harden = function harden() {
  const { FixedOffsetZone, IANAZone, SystemZone } = luxon;
  const zone = IANAZone.create;
  IANAZone.create = (name) => Object.freeze(zone.call(IANAZone, name));
  closeCompilers();
  forget();
  overridable(Object.prototype);
  const errors = [Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError, AggregateError];
  for (const type of errors) overridable(type.prototype);
  const own = Reflect.ownKeys(globalThis).map((name) => Object.getOwnPropertyDescriptor(globalThis, name).value);
  freezeAll([...own, ...hidden(), convoq, luxon, FixedOffsetZone.utcInstance, SystemZone.instance]);
};
