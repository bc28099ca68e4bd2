// What n8n's documentation lists as methods of strings.

const { Fault, extensions, toUtf8, fromUtf8, toBase64, fromBase64 } = convoq;

const EMAIL =
  /(?:[^<>()[\]\\.,;:\s@"]+(?:\.[^<>()[\]\\.,;:\s@"]+)*|".+")@(?:\[\d{1,3}(?:\.\d{1,3}){3}\]|(?:[a-zA-Z0-9-]+\.)+[a-zA-Z]{2,})/;
const HOST = /(?:localhost|\d{1,3}(?:\.\d{1,3}){3}|(?:[\w-]+\.)+[a-zA-Z]{2,})/.source;
const END = /(?::\d+)?(?:[/?#]\S*)?$/.source;
const DOMAIN = new RegExp(`^${HOST}${END}`);
const DOMAIN_WITHIN = new RegExp(`^(?:[a-zA-Z][\\w+.-]*:)?(?://)?(?:[^\\s/]*@)?(${HOST})${END}`);
const URL_WITHIN = new RegExp(`(?:https?|ftp)://${HOST}\\S*`, "i");
const HASHES = {
  sha1: "SHA-1",
  sha224: "SHA-224",
  sha256: "SHA-256",
  sha384: "SHA-384",
  sha512: "SHA-512",
  sha3: "SHA3-512",
};

function hash(text, [algorithm]) {
  const name = String(algorithm ?? "md5").toLowerCase();
  if (name === "md5") return md5(text);
  if (name === "base64") return toBase64(toUtf8(text));
  if (!Object.hasOwn(HASHES, name)) {
    throw new Fault(`unknown algorithm ${algorithm}: there are md5, ${Object.keys(HASHES).join(", ")} and base64`);
  }
  return new jssha(HASHES[name], "TEXT", { encoding: "UTF8" }).update(text).getHash("HEX");
}

function finite(number, what) {
  if (Number.isNaN(number)) throw new Fault(`cannot convert to ${what}`);
  return number;
}

function toFloat(text) {
  if (text.includes(",")) throw new Fault("cannot convert to float, expected . as decimal separator");
  return finite(parseFloat(text), "float");
}

const toInt = (text, [radix]) => finite(parseInt(text, radix), "integer");

function toDate(text) {
  const date = new Date(text);
  finite(date.getTime(), "date");
  return date;
}

function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Fault(text.includes("'") ? "Parsing failed. Check you're using double quotes" : "Parsing failed");
  }
}

/** After the npm package remove-markdown (MIT). */
function removeMarkdown(text) {
  return text
    .replace(/^([\s\t]*)(?:[*\-+]|\d\.)\s+/gm, "$1")
    .replace(/\n={2,}/g, "\n")
    .replace(/~~/g, "")
    .replace(/`{3}.*\n/g, "")
    .replace(/<[\w|\s=|'":(),;/0-9.-]+[>|\\]/g, "")
    .replace(/^[=-]{2,}\s*$/g, "")
    .replace(/\[\^.+?\](: .*?$)?/g, "")
    .replace(/\s{0,2}\[.*?\]: .*?$/g, "")
    .replace(/!\[.*?\][[(].*?[\])]/g, "")
    .replace(/\[(.*?)\][[(].*?[\])]/g, "$1")
    .replace(/>/g, "")
    .replace(/^\s{1,2}\[(.*?)\]: (\S+)( ".*?")?\s*$/g, "")
    .replace(/^#{1,6}\s*([^#]*)\s*(#{1,6})?/gm, "$1")
    .replace(/([*_]{1,3})(\S.*?\S)\1/g, "$2")
    .replace(/(`{3,})(.*?)\1/gm, "$2")
    .replace(/^-{3,}\s*$/g, "")
    .replace(/`(.+?)`/g, "$1")
    .replace(/\n{2,}/g, "\n\n");
}

/** The first letter after each end of a sentence is a capital. */
function toSentenceCase(text) {
  return text.toLowerCase().replace(/[^.!?]+/g, (part) => part.replace(/\p{L}/u, (letter) => letter.toUpperCase()));
}

function toSnakeCase(text) {
  return text
    .toLowerCase()
    .replace(/[ -]/g, "_")
    .replace(/[!-,./:-@[-^`{-~]/g, "");
}

function quote(text, [mark = '"']) {
  return mark + text.replaceAll("\\", "\\\\").replaceAll(mark, `\\${mark}`) + mark;
}

/** As the URL standard has it. */
function extractUrlPath(text) {
  const found = /^\s*(?:https?|ftp|file|wss?):[/\\]*([^/?#\\]*)([^?#]*)/i.exec(text);
  if (!found || /\s/.test(found[1])) return undefined;
  return encodeURI(found[2].trimEnd().replaceAll("\\", "/")).replaceAll("%25", "%") || "/";
}

extensions("String", {
  hash,
  removeMarkdown,
  removeTags: (text) => text.replace(/<[^>]*>?/gm, ""),
  toDate,
  toDateTime: (text, [format]) => convoq.dateTimeOf(text, format),
  toBoolean: (text) => !["false", "0", "no", ""].includes(text.toLowerCase()),
  toDecimalNumber: toFloat,
  toNumber: (text) => finite(Number(text), "number"),
  toFloat,
  toInt,
  toWholeNumber: toInt,
  toSentenceCase,
  toSnakeCase,
  toTitleCase: (text) => titlecase.titleCase(text),
  urlDecode: (text, [kept]) => (kept ? decodeURI(text) : decodeURIComponent(text)),
  urlEncode: (text, [kept]) => (kept ? encodeURI(text) : encodeURIComponent(text)),
  quote,
  replaceSpecialChars: (text) => transliteration.transliterate(text, { unknown: "?" }),
  length: (text) => text.length,
  isDomain: (text) => DOMAIN.test(text),
  isEmail: (text) => EMAIL.test(text) && !/\s./s.test(text),
  isNumeric: (text) => text.trim() === text && text !== "" && !Number.isNaN(Number(text)),
  isUrl: (text) => URL_WITHIN.exec(text)?.[0] === text,
  isEmpty: (text) => text === "",
  isNotEmpty: (text) => text !== "",
  toJsonString: (text) => JSON.stringify(text),
  extractEmail: (text) => EMAIL.exec(text)?.[0],
  extractDomain: (text) => DOMAIN_WITHIN.exec(text)?.[1],
  extractUrl: (text) => URL_WITHIN.exec(text)?.[0],
  extractUrlPath,
  parseJson,
  base64Encode: (text) => toBase64(toUtf8(text)),
  base64Decode: (text) => fromUtf8(fromBase64(text.replaceAll("=", ""))),
});
