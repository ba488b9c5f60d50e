// Bindings as a diagram: exchanges on the left, queues on the right, exchanges that are bound to
// exchanges in between. layout.js computes the positions.

import {get, path} from "../api.js";
import {bindingColumns, bindingKey, titleOf} from "../declared.js";
import {fold, h, panel, render, svg} from "../dom.js";
import {field, input} from "../forms.js";
import {clip, plural} from "../format.js";
import {query, route, setQuery, to} from "../router.js";
import {BOX_WIDTH, layOut} from "./layout.js";
import {List} from "../table.js";
import {chosenVhost, vhostNames} from "../vhost_choice.js";

const BOXES_MAX = 80;
const BINDINGS_MAX = 300;
// With more bindings than this, they are requested less often.
const MANY = 1000;
const MANY_PAUSE_MS = 60_000;
const NAME_MAX = 26;
const KEY_MAX = 24;

route("graph", () => {
  const filter = input("filter", {type: "search", value: query().filter ?? ""});
  const picture = h("div", {class: "graph", role: "region", "aria-label": "Diagram of the bindings",
    tabindex: 0});
  const said = h("p", {class: "quiet", role: "status"});
  let found = [];
  let vhost = chosenVhost();
  const list = new List({id: "list", caption: "Bindings", load: async () => [...found],
    key: bindingKey, columns: bindingColumns(), empty: "No bindings."});
  const refresh = async () => {
    vhost ||= await firstVhost();
    if (!vhost) {
      render(said, "You have no access to a virtual host.");
      return;
    }
    found = (await get(path("bindings", vhost))).filter((one) => one.source);
    page.pause_ms = found.length > MANY ? MANY_PAUSE_MS : 0;
    draw(picture, said, vhost, found, filter.value.toLowerCase());
    await list.refresh();
  };
  filter.oninput = () => {
    setQuery({filter: filter.value});
    draw(picture, said, vhost, found, filter.value.toLowerCase());
  };
  const page = {title: "Bindings", refresh, element: h("div", {},
    panel("Bindings", field("Filter by name or key", filter), said, picture),
    fold("List of bindings", list.element))};
  return page;
});

// The diagram is of one virtual host, while the pages may be about all.
async function firstVhost() {
  const names = await vhostNames();
  return names.includes("/") ? "/" : names[0];
}

function draw(picture, said, vhost, found, filter) {
  const wanted = found.filter((one) => !filter
    || [one.source, one.destination, one.routing_key].join("\n").toLowerCase().includes(filter));
  const shown = readable(wanted);
  const layout = layOut(shown);
  const cut = wanted.length - shown.length;
  render(said, shown.length
    ? `Virtual host ${vhost}: ${plural(shown.length, "binding")} between ${layout.boxes.length} `
      + "exchanges and queues. The default exchange, which routes to every queue by its name, is "
      + "not shown."
    : `Virtual host ${vhost}: no bindings.`,
  cut > 0 && h("strong", {}, ` ${plural(cut, "binding")} not shown: use the filter to `
    + "select others."));
  const {width, height} = layout;
  render(picture, shown.length > 0 && svg("svg", {width, height, viewBox: `0 0 ${width} ${height}`,
    role: "group", "aria-label": "Bindings"},
  layout.edges.map(edgeView), layout.boxes.map((one) => boxView(one, vhost))));
}

// Limits the bindings to what is readable: the first ones, with few enough boxes.
function readable(bindings) {
  const boxes = new Set();
  const shown = [];
  for (const one of bindings) {
    const ends = [`exchange ${one.source}`, `${one.destination_type} ${one.destination}`];
    const isFull = boxes.size + ends.filter((end) => !boxes.has(end)).length > BOXES_MAX;
    if (isFull || shown.length >= BINDINGS_MAX) continue;
    for (const end of ends) boxes.add(end);
    shown.push(one);
  }
  return shown;
}

function edgeView({parts, from, into, source, destination, keys}) {
  const {x2, y2} = parts.at(-1);
  const said = keys.map((key) => key || "(no key)").join(", ");
  return svg("g", {"data-key": `${from}\n${into}`, class: "edge"},
    svg("path", {d: parts.map(curve).join("")}),
    svg("path", {class: "head", d: `M${x2 - 7} ${y2 - 4} L${x2} ${y2} L${x2 - 7} ${y2 + 4}`}),
    svg("text", {x: x2 - 12, y: y2 - 4, "text-anchor": "end"}, clip(keys.join(", "), KEY_MAX)),
    svg("title", {}, `${source} to ${destination}: ${said}`));
}

function curve({x1, y1, x2, y2}, place) {
  const bend = Math.max(60, (x2 - x1) / 2);
  const begin = `${place ? "L" : "M"}${x1} ${y1}`;
  return `${begin} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

function boxView({key, kind, name, x, y, height}, vhost) {
  const href = kind === "queue" ? to("queues", vhost, name) : to("exchanges", vhost, name);
  return svg("a", {"data-key": key, href, class: `box ${kind}`, "aria-label": `${kind} ${name}`},
    svg("rect", {x, y, width: BOX_WIDTH, height, rx: kind === "queue" ? 3 : 13}),
    svg("text", {x: x + 12, y: y + height / 2 + 4}, clip(titleOf(name), NAME_MAX)),
    svg("title", {}, `${kind} ${name}`));
}
