// What Code nodes may return, and the items that n8n makes of it.

const KEYS = new Set(["json", "binary", "pairedItem", "error", "index"]);
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

class Unfit extends Error {
  constructor(message, item) {
    super(item === undefined ? message : `${message} [item ${item}]`);
    this.item = item;
  }
}

function jsonOf(value, index) {
  if (!isObject(value)) throw new Unfit("A 'json' property isn't an object", index);
  return value;
}

function itemOf(value, index) {
  const { json, binary, pairedItem, error } = value;
  return { json: error === undefined ? jsonOf(json, index) : {}, binary, pairedItem, error };
}

/** Of a run over all items. */
function itemsOf(value) {
  if (value === null) return [];
  const values = Array.isArray(value) ? value : [value];
  if (!values.every(isObject)) throw new Unfit("Code doesn't return items properly");
  if (!values.some((one) => Object.keys(one).some((name) => KEYS.has(name)))) return values.map((json) => ({ json }));
  return values.map((one, index) => {
    const unknown = Object.keys(one).filter((name) => !KEYS.has(name));
    if (unknown.length) throw new Unfit(`Unknown top-level item key: ${unknown.join(", ")}`, index);
    return itemOf(one, index);
  });
}

/** Of a run for one item; undefined where there is none. */
function oneOf(value, index) {
  if (value === null || value === undefined) return undefined;
  if (!isObject(value)) throw new Unfit("A 'json' property isn't an object", index);
  const item = Object.keys(value).some((name) => KEYS.has(name)) ? itemOf(value, index) : { json: value };
  return { ...item, pairedItem: item.pairedItem ?? { item: index } };
}

Object.assign(convoq, { itemsOf, oneOf });
