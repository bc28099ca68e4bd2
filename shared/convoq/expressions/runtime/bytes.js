// UTF-8 and base64, which V8 alone has not, as Node's Buffer does them.

function toUtf8(text) {
  const written = encodeURIComponent(String(text).toWellFormed());
  const bytes = [];
  for (let at = 0; at < written.length; at++) {
    if (written[at] !== "%") {
      bytes.push(written.charCodeAt(at));
    } else {
      bytes.push(parseInt(written.slice(at + 1, at + 3), 16));
      at += 2;
    }
  }
  return Uint8Array.from(bytes);
}

/** For a first byte: how many follow, and the least and greatest second byte (the Unicode standard's table 3-7). */
function sequence(byte) {
  if (byte < 0xc2 || byte > 0xf4) return undefined;
  if (byte < 0xe0) return [1, 0x80, 0xbf];
  if (byte < 0xf0) return [2, byte === 0xe0 ? 0xa0 : 0x80, byte === 0xed ? 0x9f : 0xbf];
  return [3, byte === 0xf0 ? 0x90 : 0x80, byte === 0xf4 ? 0x8f : 0xbf];
}

/** With U+FFFD for each maximal part that is no UTF-8. */
function fromUtf8(bytes) {
  const parts = [];
  let codes = [];
  for (let at = 0; at < bytes.length;) {
    const byte = bytes[at++];
    let code = byte;
    if (byte >= 0x80) {
      const [count, least, greatest] = sequence(byte) ?? [0];
      code = count ? byte & (0x3f >> count) : 0xfffd;
      for (let follows = 0; follows < count; follows++) {
        const next = bytes[at];
        if (!(next >= (follows ? 0x80 : least) && next <= (follows ? 0xbf : greatest))) {
          code = 0xfffd;
          break;
        }
        code = (code << 6) | (next & 0x3f);
        at++;
      }
    }
    codes.push(code);
    if (codes.length === 4096) {
      parts.push(String.fromCodePoint(...codes));
      codes = [];
    }
  }
  return parts.join("") + String.fromCodePoint(...codes);
}

/** What is not of the alphabet is skipped, both alphabets are taken, and `=` ends it. */
function fromBase64(text) {
  const clean = String(text)
    .split("=", 1)[0]
    .replace(/[^\w+/-]/g, "")
    .replaceAll("-", "+")
    .replaceAll("_", "/");
  return Uint8Array.fromBase64(clean.length % 4 === 1 ? clean.slice(0, -1) : clean);
}

Object.assign(convoq, { toUtf8, fromUtf8, fromBase64, toBase64: (bytes) => bytes.toBase64() });
