// The scales of a chart: where its ticks are, and where values and times are in pixels.

const STEPS_S = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200];
const SECONDS = {hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23"};
const MINUTES = {hour: "2-digit", minute: "2-digit", hourCycle: "h23"};
const MINUTE_MS = 60_000;

// Returns values from 0 to at least `most`, at steps of 1, 2 or 5 times a power of ten.
// least: the smallest step.
export function valueTicks(most, countMax, least) {
  const rough = Math.max(least, most / countMax);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough * 0.999);
  const count = Math.max(1, Math.ceil(most / step - 0.001));
  return Array.from({length: count + 1}, (_, number) => number * step);
}

// Returns round times in the browser's time zone. first, last: milliseconds since 1970.
export function timeTicks(first, last, countMax) {
  const step_ms = stepOf(last - first, countMax);
  const zone_ms = new Date(last).getTimezoneOffset() * MINUTE_MS;
  const ticks = [];
  const begin = Math.ceil((first - zone_ms) / step_ms) * step_ms + zone_ms;
  for (let time = begin; time <= last; time += step_ms) ticks.push(time);
  return ticks;
}

function stepOf(span_ms, countMax) {
  const fits = STEPS_S.find((step_s) => span_ms / 1000 / step_s <= countMax);
  return (fits ?? STEPS_S.at(-1)) * 1000;
}

// Seconds are shown if the chart is short enough for them. span_ms: the time that it covers.
export const timeText = (time, span_ms) =>
  new Date(time).toLocaleTimeString("en", span_ms <= 10 * MINUTE_MS ? SECONDS : MINUTES);

// A function from [from, to] to [start, end].
export const linear = (from, to, start, end) =>
  (value) => (to > from ? start + (value - from) / (to - from) * (end - start) : end);
