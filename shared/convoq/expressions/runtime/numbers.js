// What n8n's documentation lists as methods of numbers and booleans.

const { Fault, extensions } = convoq;

function whole(number, method) {
  if (!Number.isInteger(number)) throw new Fault(`${method}() is only callable on integers`);
  return number;
}

extensions("Number", {
  ceil: (number) => Math.ceil(number),
  floor: (number) => Math.floor(number),
  format: (number, [locale = "en-US", options]) => new Intl.NumberFormat(locale, options).format(number),
  round: (number, [decimals = 0]) => Number(number.toFixed(decimals)),
  abs: (number) => Math.abs(number),
  isInteger: (number) => Number.isInteger(number),
  isEven: (number) => whole(number, "isEven") % 2 === 0,
  isOdd: (number) => Math.abs(whole(number, "isOdd") % 2) === 1,
  toBoolean: (number) => number !== 0,
  toInt: (number) => Math.round(number),
  toFloat: (number) => number,
  toDateTime: (number, [format]) => convoq.dateTimeOf(number, format ?? "ms"),
});

extensions("Boolean", {
  toBoolean: (value) => value,
  toInt: Number,
  toFloat: Number,
  toNumber: Number,
  toDateTime: () => undefined,
});
