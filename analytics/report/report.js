// Zooms the charts over time, all to the same time, and sorts tables by the column whose head is
// pressed. Without it the page shows the same, whole.

const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  86400, 172800, 604800, 1209600, 2592000];
const TICKS_MAX = 8;
const SVG = "http://www.w3.org/2000/svg";
const LEAST = 1 / 500;

const charts = [...document.querySelectorAll(".chart > svg")]
  .map((svg) => ({svg, plot: svg.querySelector(".plot"), times: svg.querySelector(".times")}))
  .filter(({plot}) => plot);
// The part of the trace that is shown: 0 to 1.
let [from, to] = [0, 1];

function show(begins, ends) {
  const length = Math.min(1, Math.max(LEAST, ends - begins));
  from = Math.min(Math.max(0, begins), 1 - length);
  to = from + length;
  for (const chart of charts) draw(chart);
  const all = document.querySelector(".zoom button:last-of-type");
  if (all) all.disabled = length === 1;
}

function draw({plot, times}) {
  const [x, width] = [Number(plot.getAttribute("x")), Number(plot.getAttribute("width"))];
  const height = plot.getAttribute("height");
  plot.setAttribute("viewBox", `${x + from * width} 0 ${(to - from) * width} ${height}`);
  const [first, last] = [Number(times.dataset.begins), Number(times.dataset.ends)];
  const [begins, ends] = [first + from * (last - first), first + to * (last - first)];
  const step = STEPS_S.find((one) => (ends - begins) / one <= TICKS_MAX) ?? STEPS_S.at(-1);
  const marks = [];
  let day = "";
  for (let at = Math.ceil(begins / step) * step; at < ends; at += step) {
    const moment = new Date(at * 1000).toISOString();
    const isNewDay = day && day !== moment.slice(5, 10);
    day = moment.slice(5, 10);
    const label = labelOf(moment, step, isNewDay);
    marks.push(...mark(x + width * (at - begins) / (ends - begins), label, times.dataset.bottom));
  }
  times.replaceChildren(...marks);
}

// A new day is shown once, unless the labels contain it anyway.
function labelOf(moment, step, isNewDay) {
  if (step >= 86400) return moment.slice(0, 10);
  const label = moment.slice(11, step < 60 ? 19 : 16);
  return isNewDay ? `${moment.slice(5, 10)} ${label}` : label;
}

function mark(x, label, bottom) {
  const line = made("line", {class: "grid", x1: x, x2: x, y1: bottom, y2: Number(bottom) + 5});
  const text = made("text", {class: "axis", x, y: Number(bottom) + 20,
    "text-anchor": x > 858 ? "end" : "middle"});
  text.textContent = label;
  return [line, text];
}

function made(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

// Where a pointer is in a plot, 0 to 1 of what is shown.
function placeIn(plot, event) {
  const {left, width} = plot.getBoundingClientRect();
  return Math.min(1, Math.max(0, (event.clientX - left) / width));
}

function chooseWithPointer({svg, plot}) {
  let began = null;
  const chosen = made("rect", {class: "chosen", y: 0, height: plot.getAttribute("height")});
  const [x, width] = [Number(plot.getAttribute("x")), Number(plot.getAttribute("width"))];
  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    began = placeIn(plot, event);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    if (began === null) return;
    const ends = placeIn(plot, event);
    chosen.setAttribute("x", x + width * Math.min(began, ends));
    chosen.setAttribute("width", width * Math.abs(ends - began));
    svg.append(chosen);
  });
  const end = (event) => {
    if (began === null) return;
    const [first, last] = [began, placeIn(plot, event)].sort((one, other) => one - other);
    began = null;
    chosen.remove();
    const length = to - from;
    if (event.type === "pointerup" && last - first > 0.01) {
      show(from + first * length, from + last * length);
    }
  };
  svg.addEventListener("pointerup", end);
  svg.addEventListener("pointercancel", end);
  svg.addEventListener("dblclick", () => show(0, 1));
}

function controls() {
  const around = (factor) => () => {
    const [middle, length] = [(from + to) / 2, (to - from) * factor];
    show(middle - length / 2, middle + length / 2);
  };
  const aside = (share) => () => show(from + share * (to - from), to + share * (to - from));
  const bar = document.createElement("div");
  bar.className = "zoom";
  bar.role = "group";
  bar.ariaLabel = "Time of the charts";
  for (const [words, work] of [["Zoom in", around(0.5)], ["Zoom out", around(2)],
    ["Earlier", aside(-0.5)], ["Later", aside(0.5)], ["Whole trace", () => show(0, 1)]]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = words;
    button.addEventListener("click", work);
    bar.append(button);
  }
  const hint = document.createElement("span");
  hint.textContent = "or drag over a chart";
  bar.append(hint);
  document.querySelector("nav").after(bar);
}

if (charts.length) {
  controls();
  charts.forEach(chooseWithPointer);
  show(0, 1);
}

// Tables

const valueOf = (cell) => Number(cell.dataset.value ?? cell.textContent.replaceAll(",", ""));

function sort(table, place, head) {
  const isDown = head.ariaSort !== "descending";
  for (const one of table.tHead.rows[0].cells) one.removeAttribute("aria-sort");
  head.ariaSort = isDown ? "descending" : "ascending";
  const rows = [...table.tBodies[0].rows];
  const isNumber = rows.every((row) => !Number.isNaN(valueOf(row.cells[place])));
  const compare = isNumber ? (one, other) => valueOf(one) - valueOf(other)
    : (one, other) => one.textContent.localeCompare(other.textContent, "en", {numeric: true});
  rows.sort((one, other) => (isDown ? -1 : 1) * compare(one.cells[place], other.cells[place]));
  table.tBodies[0].append(...rows);
}

for (const table of document.querySelectorAll("table")) {
  for (const [place, head] of [...table.tHead.rows[0].cells].entries()) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, place, head));
    head.append(button);
  }
}
