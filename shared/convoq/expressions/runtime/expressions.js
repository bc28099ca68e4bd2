// The door for expressions: one request in, one answer out, both JSON.
//
// Request: `{templates: [[part, …], …], known, zone, index, run, extra, limit}`; a part is a text or `{code}`.
// Answer: `{results: [{v} | {e: message}, …]}` or `{missing: [key, …]}`.

const { Fault, Missing, compile, globals, harden, isExhaustion, namesOf, needing } = convoq;
const { Settings } = luxon;
const MOST_COMPILED = 2000;
const compiled = new Map();
const HELPERS = new Set(["__scope", "__methods", "__some", "__key", "__member"]);

/** Every name is found here, so that none is an error: what nothing defines is undefined. */
const lookup = {
  has: (_, name) => !HELPERS.has(name),
  get: (names, name) => (name in names ? names[name] : globals[name]),
  set: (names, name, value) => Reflect.defineProperty(names, name, { value, writable: true, configurable: true }),
};

function functionOf(code) {
  let found = compiled.get(code);
  if (found === undefined) {
    if (compiled.size >= MOST_COMPILED) compiled.delete(compiled.keys().next().value);
    compiled.set(code, (found = compile(code)));
  }
  return found;
}

/** What does not fail by n8n's own doing comes to nothing, an error of JavaScript's included. */
function valueOf(code, scope) {
  const run = functionOf(code);
  try {
    return run(scope);
  } catch (error) {
    if (error instanceof Fault || error instanceof Missing) throw error;
    if (isExhaustion(error)) throw new Fault(error.message);
    return undefined;
  }
}

function textOf(value) {
  if (typeof value === "symbol") throw new Fault("a symbol is not a value");
  return value === null || value === undefined || Number.isNaN(value) ? "" : String(value);
}

function resultOf(parts, scope) {
  if (parts.length > 1) return parts.map((part) => (part.code ? textOf(valueOf(part.code, scope)) : part)).join("");
  const value = valueOf(parts[0].code, scope);
  if (typeof value === "function") throw new Fault("this is a function, please add ()");
  if (typeof value === "symbol") throw new Fault("a symbol is not a value");
  return value;
}

function answer(parts, scope) {
  try {
    return `{"v":${JSON.stringify(resultOf(parts, scope)) ?? "null"}}`;
  } catch (error) {
    return JSON.stringify({ e: String(error?.message ?? error) });
  }
}

BigInt.prototype.toJSON = function () {
  return String(this);
};

globalThis.__convoq = function evaluate(request) {
  const { templates, zone, index, run, extra, limit } = JSON.parse(request);
  Settings.defaultZone = zone;
  const missing = new Set();
  const results = templates.map((parts) => {
    // Each template has data of its own: what one does to it the next does not see.
    const { known } = JSON.parse(request);
    const names = namesOf(needing(known, missing), { own: index, index, run }, extra);
    const found = answer(parts, new Proxy(names, lookup));
    return found.length <= limit ? found : JSON.stringify({ e: `the value has more than ${limit} characters` });
  });
  return missing.size ? JSON.stringify({ missing: [...missing] }) : `{"results":[${results.join(",")}]}`;
};

harden();
