// Bar charts: use of a limit, and the parts of a whole.

import {h} from "./dom.js";

const HIGH = 0.85;

// The use of a limit. show: formats a number. isBad: there is an alarm.
export function meter(title, value, most, show, isBad = false) {
  const share = most ? Math.min(1, value / most) : 0;
  const kind = isBad ? "over" : share > HIGH ? "near" : "";
  return h("div", {class: "measure", "data-key": title},
    h("div", {class: "row apart"}, h("span", {}, title),
      h("span", {class: "quiet"}, `${show(value)} of ${show(most)}`)),
    h("div", {class: `meter ${kind}`.trim(), role: "meter", "aria-label": title, "aria-valuemin": 0,
      "aria-valuemax": most ?? 0, "aria-valuenow": value ?? 0,
      "aria-valuetext": `${show(value)} of ${show(most)}`},
    h("span", {style: {width: `${(share * 100).toFixed(2)}%`}})));
}

// The parts of a whole as one bar with a legend. parts: [{name, text, value, colour}].
export function stacked(title, parts) {
  const total = parts.reduce((sum, part) => sum + part.value, 0);
  const width = (part) => `${(total ? 100 * part.value / total : 0).toFixed(2)}%`;
  return [
    h("div", {class: "stacked", role: "img",
      "aria-label": `${title}: ${parts.map((part) => part.text).join(", ")}`},
    parts.map((part) => h("span", {"data-key": part.name, title: part.text,
      style: {width: width(part), background: `var(${part.colour})`}}))),
    h("ul", {class: "legend"}, parts.map((part) => h("li", {"data-key": part.name},
      h("i", {style: {background: `var(${part.colour})`}}), part.text))),
  ];
}

// One bar for each row of a table. rows: [{label, value, text}].
export function bars(caption, rows) {
  const most = Math.max(1, ...rows.map((row) => row.value));
  return h("table", {class: "bars"}, h("caption", {}, caption), h("tbody", {}, rows.map((row) =>
    h("tr", {"data-key": row.label}, h("th", {scope: "row"}, row.label),
      h("td", {class: "number"}, row.text),
      h("td", {class: "bar"}, h("div", {class: "meter", "aria-hidden": "true"},
        h("span", {style: {width: `${(100 * row.value / most).toFixed(2)}%`}})))))));
}
