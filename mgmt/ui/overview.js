// The overview: totals, live charts, what the node takes, what listens, and definitions.

import {get, path, request} from "./api.js";
import {Chart, lengths, rates} from "./chart.js";
import {attempt, notice, open} from "./dialog.js";
import {checkbox, field, form, h, input, numbers, panel, replace} from "./dom.js";
import {bytes, count, duration, rate} from "./format.js";
import {route} from "./router.js";

const RATES = {publish: "Published", confirm: "Confirmed", deliver_get: "Delivered", ack: "Acknowledged",
  redeliver: "Redelivered", return_unroutable: "Returned"};

route("", (_parameters, user) => {
  const monitor = user.tags.some((tag) => ["administrator", "monitoring"].includes(tag));
  const totals = h("div");
  const messages = new Chart("Queued messages", count);
  const flow = new Chart("Message rates", rate);
  const node = h("div");
  const listening = h("div");
  const element = h("div", {}, panel("Totals", totals),
    h("div", {class: "grid"}, h("section", {class: "panel"}, messages.element), h("section", {class: "panel"}, flow.element)),
    monitor ? h("div", {class: "grid"}, panel("Node", node), panel("Listeners", listening)) : "",
    user.tags.includes("administrator") ? definitions() : "");
  return {title: "Overview", element, async refresh() {
    const found = await get("overview", {lengths_age: 60, lengths_incr: 5, msg_rates_age: 60, msg_rates_incr: 5});
    const objects = found.object_totals;
    replace(totals, numbers({Connections: count(objects.connections), Channels: count(objects.channels),
      Exchanges: count(objects.exchanges), Queues: count(objects.queues), Consumers: count(objects.consumers),
      Ready: count(found.queue_totals.messages_ready), Unacked: count(found.queue_totals.messages_unacknowledged)}));
    messages.draw({Ready: lengths(found.queue_totals.messages_ready_details),
      Unacked: lengths(found.queue_totals.messages_unacknowledged_details)});
    flow.draw(Object.fromEntries(Object.entries(RATES).map(([name, title]) =>
      [title, rates(found.message_stats[`${name}_details`])])));
    if (!monitor) return;
    const [one] = await get("nodes");
    drawNode(node, found, one);
    replace(listening, h("div", {class: "scroll"}, h("table", {}, h("caption", {class: "visually-hidden"}, "Listeners"),
      h("thead", {}, h("tr", {}, ["Protocol", "Address", "Port"].map((name) => h("th", {scope: "col"}, name)))),
      h("tbody", {}, found.listeners.map((each) => h("tr", {}, h("td", {}, each.protocol),
        h("td", {}, each.ip_address), h("td", {}, each.port)))))));
  }};
});

function drawNode(element, found, one) {
  replace(element, h("p", {}, h("b", {}, one.name), ` in cluster ${found.cluster_name}, `,
    h("span", {class: "quiet"}, `Leveret ${found.leveret_version}, as RabbitMQ ${found.rabbitmq_version}; up ${duration(one.uptime)}`)),
  meter("Memory", one.mem_used, one.mem_limit, bytes), meter("File descriptors", one.fd_used, one.fd_total, count),
  h("p", {class: one.disk_free_alarm ? "bad" : ""}, `Disk: ${bytes(one.disk_free)} free, low below ${bytes(one.disk_free_limit)}`));
}

function meter(title, value, most, show) {
  const share = most ? Math.min(100, 100 * value / most) : 0;
  return h("div", {}, h("p", {class: "label"}, `${title}: ${show(value)} of ${show(most)}`),
    h("div", {class: share > 90 ? "meter over" : "meter", role: "meter", "aria-label": title, "aria-valuemin": 0,
      "aria-valuemax": most, "aria-valuenow": value}, h("span", {style: {width: `${share}%`}})));
}

function definitions() {
  const file = input("file", {type: "file", accept: "application/json,.json", required: true});
  const vhost = input("vhost");
  const take = form("Show what would change", async ({file: chosen, vhost: into}) => {
    if (!chosen) return;
    try {
      await review(await chosen.text(), into ? path("definitions", into) : "definitions");
    } catch (error) {
      notice(error.message, true);
    }
  }, field("File", file), field("Into one virtual host", vhost, "all, if empty"));
  const download = h("button", {type: "button", onclick: save}, "Download definitions");
  return panel("Definitions", h("div", {class: "grid"}, h("div", {}, h("h3", {}, "Download"),
    h("p", {class: "quiet"}, "Everything that is declared, with password hashes."), download),
  h("div", {}, h("h3", {}, "Upload"), take)));
}

async function save() {
  await attempt("Definitions downloaded", async () => {
    const content = JSON.stringify(await get("definitions"), null, 2);
    const link = h("a", {href: URL.createObjectURL(new Blob([content], {type: "application/json"})), download: "definitions.json"});
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}

const SIGNS = {add: "+", change: "~", conflict: "!"};
const SHOWN_MAX = 500;

async function review(text, where) {
  const plan = await request("POST", where, {raw: text, query: {dry_run: true}});
  const lines = plan.changes.slice(0, SHOWN_MAX).map((change) => h("li", {class: change.action === "conflict" ? "bad" : ""},
    `${SIGNS[change.action]} ${change.kind} ${change.name}${change.vhost ? ` in ${change.vhost}` : ""}`
    + (change.from ? `: ${JSON.stringify(change.from)} → ${JSON.stringify(change.to)}` : "")
    + (change.reason ? ` (${change.reason})` : "")));
  if (plan.changes.length > SHOWN_MAX) lines.push(h("li", {}, `… and ${plan.changes.length - SHOWN_MAX} more`));
  const dialog = open("What would change", h("p", {}, `${plan.changes.length} changes; ${plan.unchanged} are as they are.`),
    h("ul", {class: "diff"}, lines),
    form("Import", async ({sure}) => {
      if (!sure) return;
      if (await attempt("Definitions imported", () => request("POST", where, {raw: text}))) dialog.close();
    }, checkbox("Import these definitions", "sure")));
}
