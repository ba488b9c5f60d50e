// The overview: totals, live charts, the nodes and their limits, ports, and definitions.

import {get} from "../api.js";
import {Chart} from "../chart.js";
import {silence} from "../cluster.js";
import {facts, h, panel, render} from "../dom.js";
import {count, duration, rate} from "../format.js";
import {refreshNow} from "../live.js";
import {Period} from "../period.js";
import {route, to} from "../router.js";
import {messageRates, queuedMessages} from "../samples.js";
import {mayAdminister, mayMonitor} from "../session.js";
import {definitionsPanel} from "./definitions.js";
import {listenerTable, nodeMeters} from "./node.js";

const CHURN = {
  "Connections created": "connection_created", "Connections closed": "connection_closed",
  "Channels created": "channel_created", "Channels closed": "channel_closed",
  "Queues declared": "queue_declared", "Queues created": "queue_created",
  "Queues deleted": "queue_deleted"};

route("", () => {
  const parts = {totals: h("div"), node: h("div"), churn: h("div"), listeners: h("div")};
  const messages = new Chart("Queued messages", count);
  const flow = new Chart("Message rates", rate);
  const period = new Period(refreshNow, true);
  const element = h("div", {}, panel("Totals", parts.totals), period.element,
    h("div", {class: "grid"}, messages.element, flow.element),
    mayMonitor() ? h("div", {class: "grid"}, panel("Nodes", parts.node),
      panel("Ports and contexts", parts.listeners)) : "",
    panel("Churn statistics", parts.churn),
    mayAdminister() ? definitionsPanel() : "");
  return {title: "Overview", element, async refresh() {
    const found = await get("overview", period.query("lengths", "msg_rates"));
    drawTotals(parts.totals, found);
    messages.draw(queuedMessages(found.queue_totals));
    flow.draw(messageRates(found.message_stats));
    render(parts.churn, facts(Object.fromEntries(Object.entries(CHURN).map(([name, key]) => [name,
      [count(found.churn_rates?.[key]), h("small", {}, ` ${rate(rateOf(found, key))}`)]]))));
    if (!mayMonitor()) return;
    render(parts.listeners, listenerTable(found));
    drawNode(parts.node, found, await get("nodes"));
  }};
});

const rateOf = (found, key) => found.churn_rates?.[`${key}_details`]?.rate;

function drawTotals(element, found) {
  const objects = found.object_totals;
  const queued = found.queue_totals;
  const link = (page, number) => h("a", {href: to(page)}, count(number));
  render(element, facts({
    Connections: link("connections", objects.connections),
    Channels: link("channels", objects.channels),
    Exchanges: link("exchanges", objects.exchanges), Queues: link("queues", objects.queues),
    Consumers: count(objects.consumers), Ready: count(queued.messages_ready ?? 0),
    Unacked: count(queued.messages_unacknowledged ?? 0), Total: count(queued.messages ?? 0),
  }));
}

function drawNode(element, found, nodes) {
  const versions = found.leveret_version
    ? `Leveret ${found.leveret_version}, compatible with RabbitMQ ${found.rabbitmq_version}`
    : `${found.product_name} ${found.rabbitmq_version}`;
  render(element, h("p", {class: "quiet"}, `Cluster name: ${found.cluster_name}. ${versions}.`),
    nodes.map((node) => h("div", {"data-key": node.name},
      h("h3", {}, h("a", {href: to("nodes", node.name)}, node.name),
        silence(node) ? "" : h("small", {}, ` up ${duration(node.uptime)}`)),
      silence(node) ? h("p", {class: "bad"}, `This node ${silence(node)}.`) : nodeMeters(node))));
}
