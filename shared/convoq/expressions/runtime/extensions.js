// The methods that n8n adds to values, dispatched by the type of the value. A method of a type is
// `(value, args) => result`; `convoq.extensions` holds them by type.

const { Fault } = convoq;

/** By type name as people are told it. */
const types = { Array: {}, Date: {}, Number: {}, Object: {}, String: {}, Boolean: {} };
/** Method name -> the symbol by which it is found on every value. */
const methods = Object.create(null);

const isDate = (value) => value instanceof Date || luxon.DateTime.isDateTime(value);

/** A text that is exactly what `toISOString` makes counts as a date, as in n8n. */
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

function typeOf(value) {
  switch (typeof value) {
    case "string":
      return ISO.test(value) && !Number.isNaN(Date.parse(value)) ? "Date" : "String";
    case "number":
      return "Number";
    case "boolean":
      return "Boolean";
    case "object":
      if (value === null) return undefined;
      if (Array.isArray(value)) return "Array";
      return isDate(value) ? "Date" : "Object";
    default:
      return undefined;
  }
}

function listed(names) {
  const quoted = names.map((name) => `"${name}"`);
  if (quoted.length === 1) return `type ${quoted[0]}`;
  return `types ${quoted.slice(0, -1).join(", ")}, and ${quoted.at(-1)}`;
}

function extend(value, name, given) {
  if (value === null || value === undefined) {
    if (name === "isEmpty") return true;
    if (name === "isNotEmpty") return false;
    throw new Fault(`${name} can't be used on ${value} value`);
  }
  const type = typeOf(value);
  if (type && Object.hasOwn(types[type], name)) return types[type][name](value, given);
  if (typeof value[name] === "function") return value[name](...given);
  if (name === "isEmpty") return !value;
  if (name === "isNotEmpty") return Boolean(value);
  const takers = Object.keys(types).filter((one) => Object.hasOwn(types[one], name));
  throw new Fault(`${name}() is only callable on ${listed(takers)}`);
}

/** Add methods to a type. */
function extensions(type, added) {
  Object.assign(types[type], added);
  for (const name of Object.keys(added)) {
    if (name in methods) continue;
    const symbol = (methods[name] = Symbol(name));
    const method = function (...given) {
      return extend(this instanceof Nullish ? this.value : this, name, given);
    };
    Object.defineProperty(Object.prototype, symbol, { value: method });
  }
}

class Nullish {
  constructor(value) {
    this.value = value;
  }
}
const NULL = Object.freeze(new Nullish(null));
const UNDEFINED = Object.freeze(new Nullish(undefined));

/** The value, or what stands for it so that an extension method is found. */
const some = (value) => value ?? (value === null ? NULL : UNDEFINED);

/** `value[member](key)` is `some(value[key])`. */
const member = Symbol("member");
Object.defineProperty(Object.prototype, member, {
  value(key) {
    return some(this[key]);
  },
});

Object.assign(convoq, { extend, extensions, isDate, member, methods, some });
