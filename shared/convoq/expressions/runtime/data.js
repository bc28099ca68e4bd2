// What an expression or a Code node sees of its run. Data that the worker has not handed over is asked for: `need`
// throws, the names of all that was missing go back, and the evaluation begins again with them.

const { Fault, functions } = convoq;
const { DateTime } = luxon;

class Missing extends Error {}

/** `known` holds `{v}` or `{e: message}` by the key's JSON; what is not there is added to `missing`. */
function needing(known, missing) {
  return (...key) => {
    const name = JSON.stringify(key);
    const found = known[name];
    if (found === undefined) {
      missing.add(name);
      throw new Missing(name);
    }
    if ("e" in found) throw new Fault(found.e);
    return found.v;
  };
}

function only(found) {
  if ("e" in found) throw new Fault(found.e);
  return found.v;
}

/** `$('name')`: n8n's accessors of another node. Without an output it is the one that leads here, without a run the
 *  last. */
class OtherNode {
  #need;
  #name;
  #at;

  constructor(need, name, at) {
    this.#need = need;
    this.#name = name;
    this.#at = at;
  }

  get item() {
    return this.pairedItem();
  }

  pairedItem(index = this.#at.index) {
    const known = this.#need("paired", this.#name);
    return Object.hasOwn(known, index) ? only(known[index]) : this.#need("pairedAt", this.#name, index);
  }

  itemMatching(index) {
    return this.pairedItem(index);
  }

  first(output, run) {
    return this.#need("first", this.#name, output ?? null, run ?? null);
  }

  last(output, run) {
    return this.#need("last", this.#name, output ?? null, run ?? null);
  }

  all(output, run) {
    return this.#need("all", this.#name, output ?? null, run ?? null);
  }

  get params() {
    return this.#need("parameters", this.#name);
  }

  get isExecuted() {
    return this.#need("ran", this.#name);
  }

  get context() {
    return this.#need("kept", this.#name);
  }
}

/** `$node["name"]`: the item at the same place, whatever it came from. */
class OldNode {
  #need;
  #name;
  #at;

  constructor(need, name, at) {
    this.#need = need;
    this.#name = name;
    this.#at = at;
  }

  get json() {
    return this.#need("at", this.#name, this.#at.index).json;
  }

  get data() {
    return this.json;
  }

  get binary() {
    return this.#need("at", this.#name, this.#at.index).binary ?? {};
  }

  get parameter() {
    return this.#need("parameters", this.#name);
  }

  get runIndex() {
    return this.#need("lastRun", this.#name);
  }

  get context() {
    return this.#need("kept", this.#name);
  }
}

function none(given, method) {
  if (given.length) throw new Fault(`$input.${method}() takes no arguments: to get another node's items use $('Node')`);
}

function inputOf(need, item) {
  return {
    get item() {
      return item();
    },
    first(...given) {
      none(given, "first");
      return need("items").at(0);
    },
    last(...given) {
      none(given, "last");
      return need("items").at(-1);
    },
    all(...given) {
      none(given, "all");
      return need("items");
    },
    get params() {
      return need("parameters", null);
    },
    get context() {
      return need("kept", null);
    },
  };
}

function fromAI(need) {
  return (key, description, type, otherwise) => {
    if (typeof key !== "string" || !/^[\w-]{1,64}$/.test(key)) {
      throw new Fault(`$fromAI() needs a key of letters, digits, _ and -, at most 64: got ${JSON.stringify(key)}`);
    }
    const given = need("fromAI") ?? {};
    return Object.hasOwn(given, key) ? given[key] : otherwise;
  };
}

/** Kept by the run only: nothing reads it. */
function customData() {
  const kept = {};
  return {
    set: (key, value) => void (kept[key] = String(value)),
    setAll: (given) => void Object.assign(kept, given),
    get: (key) => kept[key],
    getAll: () => ({ ...kept }),
  };
}

/** The names an expression sees, each made when it is looked at. `at` is `{index, run, own}`: the item, the run, and
 *  which item is at hand alone. */
function namesOf(need, at, extra) {
  const item = () => (at.index === at.own ? need("item") : (need("items")[at.index] ?? null));
  const today = { hour: 0, minute: 0, second: 0, millisecond: 0 };
  const ai = fromAI(need);
  return {
    __proto__: null,
    get $json() {
      return item()?.json;
    },
    get $data() {
      return item()?.json;
    },
    get $binary() {
      return item()?.binary ?? {};
    },
    get $input() {
      return inputOf(need, item);
    },
    get $thisItem() {
      return item();
    },
    $: (name) => new OtherNode(need, String(name), at),
    get $node() {
      return new Proxy({}, { get: (_, name) => new OldNode(need, String(name), at) });
    },
    $items: (name, output, run) => (name === undefined ? need("items") : need("all", name, output ?? 0, run ?? null)),
    $item: (other) => namesOf(need, { ...at, index: Number(other) }, extra),
    get $prevNode() {
      return need("previous");
    },
    get $workflow() {
      return need("workflow");
    },
    get $execution() {
      return { ...need("execution"), customData: customData() };
    },
    get $mode() {
      return need("execution").mode === "test" ? "manual" : "webhook";
    },
    get $vars() {
      return need("variables");
    },
    get $env() {
      return need("environment");
    },
    get $parameter() {
      return need("parameters", null);
    },
    get $rawParameter() {
      return need("parameters", null);
    },
    get $now() {
      return DateTime.now();
    },
    get $today() {
      return DateTime.now().set(today);
    },
    get $itemIndex() {
      return at.index;
    },
    get $position() {
      return at.index;
    },
    get $thisItemIndex() {
      return at.index;
    },
    $runIndex: at.run,
    $thisRunIndex: at.run,
    $secrets: {},
    $self: {},
    $fromAI: ai,
    $fromAi: ai,
    $fromai: ai,
    DateTime,
    Duration: luxon.Duration,
    Interval: luxon.Interval,
    ...functions,
    ...extra,
  };
}

Object.assign(convoq, { Missing, OldNode, OtherNode, namesOf, needing });
