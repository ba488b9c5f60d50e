// Bindings as a diagram: exchanges on the left, queues on the right, exchanges that are bound to
// exchanges in between. topology.js finds its edges and what to warn of, layout.js the positions.

import {get, path} from "../api.js";
import {bindingColumns, bindingKey, DEFAULT, titleOf} from "../declared.js";
import {fold, h, panel, render, svg} from "../dom.js";
import {field, input} from "../forms.js";
import {clip, duration, plural, rate} from "../format.js";
import {query, route, setQuery, to} from "../router.js";
import {BOX_WIDTH, layOut} from "./layout.js";
import {backlog, topology} from "./topology.js";
import {List} from "../table.js";
import {chosenVhost, vhostNames} from "../vhost_choice.js";

const BOXES_MAX = 80;
const BINDINGS_MAX = 300;
// With more bindings than this, they are requested less often.
const MANY = 1000;
const MANY_PAUSE_MS = 60_000;
const NAME_MAX = 26;
const KEY_MAX = 24;
const WARNINGS_MAX = 20;

route("graph", () => {
  const filter = input("filter", {type: "search", value: query().filter ?? ""});
  const picture = h("div", {class: "graph", role: "region", "aria-label": "Diagram of the bindings",
    tabindex: 0});
  const said = h("p", {class: "quiet", role: "status"});
  const warnings = h("ul", {class: "warnings", "aria-label": "Warnings"});
  const drawn = {said, picture, warnings};
  const speeds = shovelRates();
  let found = [];
  let view;
  let vhost = chosenVhost();
  const list = new List({id: "list", caption: "Bindings", load: async () => [...found],
    key: bindingKey, columns: bindingColumns(), empty: "No bindings."});
  const refresh = async () => {
    vhost ||= await firstVhost();
    if (!vhost) {
      render(said, "You have no access to a virtual host.");
      return;
    }
    const all = await load(vhost);
    found = all.bindings;
    page.pause_ms = found.length > MANY ? MANY_PAUSE_MS : 0;
    view = {vhost, ...topology(all, speeds(all.shovels)),
      queues: new Map(all.queues.map((one) => [one.name, one])),
      exchanges: new Set(all.exchanges.map((one) => one.name))};
    draw(drawn, view, filter.value.toLowerCase());
    await list.refresh();
  };
  filter.oninput = () => {
    setQuery({filter: filter.value});
    if (view) draw(drawn, view, filter.value.toLowerCase());
  };
  const page = {title: "Bindings", refresh, element: h("div", {},
    panel("Bindings", field("Filter by name or key", filter), said, warnings, picture),
    fold("List of bindings", list.element))};
  return page;
});

// The diagram is of one virtual host, while the pages may be about all.
async function firstVhost() {
  const names = await vhostNames();
  return names.includes("/") ? "/" : names[0];
}

const EXCHANGE_COLUMNS = "name,type,arguments,policy,message_stats";
const QUEUE_COLUMNS = "name,type,arguments,effective_policy_definition,messages,"
  + "oldest_ready_age_ms,message_stats";

// What the diagram shows. Lists that only monitors may see are empty for others.
async function load(vhost) {
  const ifAllowed = (asked) => asked.catch((error) => {
    if ([401, 403].includes(error.status)) return [];
    throw error;
  });
  const [bindings, exchanges, queues, policies, shovels, links, noted] = await Promise.all([
    get(path("bindings", vhost)),
    get(path("exchanges", vhost), {columns: EXCHANGE_COLUMNS}),
    get(path("queues", vhost), {columns: QUEUE_COLUMNS}),
    ifAllowed(get(path("policies", vhost))),
    ifAllowed(get(path("shovels", vhost))),
    ifAllowed(get(path("federation-links", vhost))),
    ifAllowed(get(path("unroutable", vhost), {count: 0}))]);
  return {bindings: bindings.filter((one) => one.source), exchanges, queues, policies, shovels,
    links, unroutable: noted.counts ?? []};
}

// Returns a function that computes the rates of shovels from two lists of them.
function shovelRates() {
  let before = new Map();
  let looked_ms = 0;
  return (shovels) => {
    const now_ms = performance.now();
    const seconds = (now_ms - looked_ms) / 1000;
    const rates = new Map(shovels.filter((one) => before.get(one.name) <= one.forwarded)
      .map((one) => [one.name, (one.forwarded - before.get(one.name)) / seconds]));
    before = new Map(shovels.map((one) => [one.name, one.forwarded]));
    looked_ms = now_ms;
    return rates;
  };
}

function draw({picture, said, warnings}, view, filter) {
  const {vhost, edges, loose, warnings: warned} = view;
  const wanted = edges.filter((one) => !filter
    || [one.source, one.destination, one.routing_key].join("\n").toLowerCase().includes(filter));
  const wantedLoose = loose.filter((name) => name.toLowerCase().includes(filter));
  const {shown, boxes} = readable(wanted);
  const shownLoose = wantedLoose.slice(0, BOXES_MAX - boxes);
  const layout = layOut(shown, shownLoose);
  const cut = [[wanted.length - shown.length, "line"],
    [wantedLoose.length - shownLoose.length, "queue"]].filter(([number]) => number > 0);
  render(said, describe(vhost, shown, boxes, shownLoose.length),
    cut.length > 0 && h("strong", {}, ` ${cut.map((one) => plural(...one)).join(" and ")} not `
      + "shown: use the filter to select others."));
  render(warnings, warned.slice(0, WARNINGS_MAX).map((one) => warningView(one, vhost)),
    warned.length > WARNINGS_MAX && h("li", {}, `and ${warned.length - WARNINGS_MAX} more`));
  const {width, height} = layout;
  const size = {width, height, viewBox: `0 0 ${width} ${height}`};
  render(picture, layout.boxes.length > 0 && svg("svg", {...size, role: "group",
    "aria-label": "Bindings"},
  layout.edges.map(edgeView), layout.boxes.map((one) => boxView(one, view))));
}

function describe(vhost, shown, boxes, loose) {
  const isBound = (one) => ["binding", "shard", "partition"].includes(one.kind);
  const bindings = shown.filter(isBound).length;
  const others = shown.length - bindings;
  const parts = [
    shown.length ? `${plural(bindings, "binding")} between ${boxes} exchanges and queues`
      : "no bindings",
    others && `${plural(others, "line")} of dead letters, alternate exchanges, shovels and `
      + "federation",
    loose && `${plural(loose, "queue")} without a binding`].filter(Boolean);
  const list = [parts.slice(0, -1).join(", "), parts.at(-1)].filter(Boolean).join(", and ");
  return `Virtual host ${vhost}: ${list}. The default exchange, which routes to every queue by its `
    + "name, is not shown.";
}

function warningView({text, exchange, queue, isUnroutable}, vhost) {
  const href = (isUnroutable && to("admin", "vhosts", vhost))
    || (exchange !== undefined && to("exchanges", vhost, exchange))
    || (queue !== undefined && to("queues", vhost, queue));
  return h("li", {class: "bad"}, href ? h("a", {href}, text) : text);
}

// Limits the edges to what is readable: few enough, with few enough boxes. Returns {shown, boxes},
// the number of these.
function readable(edges) {
  const boxes = new Set();
  const shown = [];
  for (const one of inTurn(edges)) {
    const ends = [one.from, one.into];
    const isFull = boxes.size + ends.filter((end) => !boxes.has(end)).length > BOXES_MAX;
    if (isFull || shown.length >= BINDINGS_MAX) continue;
    for (const end of ends) boxes.add(end);
    shown.push(one);
  }
  return {shown, boxes: boxes.size};
}

// One edge of each kind in turn, so that bindings do not crowd out all others.
function inTurn(edges) {
  const kinds = new Map();
  for (const one of edges) {
    if (!kinds.has(one.kind)) kinds.set(one.kind, []);
    kinds.get(one.kind).push(one);
  }
  const lists = [...kinds.values()];
  const longest = lists.reduce((most, one) => Math.max(most, one.length), 0);
  return Array.from({length: longest}, (_, place) => lists.flatMap((one) => one[place] ?? []))
    .flat();
}

function edgeView({parts, from, into, kind, source, destination, keys, ...flow}) {
  const {x2, y2, arrives} = parts.at(-1);
  const head = x2 - 7 * arrives;
  const said = [keys.map((key) => key || "(no key)").join(", "),
    flow.rate === 0 ? rate(0) : flowOf(flow) || "rate unknown"].join(", ");
  return svg("g", {"data-key": `${kind}\n${from}\n${into}`, class: `edge ${kind}`},
    svg("path", {d: parts.map(curve).join("")}),
    svg("path", {class: "head", d: `M${head} ${y2 - 4} L${x2} ${y2} L${head} ${y2 + 4}`}),
    svg("text", {x: x2 - 12 * arrives, y: y2 - 4, "text-anchor": arrives > 0 ? "end" : "start"},
      [clip(keys.join(", "), KEY_MAX), flowOf(flow)].filter(Boolean).join("  ")),
    svg("title", {}, `${source} to ${destination}: ${said}`));
}

// The rate of a line. One that is only known to be no more is marked.
function flowOf({rate: flow, isBound}) {
  if (!flow) return "";
  return `${isBound ? "≤ " : ""}${rate(flow)}`;
}

function curve({x1, y1, x2, y2, leaves, arrives}, place) {
  const bend = Math.max(60, Math.abs(x2 - x1) / 2);
  const begin = `${place ? "L" : "M"}${x1} ${y1}`;
  return `${begin} C${x1 + bend * leaves} ${y1} ${x2 - bend * arrives} ${y2} ${x2} ${y2}`;
}

function boxView({key, kind, name, x, y, height}, {vhost, queues, exchanges}) {
  const pages = {queue: "queues", exchange: "exchanges"};
  const href = pages[kind] ? to(pages[kind], vhost, name || DEFAULT) : to("admin", "shovels");
  const queue = kind === "queue" ? queues.get(name) : undefined;
  const what = queue?.type === "stream" ? "stream" : kind;
  const held = backlog(queue, duration);
  const middle = y + height / 2 + 4;
  const isLacking = (kind === "queue" && !queue) || (kind === "exchange" && !exchanges.has(name));
  return svg("a", {"data-key": key, href, class: `box ${kind} ${isLacking ? "lacking" : what}`,
    "aria-label": `${kind} ${name}`},
  svg("rect", {x, y, width: BOX_WIDTH, height, rx: kind === "queue" ? 3 : 13}),
  svg("text", {x: x + 12, y: held ? middle - 8 : middle}, clip(titleOf(name), NAME_MAX)),
  held && svg("text", {x: x + 12, y: middle + 8, class: "held"}, clip(held, NAME_MAX + 6)),
  svg("title", {}, [`${what} ${name}`, held].filter(Boolean).join(": ")));
}
