// What an expression fails with, as against what merely comes to nothing.

class Fault extends Error {}
Fault.prototype.name = "Fault";

/** Names that lead to an object's class or prototype, or change what a property is. */
const FORBIDDEN = new Set([
  "__proto__",
  "prototype",
  "constructor",
  "getPrototypeOf",
  "setPrototypeOf",
  "defineProperty",
  "defineProperties",
  "getOwnPropertyDescriptor",
  "getOwnPropertyDescriptors",
  "__defineGetter__",
  "__defineSetter__",
  "__lookupGetter__",
  "__lookupSetter__",
  "caller",
  "callee",
  "arguments",
]);

function refuse(name) {
  if (FORBIDDEN.has(name)) throw new Fault(`access to "${name}" is not allowed in an expression`);
}

/** A computed key, once it is known. */
function key(value) {
  const name = typeof value === "symbol" || typeof value === "number" ? value : String(value);
  if (typeof name === "string") refuse(name);
  return name;
}

/** Whether an error says that the engine's own bounds were met. */
function isExhaustion(error) {
  return error instanceof RangeError && /call stack|string length|allocation failed/.test(error.message);
}

Object.assign(convoq, { Fault, refuse, key, isExhaustion });
