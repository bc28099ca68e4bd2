// What n8n's documentation lists as methods of arrays.

const { Fault, extensions, isDate } = convoq;

const isObject = (value) => typeof value === "object" && value !== null;

/** Equal in all their parts. */
function same(one, other) {
  if (Object.is(one, other)) return true;
  if (!isObject(one) || !isObject(other)) return false;
  if (isDate(one) && isDate(other)) return +one === +other;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const names = Object.keys(one);
  if (names.length !== Object.keys(other).length) return false;
  return names.every((name) => Object.hasOwn(other, name) && same(one[name], other[name]));
}

const has = (values, one) => values.some((value) => same(value, one));

function unique(values, given) {
  const names = given.flat().filter((name) => name !== undefined && name !== null && name !== "");
  const part = (value) => (names.length && isObject(value) ? names.map((name) => value[name]) : value);
  const seen = [];
  return values.filter((value) => {
    const one = part(value);
    return !has(seen, one) && seen.push(one);
  });
}

function pluck(values, names) {
  if (names.length === 0) return values;
  return values.filter(isObject).flatMap((value) => {
    const fields = Object.keys(value);
    const found = names.filter((name) => fields.includes(name)).map((name) => value[name]);
    if (found.length === 0) return [];
    return [found.length === 1 ? found[0] : found];
  });
}

function numbers(values, method) {
  if (!values.every((value) => typeof value === "number")) {
    throw new Fault(`${method}(): all array elements must be numbers`);
  }
  return values;
}

const sum = (values, method = "sum") => numbers(values, method).reduce((total, value) => total + value, 0);

function isNothing(value) {
  if (isObject(value)) return Object.keys(value).length === 0;
  return value === null || value === undefined || value === "" || value === "nil";
}

/** An object without such fields, inside it, too; a list inside becomes an object of its places, as in n8n. */
function compacted(object) {
  const kept = Object.entries(object).filter(([, value]) => !isNothing(value));
  return Object.fromEntries(kept.map(([name, value]) => [name, isObject(value) ? compacted(value) : value]));
}

function smartJoin(values, given) {
  const [from, to] = given;
  if (typeof from !== "string" || typeof to !== "string" || !from || !to) {
    throw new Fault('smartJoin(): expected two string args, e.g. .smartJoin("name", "value")');
  }
  const joined = values.filter((value) => isObject(value) && from in value && to in value);
  return Object.fromEntries(joined.map((value) => [value[from], value[to]]));
}

function chunk(values, [length]) {
  if (typeof length !== "number" || !(length > 0)) {
    throw new Fault("chunk(): expected a number above zero, e.g. .chunk(5)");
  }
  const parts = [];
  for (let at = 0; at < values.length; at += length) parts.push(values.slice(at, at + length));
  return parts;
}

function renameKeys(values, given) {
  const names = given.flat();
  if (names.length === 0 || names.length % 2 !== 0) {
    throw new Fault('renameKeys(): expected an even amount of args, e.g. .renameKeys("from", "to")');
  }
  return values.map((value) => {
    if (!isObject(value)) return value;
    const renamed = { ...value };
    for (let at = 0; at < names.length; at += 2) {
      if (!Object.hasOwn(renamed, names[at])) continue;
      const moved = renamed[names[at]];
      delete renamed[names[at]];
      renamed[names[at + 1]] = moved;
    }
    return renamed;
  });
}

function listed(other, method) {
  if (Array.isArray(other)) return other;
  throw new Fault(`${method}(): expected array arg, e.g. .${method}([1, 2, 3, 4])`);
}

/** One object of all, in which this list has its say over the other. */
function mergeIntoObject(values, [other]) {
  return Object.assign({}, ...[...listed(other, "mergeIntoObject"), ...values].filter(isObject));
}

/** One object of those at the same place in both lists, this list having its say; without another, of all, the first
 *  to name a field having its say. */
function merge(values, given) {
  const made = {};
  if (given.length === 0) {
    const objects = values.filter((value) => isObject(value) && !Array.isArray(value));
    return Object.assign(made, ...objects.reverse());
  }
  listed(given[0], "merge").forEach((value, at) => {
    if (typeof value === "object" && typeof values[at] === "object") Object.assign(made, value, values[at]);
  });
  return made;
}

extensions("Array", {
  removeDuplicates: unique,
  unique,
  first: (values) => values[0],
  last: (values) => values[values.length - 1],
  reverse: (values) => [...values].reverse(),
  pluck,
  randomItem: (values) => values[Math.floor(Math.random() * values.length)],
  sum: (values) => sum(values),
  min: (values) => Math.min(...numbers(values, "min")),
  max: (values) => Math.max(...numbers(values, "max")),
  average: (values) => (values.length ? sum(values, "average") / values.length : 0),
  isNotEmpty: (values) => values.length > 0,
  isEmpty: (values) => values.length === 0,
  compact: (values) => values.filter((one) => !isNothing(one)).map((one) => (isObject(one) ? compacted(one) : one)),
  smartJoin,
  chunk,
  renameKeys,
  merge,
  mergeIntoObject,
  union: (values, [other]) => unique([...values, ...listed(other, "union")], []),
  difference: (values, [other]) => unique(values, []).filter((one) => !has(listed(other, "difference"), one)),
  intersection: (values, [other]) => unique(values, []).filter((one) => has(listed(other, "intersection"), one)),
  append: (values, given) => [...values, ...given],
  toJsonString: (values) => JSON.stringify(values),
  toInt: () => undefined,
  toFloat: () => undefined,
  toBoolean: () => undefined,
  toDateTime: () => undefined,
});

Object.assign(convoq, { compacted, isObject });
