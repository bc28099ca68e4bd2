// What n8n's documentation lists as methods of dates, be they JavaScript's or Luxon's, and how values become dates.

const { Fault, extensions } = convoq;
const { DateTime, Duration } = luxon;

const EPOCHS = {
  ms: (number) => DateTime.fromMillis(number),
  s: (number) => DateTime.fromSeconds(number),
  us: (number) => DateTime.fromMillis(number / 1000),
  // Days since 1899-12-30, as spreadsheets count.
  excel: (number) => DateTime.fromMillis(Math.round((number - 25569) * 86_400_000), { zone: "utc" }),
};

const READERS = ["fromISO", "fromHTTP", "fromRFC2822", "fromSQL"];

function read(text) {
  for (const reader of READERS) {
    const found = DateTime[reader](text, { setZone: true });
    if (found.isValid) return found;
  }
  const millis = Date.parse(text);
  if (Number.isNaN(millis)) throw new Fault("cannot convert to Luxon DateTime");
  return DateTime.fromMillis(millis);
}

/** Of a text or a number, by the format (an epoch's name, or Luxon's) where one is given. */
function dateTimeOf(value, format) {
  if (DateTime.isDateTime(value)) return value;
  if (value instanceof Date) return DateTime.fromJSDate(value);
  if (format && Object.hasOwn(EPOCHS, format)) return EPOCHS[format](Number(value));
  if (typeof value !== "number") return format ? DateTime.fromFormat(value, format) : read(value);
  throw new Fault(`unsupported format '${format}': toDateTime() takes ${Object.keys(EPOCHS).join(", ")}`);
}

/** A method of Luxon's dates made one of JavaScript's, too, which gets one of these back. A text (of the one form that
 *  counts as a date) is none that a method but `toDateTime` can work on, as in n8n. */
const both = (method) => (date, args) => {
  const known = typeof date === "string" ? DateTime.invalid("text") : dateTimeOf(date);
  const made = method(known, args);
  return DateTime.isDateTime(made) && date instanceof Date ? made.toJSDate() : made;
};

/** `(1, "day")`, `(1)` milliseconds, `({ days: 1 })` or a Duration. */
const span = ([amount = 0, unit = "milliseconds"]) =>
  typeof amount === "object" ? amount : Duration.fromObject({ [String(unit).toLowerCase()]: Number(amount) });

function isBetween(date, args) {
  if (args.length !== 2) throw new Fault("isBetween(): expected exactly two args");
  const [one, other] = args.map((given) => dateTimeOf(given)).sort((a, b) => a - b);
  return one < date && date < other;
}

/** The difference in a unit is a number, in several an object of them. */
function diffTo(date, [other, unit = "days"]) {
  const found = date.diff(dateTimeOf(other), unit);
  return Array.isArray(unit) ? found.toObject() : found.as(unit);
}

function extract(date, [unit = "week"]) {
  return date.get(unit === "week" ? "weekNumber" : unit.replace(/s$/, ""));
}

extensions("Date", {
  beginningOf: both((date, [unit = "week"]) => date.startOf(unit)),
  endOfMonth: both((date) => date.endOf("month")),
  extract: both(extract),
  isBetween: both(isBetween),
  isDst: both((date) => date.isInDST),
  isInLast: both((date, [amount = 0, unit = "minutes"]) => {
    const now = DateTime.now();
    return now.minus({ [unit]: amount }) <= date && date <= now;
  }),
  isWeekend: both((date) => date.weekday > 5),
  minus: both((date, args) => date.minus(span(args))),
  plus: both((date, args) => date.plus(span(args))),
  format: both((date, [format]) => date.toFormat(format)),
  toDate: (date) => new Date(date),
  toDateTime: (date, [format]) => dateTimeOf(date, format),
  diffTo,
  diffToNow: (date, [unit]) => diffTo(date, [DateTime.now(), unit]),
  toInt: (date) => (typeof date === "string" ? undefined : Number(date)),
  toFloat: (date) => (typeof date === "string" ? undefined : Number(date)),
  toBoolean: () => undefined,
  isEmpty: () => false,
  isNotEmpty: () => true,
});

Object.assign(convoq, { dateTimeOf });
