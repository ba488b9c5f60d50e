// A chart of lines over time, as SVG: an axis of times and one of values, the values at the pointer
// or the cursor keys, a legend that switches lines, and a text alternative.
//
// Lines that are switched off are remembered in the browser, by the chart's title. The picture has
// one unit a pixel, so it is drawn again when its width changes.

import {piecesOf} from "./chart_lines.js";
import {linear, timeText, timeTicks, valueTicks} from "./chart_scale.js";
import {h, render, svg} from "./dom.js";
import {rate} from "./format.js";
import {ofBrowser} from "./store.js";

const COLOURS = ["--one", "--two", "--three", "--four", "--five", "--six", "--seven", "--eight",
  "--nine", "--ten", "--eleven", "--twelve"];
const HEIGHT = 170;
const [TOP, RIGHT, BOTTOM, LEFT] = [8, 12, 20, 64];
const TICK_WIDTH = 80;
const LABEL_WIDTH = 56;
const VALUE_TICKS_MAX = 4;

export class Chart {
  // show: formats a value.
  constructor(title, show) {
    Object.assign(this, {title, show, lines: [], width: 0, cursor: null});
    this.least = show === rate ? 0.1 : 1;
    this.key = `leveret.hidden-lines.${title}`;
    this.hidden = new Set(JSON.parse(ofBrowser.get(this.key) ?? "[]"));
    this.picture = svg("svg", {class: "chart", role: "img", tabindex: 0, "aria-label": title,
      onpointermove: (event) => this.pointAt(event.clientX),
      onpointerleave: () => this.moveCursor(null), onblur: () => this.moveCursor(null),
      onkeydown: (event) => this.onKey(event)});
    this.tip = h("div", {class: "tip", role: "status", hidden: true});
    this.legend = h("ul", {class: "legend"});
    this.element = h("section", {class: "panel chart-panel", "aria-label": title},
      h("h2", {}, title), this.picture, this.tip, this.legend);
    new ResizeObserver(() => this.drawIfResized()).observe(this.element);
  }

  // lines: {name: {points, now, colour}}, see samples.js.
  draw(lines) {
    this.lines = Object.entries(lines).map(([name, {points, now, colour}], place) =>
      ({name, points, now, colour: COLOURS[(colour ?? place) % COLOURS.length]}));
    this.drawAll();
  }

  drawIfResized() {
    if (this.width !== this.picture.clientWidth) this.drawAll();
  }

  drawAll() {
    this.width = this.picture.clientWidth;
    this.shown = this.lines.filter((line) => !this.hidden.has(line.name));
    this.times = [...new Set(this.shown.flatMap((line) => line.points.map((one) => one.time)))]
      .sort((one, other) => one - other);
    render(this.legend, this.lines.map((line) => this.entry(line)));
    this.picture.setAttribute("aria-label", this.description());
    this.picture.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    this.drawPicture();
    this.drawCursor();
  }

  drawPicture() {
    if (!this.times.length || !this.width) {
      render(this.picture, svg("text", {class: "axis", x: LEFT, y: HEIGHT / 2},
        this.lines.length && !this.shown.length ? "All lines are switched off." : "No data yet."));
      return;
    }
    const most = Math.max(...this.shown.flatMap((line) => line.points.map((one) => one.value)));
    const ticks = valueTicks(most, VALUE_TICKS_MAX, this.least);
    this.x = linear(this.times[0], this.times.at(-1), LEFT, this.width - RIGHT);
    this.y = linear(0, ticks.at(-1), HEIGHT - BOTTOM, TOP);
    const pieces = piecesOf(this.shown.map((line) => line.points), this.x, this.y);
    render(this.picture, this.valueAxis(ticks), this.timeAxis(),
      this.shown.map((line, place) => pieces[place].map((piece, number) => svg("path", {
        "data-key": `${line.name} ${number}`, "data-line": line.name, d: piece.d,
        "stroke-dasharray": piece.dashes, "stroke-dashoffset": piece.offset,
        style: {stroke: `var(${line.colour})`}}))),
      svg("line", {"data-key": "cursor", class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM}));
  }

  valueAxis(ticks) {
    return ticks.map((value) => svg("g", {"data-key": `value ${value}`, class: "axis values"},
      svg("line", {x1: LEFT, x2: this.width - RIGHT, y1: this.y(value), y2: this.y(value)}),
      svg("text", {x: LEFT - 6, y: this.y(value) + 4, "text-anchor": "end"}, this.show(value))));
  }

  timeAxis() {
    const [first, last] = [this.times[0], this.times.at(-1)];
    const countMax = Math.max(1, (this.width - LEFT - RIGHT) / TICK_WIDTH);
    return timeTicks(first, last, countMax).map((time) =>
      svg("g", {"data-key": `time ${time}`, class: "axis times"},
        svg("line", {x1: this.x(time), x2: this.x(time), y1: TOP, y2: HEIGHT - BOTTOM}),
        svg("text", {x: Math.min(this.x(time), this.width - LABEL_WIDTH / 2), y: HEIGHT - 5,
          "text-anchor": "middle"}, timeText(time, last - first))));
  }

  // The legend

  entry({name, now, colour}) {
    const isShown = !this.hidden.has(name);
    return h("li", {"data-key": name}, h("button", {type: "button", "aria-pressed": String(isShown),
      title: isShown ? `Hide ${name}` : `Show ${name}`, onclick: () => this.toggle(name)},
    h("i", {style: {background: `var(${colour})`}}), h("span", {}, name),
    h("b", {}, this.show(now))));
  }

  toggle(name) {
    if (!this.hidden.delete(name)) this.hidden.add(name);
    ofBrowser.set(this.key, JSON.stringify([...this.hidden]));
    this.drawAll();
  }

  description() {
    const said = this.shown.map(({name, points, now}) => {
      const all = points.map((point) => point.value);
      if (!all.length) return `${name}: no data`;
      return `${name} now ${this.show(now)}, between ${this.show(Math.min(...all))} and `
        + this.show(Math.max(...all));
    });
    return `${this.title}: ${said.join("; ")}`;
  }

  // The values at a time

  pointAt(clientX) {
    if (!this.times.length || !this.x) return;
    const x = clientX - this.picture.getBoundingClientRect().left;
    const distance = (time) => Math.abs(this.x(time) - x);
    this.moveCursor(this.times.reduce((nearest, time) =>
      (distance(time) < distance(nearest) ? time : nearest)));
  }

  onKey(event) {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (event.key === "Escape") this.moveCursor(null);
    if (!step || !this.times.length) return;
    event.preventDefault();
    const last = this.times.length - 1;
    const place = this.cursor === null ? last + 1 : this.times.indexOf(this.cursor);
    this.moveCursor(this.times[Math.min(last, Math.max(0, place + step))]);
  }

  moveCursor(time) {
    this.cursor = time;
    this.drawCursor();
  }

  drawCursor() {
    const isShown = this.cursor !== null && this.times.includes(this.cursor);
    this.tip.hidden = !isShown;
    this.picture.classList.toggle("pointed", isShown);
    if (!isShown) return;
    const x = this.x(this.cursor);
    const line = this.picture.querySelector(".cursor");
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
    render(this.tip, h("b", {}, new Date(this.cursor).toLocaleString()), h("ul", {},
      this.shown.map(({name, points, colour}) => h("li", {"data-key": name},
        h("i", {style: {background: `var(${colour})`}}), h("span", {}, name),
        h("b", {}, this.show(points.find((one) => one.time === this.cursor)?.value))))));
    const isRight = x > this.width / 2;
    this.tip.style.left = isRight ? "auto" : `${x + 24}px`;
    this.tip.style.right = isRight ? `${this.width - x + 24}px` : "auto";
  }
}
