// What n8n's documentation lists as methods of objects.

const { Fault, compacted, extensions } = convoq;

function without(object, drop) {
  return Object.fromEntries(Object.entries(object).filter(([name, value]) => !drop(name, value)));
}

function searched(given, method) {
  const [text] = given;
  if (typeof text !== "string" || text === "") throw new Fault(`${method}(): expected non-empty string arg`);
  return (value) => typeof value === "string" && value.includes(text);
}

function removeFieldsContaining(object, given) {
  const contains = searched(given, "removeFieldsContaining");
  return without(object, (_, value) => contains(value));
}

function keepFieldsContaining(object, given) {
  const contains = searched(given, "keepFieldsContaining");
  return without(object, (_, value) => !contains(value));
}

/** As a query or a form has it: `a=1&b=x+y`. */
function urlEncode(object) {
  const written = (value) =>
    encodeURIComponent(String(value).toWellFormed())
      .replace(/[!'()~]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`)
      .replaceAll("%20", "+");
  return Object.entries(object)
    .map((pair) => pair.map(written).join("="))
    .join("&");
}

extensions("Object", {
  isEmpty: (object) => Object.keys(object).length === 0,
  isNotEmpty: (object) => Object.keys(object).length > 0,
  hasField: (object, [name]) => name in object,
  removeField: (object, [field]) => without(object, (name) => name === field),
  removeFieldsContaining,
  keepFieldsContaining,
  compact: compacted,
  urlEncode,
  keys: (object) => Object.keys(object),
  values: (object) => Object.values(object),
  toJsonString: (object) => JSON.stringify(object),
  toInt: () => undefined,
  toFloat: () => undefined,
  toBoolean: () => undefined,
  toDateTime: () => undefined,
});
