// Line charts over time as SVG, with a text alternative.
//
// The API's samples, [{sample, timestamp}] with the newest first, are converted to points, [{time,
// value}] with the oldest first: `lengths` for values, `rates` for totals.

import {h, render, svg, uniqueId} from "./dom.js";
import {field, select} from "./forms.js";
import {query, setQuery} from "./router.js";

const COLOURS = ["--one", "--two", "--three", "--four", "--five", "--six"];
const WIDTH = 600;
const HEIGHT = 140;
const TOP = 8;
const PERIODS = [["60", "last minute"], ["600", "last ten minutes"], ["3600", "last hour"],
  ["28800", "last eight hours"]];
const STEPS = {60: 5, 600: 10, 3600: 60, 28800: 600};

export class Chart {
  // show: formats a value.
  constructor(title, show) {
    Object.assign(this, {title, show});
    this.picture = svg("svg", {class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none", role: "img"});
    this.legend = h("ul", {class: "legend"});
    this.scale = h("span", {class: "quiet"});
    this.element = h("section", {class: "panel", "aria-label": title},
      h("div", {class: "row apart"}, h("h2", {}, title), this.scale), this.picture, this.legend);
  }

  // lines: {name: points}.
  draw(lines) {
    const entries = Object.entries(lines);
    const points = entries.flatMap(([, line]) => line);
    const most = Math.max(1, ...points.map((point) => point.value));
    const times = points.map((point) => point.time);
    const [first, last] = [Math.min(...times), Math.max(...times)];
    const grid = [0.25, 0.5, 0.75, 1].map((share) => {
      const y = HEIGHT - share * (HEIGHT - TOP);
      return svg("line", {x1: 0, x2: WIDTH, y1: y, y2: y});
    });
    const paths = entries.map(([name, line], place) => svg("path", {"data-key": name,
      class: `line-${place + 1}`, d: pathOf(line, first, last, most)}));
    render(this.picture, grid, paths);
    render(this.scale, points.length ? `up to ${this.show(most)}` : "no data yet");
    render(this.legend, entries.map(([name, line], place) => this.entry(name, line, place)));
    this.picture.setAttribute("aria-label", this.description(entries));
  }

  entry(name, line, place) {
    return h("li", {"data-key": name}, h("i", {style: {background: `var(${COLOURS[place]})`}}),
      `${name} ${this.show(line.at(-1)?.value ?? 0)}`);
  }

  description(entries) {
    const said = entries.map(([name, line]) => {
      const values = line.map((point) => point.value);
      if (!values.length) return `${name}: no data`;
      const [least, most] = [Math.min(...values), Math.max(...values)];
      return `${name} now ${this.show(values.at(-1))}, between ${this.show(least)} and `
        + this.show(most);
    });
    return `${this.title}: ${said.join("; ")}`;
  }
}

function pathOf(points, first, last, most) {
  return points.map(({time, value}, number) => {
    const x = last > first ? (time - first) / (last - first) * WIDTH : WIDTH;
    const y = HEIGHT - value / most * (HEIGHT - TOP);
    return `${number ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
  }).join("");
}

export function lengths(details) {
  const samples = details?.samples ?? [];
  return samples.map((one) => ({time: one.timestamp, value: one.sample})).reverse();
}

export function rates(details) {
  const points = lengths(details);
  return points.slice(1).map(({time, value}, place) => ({
    time,
    value: Math.max(0, (value - points[place].value) / (time - points[place].time) * 1000),
  }));
}

// The time range of a page's charts; it is part of the address.
export class Period {
  constructor(again) {
    this.choice = select("age", PERIODS, query().age ?? "60");
    this.choice.id = uniqueId("age");
    this.choice.onchange = () => {
      setQuery({age: this.choice.value === "60" ? "" : this.choice.value});
      again();
    };
    this.element = field("Chart range", this.choice);
    this.element.classList.add("inline");
  }

  // The query for the API. kinds: of lengths, msg_rates, data_rates.
  query(...kinds) {
    const age = this.choice.value;
    return Object.fromEntries(kinds.flatMap((kind) =>
      [[`${kind}_age`, age], [`${kind}_incr`, STEPS[age]]]));
  }
}
