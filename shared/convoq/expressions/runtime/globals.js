// What of JavaScript's own an expression can name. Names of n8n's that lead nowhere are empty objects, as there.

const names = `Array ArrayBuffer BigInt BigInt64Array BigUint64Array Boolean DataView Date Error EvalError Float32Array
  Float64Array Infinity Int16Array Int32Array Int8Array Intl JSON Map Math NaN Number Object RangeError ReferenceError
  RegExp Set String Symbol SyntaxError TypeError URIError Uint16Array Uint32Array Uint8Array Uint8ClampedArray WeakMap
  WeakSet decodeURI decodeURIComponent encodeURI encodeURIComponent isFinite isNaN parseFloat parseInt`;
const closed = "Function Promise Proxy Reflect WebAssembly eval global globalThis process";

convoq.globals = Object.assign(
  Object.create(null),
  Object.fromEntries(closed.split(" ").map((name) => [name, Object.freeze({})])),
  Object.fromEntries(names.split(/\s+/).map((name) => [name, globalThis[name]])),
);
