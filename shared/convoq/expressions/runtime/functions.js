// The functions that an expression can call by name.

const { Fault, extend } = convoq;

function isNothing(value) {
  if (typeof value === "object" && value !== null) return Object.keys(value).length === 0;
  return value === "" || value === null || value === undefined;
}

function search(data, query) {
  if (typeof data !== "object" || typeof query !== "string") {
    throw new Fault("expected two arguments (Object, string) for this function");
  }
  return jmespath.search(data, query);
}

function $if(...given) {
  if (given.length < 2) throw new Fault("$if() takes a condition, what to give if it holds and what to give if not");
  const [condition, then, otherwise] = given;
  if (condition) return then;
  return given.length > 2 ? otherwise : false;
}

function $ifEmpty(...given) {
  if (given.length !== 2) throw new Fault("expected two arguments (value, defaultValue) for this function");
  return isNothing(given[0]) ? given[1] : given[0];
}

const average = (...numbers) => extend(numbers, "average", []);

/** `from` to `to`, both included. */
function numberList(from, to) {
  const step = to < from ? -1 : 1;
  return Array.from({ length: Math.abs(to - from) + 1 }, (_, index) => from + index * step);
}

/** An object of keys and values. */
function zip(keys, values) {
  if (!Array.isArray(keys) || !Array.isArray(values)) throw new Fault("keys and values must be arrays");
  if (keys.length !== values.length) throw new Fault("keys and values not of equal length");
  return Object.fromEntries(keys.map((key, index) => [key, values[index]]));
}

const not = (value) => !value;

convoq.functions = {
  $if,
  $ifEmpty,
  $not: not,
  $min: Math.min,
  $max: Math.max,
  $average: average,
  $jmespath: search,
  $jmesPath: search,
  average,
  extend,
  max: Math.max,
  min: Math.min,
  not,
  numberList,
  zip,
};
