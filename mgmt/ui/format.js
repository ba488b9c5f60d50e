// Numbers, sizes and times for people.

const WHOLE = new Intl.NumberFormat("en", {maximumFractionDigits: 0});
const SHORT = new Intl.NumberFormat("en", {maximumFractionDigits: 1});

export const count = (value) => (value === undefined || value === null ? "–" : WHOLE.format(value));

export function rate(value) {
  if (value === undefined || value === null) return "–";
  return `${value > 0 && value < 10 ? SHORT.format(value) : WHOLE.format(value)}/s`;
}

export function bytes(value) {
  if (value === undefined || value === null) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (Math.abs(value) >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit ? SHORT.format(value) : value} ${units[unit]}`;
}

export function duration(milliseconds) {
  if (milliseconds === undefined || milliseconds === null) return "–";
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${SHORT.format(seconds)} s`;
  const parts = [[86400, "d"], [3600, "h"], [60, "min"]];
  let left = Math.round(seconds);
  const shown = [];
  for (const [size, name] of parts) {
    if (left >= size && shown.length < 2) {
      shown.push(`${Math.floor(left / size)} ${name}`);
      left %= size;
    }
  }
  return shown.join(" ");
}

export const time = (milliseconds) => new Date(milliseconds).toLocaleString();

export function details(object, name) {
  return rate(object?.[`${name}_details`]?.rate);
}

export function json(value) {
  return JSON.stringify(value, null, 2);
}
