// The door for Code nodes: one request, one answer, both JSON; the realm is made for it alone.
//
// Request: `{code, mode, goOn, known, zone, run, index, count, extra, stored, limit}`; `mode` is `all`, `each` (`goOn`:
// after a failure, too) or `value`.
// Answer: `{items | results | value | error, log, stored}` or `{missing: [key, …]}`. A result is `{item}` or `{error}`,
// an error `{message, line}`.

const { itemsOf, namesOf, needing, oneOf } = convoq;
const MOST_LINES = 100;
const LONGEST_LINE = 2000;
const AsyncFunction = (async () => {}).constructor;
/** The lines that stand before the code in the function made of it. */
const LINES_BEFORE = 2;

const log = [];
function print(...values) {
  if (log.length >= MOST_LINES) return;
  const line = values
    .map((value) => (typeof value === "string" ? value : (JSON.stringify(value) ?? String(value))))
    .join(" ");
  log.push(line.slice(0, LONGEST_LINE));
}
globalThis.console = Object.fromEntries(
  ["log", "info", "warn", "error", "debug", "trace", "dir", "table"].map((name) => [name, print]),
);

function told(error) {
  if (!(error instanceof Error)) return { message: JSON.stringify(error) ?? String(error) };
  const line = Number(/\(eval at [^)]*\), <anonymous>:(\d+):\d+\)/.exec(error.stack)?.[1]) - LINES_BEFORE;
  return { message: String(error.message || error.name).split("\n", 1)[0], line: line > 0 ? line : undefined };
}

/** Where the code runs once for each item, what is of all of them is refused, as in n8n. */
function restricted(input) {
  for (const name of ["first", "last", "all"]) {
    input[name] = () => {
      throw new Error(`Can't use .${name}() here`);
    };
  }
  return input;
}

/** The names become globals, so that names of the code's own may hide them. */
function publish(names) {
  for (const [name, found] of Object.entries(Object.getOwnPropertyDescriptors(names))) {
    Object.defineProperty(globalThis, name, { ...found, configurable: true });
  }
}

const helpers = new Proxy(Object.create(null), {
  get(_, name) {
    throw new Error(`this.helpers.${String(name)} is not available in Code nodes here: use a node for it`);
  },
});

async function each(call, at, { count, goOn }) {
  const results = [];
  for (at.index = 0; at.index < count; at.index++) {
    try {
      results.push({ item: oneOf(await call(), at.index) });
    } catch (error) {
      results.push({ error: told(error) });
      if (!goOn) break;
    }
  }
  return results;
}

async function outcome(request, need) {
  const { code, mode, index, run, extra, stored } = request;
  const at = { index, run };
  const names = namesOf(need, at, extra);
  const getWorkflowStaticData = (type) => (stored[type] ??= {});
  publish(names);
  publish({ $getWorkflowStaticData: getWorkflowStaticData });
  try {
    const made = new AsyncFunction(code);
    const call = () => made.call({ helpers, getWorkflowStaticData });
    if (mode === "value") return { value: await call() };
    if (mode === "each") {
      publish({
        $input: restricted(names.$input),
        get item() {
          return names.$input.item;
        },
      });
      return { results: await each(call, at, request) };
    }
    publish({
      get items() {
        return need("items");
      },
    });
    return { items: itemsOf(await call()) };
  } catch (error) {
    return { error: told(error) };
  }
}

globalThis.__convoq = async function run(text) {
  const request = JSON.parse(text);
  const { known, zone, stored, limit } = request;
  luxon.Settings.defaultZone = zone;
  const missing = new Set();
  const found = await outcome(request, needing(known, missing));
  if (missing.size) return JSON.stringify({ missing: [...missing] });
  let answer;
  try {
    answer = JSON.stringify({ ...found, log, stored });
  } catch (error) {
    answer = JSON.stringify({ error: told(error), log });
  }
  if (answer.length <= limit) return answer;
  return JSON.stringify({ error: { message: `the value has more than ${limit} characters` }, log });
};
