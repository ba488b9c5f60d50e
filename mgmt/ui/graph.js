// Bindings as a picture: exchanges on the left, queues on the right, a line for each binding.

import {get, path} from "./api.js";
import {field, h, input, panel, replace, svg} from "./dom.js";
import {title} from "./exchanges.js";
import {vhostChoice} from "./inputs.js";
import {query, route, setQuery, to} from "./router.js";

const BOXES_MAX = 60;
const ROW = 34;
const BOX = 220;
const GAP = 260;

route("graph", () => {
  const asked = query();
  const vhost = vhostChoice("vhost", asked.vhost ?? "/");
  const filter = input("filter", {type: "search", value: asked.name ?? ""});
  const picture = h("div", {class: "graph"});
  const said = h("p", {class: "quiet", role: "status"});
  const page = {title: "Bindings", async refresh() {
    const name = vhost.value || asked.vhost || "/";
    setQuery({vhost: name, name: filter.value});
    const found = await get(path("bindings", name));
    const text = JSON.stringify([name, filter.value, found]);
    if (text === page.drawn) return;
    page.drawn = text;
    draw(picture, said, name, found, filter.value.toLowerCase());
  }};
  const again = () => page.refresh();
  vhost.addEventListener("change", again);
  filter.addEventListener("input", again);
  page.element = panel("Who gets what", h("div", {class: "fields"}, field("Virtual host", vhost), field("Names that contain", filter)), said, picture);
  return page;
});

function draw(picture, said, vhost, all, filter) {
  const wanted = all.filter((one) => one.source && (!filter || `${one.source} ${one.destination} ${one.routing_key}`.toLowerCase().includes(filter)));
  const lefts = new Map();
  const rights = new Map();
  let cut = 0;
  const lines = [];
  for (const one of wanted) {
    const right = `${one.destination_type} ${one.destination}`;
    if ((!lefts.has(one.source) && lefts.size >= BOXES_MAX) || (!rights.has(right) && rights.size >= BOXES_MAX)) {
      cut += 1;
      continue;
    }
    if (!lefts.has(one.source)) lefts.set(one.source, lefts.size);
    if (!rights.has(right)) rights.set(right, rights.size);
    lines.push(one);
  }
  replace(said, wanted.length ? `${lines.length} bindings of ${lefts.size} exchanges to ${rights.size} queues and exchanges`
    + (cut ? `; ${cut} more are left out: filter by a name to see them` : "") : "There are no bindings to show.");
  const height = Math.max(lefts.size, rights.size, 1) * ROW + 20;
  const width = 2 * BOX + GAP + 20;
  const paths = lines.map((one) => {
    const y1 = lefts.get(one.source) * ROW + 24;
    const y2 = rights.get(`${one.destination_type} ${one.destination}`) * ROW + 24;
    const x1 = BOX + 10;
    const x2 = BOX + GAP + 10;
    return svg("g", {}, svg("path", {d: `M${x1} ${y1} C${x1 + GAP / 2} ${y1} ${x2 - GAP / 2} ${y2} ${x2} ${y2}`}),
      svg("title", {}, `${one.source} to ${one.destination} with '${one.routing_key}'`),
      svg("text", {x: x2 - 8, y: y2 - 4, "text-anchor": "end"}, clip(one.routing_key, 28)));
  });
  const boxes = [...lefts].map(([name, row]) => box(10, row, title(name), to("exchanges", vhost, name), "exchange"));
  for (const [key, row] of rights) {
    const [kind, ...rest] = key.split(" ");
    const name = rest.join(" ");
    boxes.push(box(BOX + GAP + 10, row, name, kind === "queue" ? to("queues", vhost, name) : to("exchanges", vhost, name), kind));
  }
  replace(picture, svg("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Bindings"}, ...paths, ...boxes));
}

function box(x, row, name, href, kind) {
  return svg("a", {href, "aria-label": `${kind} ${name}`}, svg("rect", {x, y: row * ROW + 10, width: BOX, height: ROW - 8, rx: 5}),
    svg("text", {x: x + 8, y: row * ROW + 28}, clip(name, 30)), svg("title", {}, name));
}

const clip = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
