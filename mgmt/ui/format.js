// Formats numbers, sizes and times. Unknown values become a dash.

const UNKNOWN = "–";
const WHOLE = new Intl.NumberFormat("en", {maximumFractionDigits: 0});
const SHORT = new Intl.NumberFormat("en", {maximumFractionDigits: 1});

const isUnknown = (value) => value === undefined || value === null || Number.isNaN(value);

export const count = (value) => (isUnknown(value) ? UNKNOWN : WHOLE.format(value));

// value: per second.
export function rate(value) {
  if (isUnknown(value)) return UNKNOWN;
  return `${(value > 0 && value < 10 ? SHORT : WHOLE).format(value)}/s`;
}

export function bytes(value) {
  if (isUnknown(value) || typeof value !== "number") return UNKNOWN;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (Math.abs(value) >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit ? SHORT.format(value) : WHOLE.format(value)} ${units[unit]}`;
}

// share: of 1.
export const percent = (share) => (isUnknown(share) ? UNKNOWN : `${SHORT.format(share * 100)}%`);

export const byteRate = (value) => (isUnknown(value) ? UNKNOWN : `${bytes(value)}/s`);

export function duration(milliseconds) {
  if (isUnknown(milliseconds)) return UNKNOWN;
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${SHORT.format(milliseconds / 1000)} s`;
  let left = Math.round(milliseconds / 1000);
  const shown = [];
  for (const [size, name] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (left >= size && shown.length < 2) {
      shown.push(`${Math.floor(left / size)} ${name}`);
      left %= size;
    }
  }
  return shown.join(" ");
}

// milliseconds: since 1970.
export const time = (milliseconds) =>
  (isUnknown(milliseconds) ? UNKNOWN : new Date(milliseconds).toLocaleString());

// The rate of one of an object's totals, `details(row.message_stats, "publish")`.
export const details = (totals, name) => rate(totals?.[`${name}_details`]?.rate);

export const json = (value) => JSON.stringify(value, null, 2);

export const plural = (number, one, many = `${one}s`) =>
  `${count(number)} ${number === 1 ? one : many}`;

// The identifiers by which a queue or an exchange recognises duplicates.
export const identifiers = (cache) =>
  `${count(cache.entries)} of ${count(cache.size)} (${bytes(cache.bytes)})`;

export const clip = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
