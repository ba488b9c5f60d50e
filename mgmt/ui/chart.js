// Lines over time, as SVG, with the last values as text beside them for those who do not see them.

import {h, replace, svg} from "./dom.js";

const COLOURS = ["var(--alpha)", "var(--delta)", "var(--unacked)", "var(--good)", "var(--bad)", "var(--gamma)"];
const WIDTH = 600;
const HEIGHT = 150;

export class Chart {
  // lines: {name: samples(source)}, where samples are [{sample, timestamp}], the newest first.
  constructor(title, show) {
    this.show = show;
    this.picture = svg("svg", {class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img"});
    this.legend = h("ul", {class: "legend"});
    this.top = h("span", {class: "quiet"});
    this.title = title;
    this.element = h("div", {}, h("div", {class: "row"}, h("h3", {}, title), this.top), this.picture, this.legend);
  }

  draw(lines) {
    const all = Object.values(lines).flat().map((point) => point.value);
    const most = Math.max(1, ...all);
    const times = Object.values(lines).flat().map((point) => point.time);
    const first = Math.min(...times);
    const last = Math.max(...times);
    const parts = [1, 2, 3].map((place) => svg("line", {x1: 0, x2: WIDTH, y1: place * HEIGHT / 4, y2: place * HEIGHT / 4}));
    const entries = Object.entries(lines);
    entries.forEach(([, points], place) => {
      const d = points.map((point, number) => {
        const x = last > first ? (point.time - first) / (last - first) * WIDTH : WIDTH;
        const y = HEIGHT - 4 - point.value / most * (HEIGHT - 12);
        return `${number ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
      }).join("");
      parts.push(svg("path", {d, stroke: COLOURS[place % COLOURS.length]}));
    });
    replace(this.picture, ...parts);
    const texts = entries.map(([name, points]) => `${name} ${this.show(points.at(-1)?.value ?? 0)}`);
    this.picture.setAttribute("aria-label", `${this.title}: ${texts.join(", ")}`);
    replace(this.top, `up to ${this.show(most)}`);
    replace(this.legend, texts.map((text, place) => h("li", {},
      h("i", {style: {background: COLOURS[place % COLOURS.length]}}), text)));
  }
}

// Numbers at their times, the oldest first.
export function lengths(details) {
  return (details?.samples ?? []).map((one) => ({time: one.timestamp, value: one.sample})).reverse();
}

// How fast a total grew between its samples.
export function rates(details) {
  const points = lengths(details);
  return points.slice(1).map((point, place) => ({
    time: point.time,
    value: Math.max(0, (point.value - points[place].value) / (point.time - points[place].time) * 1000),
  }));
}
