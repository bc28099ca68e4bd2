// What of Node's globals n8n gives to Code nodes.

const { toUtf8, fromUtf8, fromBase64, toBase64 } = convoq;

const ENCODERS = {
  utf8: toUtf8,
  base64: fromBase64,
  hex: (text) => Uint8Array.from(text.match(/^(?:[0-9a-f]{2})*/i)[0].match(/../g) ?? [], (pair) => parseInt(pair, 16)),
  latin1: (text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0)),
  utf16le: (text) =>
    Uint8Array.from({ length: 2 * text.length }, (_, at) => text.charCodeAt(at >> 1) >> (8 * (at % 2))),
};
const DECODERS = {
  utf8: fromUtf8,
  base64: toBase64,
  base64url: (bytes) => toBase64(bytes).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, ""),
  hex: (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(""),
  latin1: (bytes) => Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""),
  utf16le: (bytes) =>
    Array.from({ length: bytes.length >> 1 }, (_, at) =>
      String.fromCharCode(bytes[2 * at] | (bytes[2 * at + 1] << 8)),
    ).join(""),
};
const ALIASES = {
  "utf-8": "utf8",
  binary: "latin1",
  ascii: "latin1",
  base64url: "base64",
  ucs2: "utf16le",
  "utf-16le": "utf16le",
};

function coder(coders, encoding = "utf8") {
  const name = String(encoding).toLowerCase();
  const found = coders[name] ?? coders[ALIASES[name]];
  if (found === undefined) throw new TypeError(`Unknown encoding: ${encoding}`);
  return found;
}

/** The part of Node's Buffer that works on texts and bytes in memory. */
class Buffer extends Uint8Array {
  static from(value, encoding) {
    if (typeof value === "string") value = coder(ENCODERS, encoding)(value);
    else if (value?.type === "Buffer" && Array.isArray(value.data)) value = value.data;
    else if (value instanceof ArrayBuffer) return new Buffer(value);
    const made = new Buffer(value.length);
    made.set(value);
    return made;
  }

  static alloc(size, fill = 0) {
    return new Buffer(size).fill(fill);
  }

  static allocUnsafe(size) {
    return new Buffer(size);
  }

  static concat(parts) {
    return Buffer.from(parts.flatMap((part) => [...part]));
  }

  static isBuffer(value) {
    return value instanceof Buffer;
  }

  static byteLength(value, encoding) {
    return typeof value === "string" ? Buffer.from(value, encoding).length : value.byteLength;
  }

  toString(encoding, start = 0, end = this.length) {
    return coder(DECODERS, encoding)(this.subarray(start, end));
  }

  equals(other) {
    return this.length === other.length && this.every((byte, at) => byte === other[at]);
  }

  slice(start, end) {
    return this.subarray(start, end);
  }

  toJSON() {
    return { type: "Buffer", data: Array.from(this) };
  }
}

class TextEncoder {
  encode(text = "") {
    return toUtf8(text);
  }
}

class TextDecoder {
  decode(bytes = []) {
    return fromUtf8(ArrayBuffer.isView(bytes) ? bytes : new Uint8Array(bytes)).replace(/^\ufeff/, "");
  }
}

const wait = globalThis.setTimeout;

/** The engine's own cannot wait for no time. */
function setTimeout(call, delay, ...given) {
  return wait(call, Math.max(1, Number(delay) || 0), ...given);
}

function setInterval(call, delay, ...given) {
  const timer = {};
  const again = () => {
    call(...given);
    timer.id = setTimeout(again, delay);
  };
  timer.id = setTimeout(again, delay);
  return timer;
}

delete globalThis.WebAssembly;
BigInt.prototype.toJSON = function () {
  return String(this);
};
Object.assign(globalThis, {
  Buffer,
  TextEncoder,
  TextDecoder,
  atob: (text) => DECODERS.latin1(fromBase64(text)),
  btoa: (text) => toBase64(ENCODERS.latin1(String(text))),
  setTimeout,
  setInterval,
  clearInterval: (timer) => clearTimeout(timer?.id),
  setImmediate: (call, ...given) => setTimeout(call, 0, ...given),
  clearImmediate: (timer) => clearTimeout(timer),
  module: { exports: {} },
  require(name) {
    throw new Error(`Module '${name}' is disallowed`);
  },
});
