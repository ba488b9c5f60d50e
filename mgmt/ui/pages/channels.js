// Channels: the list, and a single channel with its rates and consumers.

import {get, path} from "../api.js";
import {Chart} from "../chart.js";
import {aboutNode, nodeColumn} from "../cluster.js";
import {facts, h, panel, render, tag} from "../dom.js";
import {count, details, rate} from "../format.js";
import {refreshNow} from "../live.js";
import {Period} from "../period.js";
import {route, to} from "../router.js";
import {messageRates} from "../samples.js";
import {List} from "../table.js";
import {consumerList} from "./consumers.js";

const STATES = {running: "good", idle: "quiet", blocked: "bad", blocking: "bad", flow: "warn",
  down: "bad", crashed: "bad", stopped: "bad"};
const COUNTED = {Publish: "publish", "Publisher confirm": "confirm",
  "Unroutable (return)": "return_unroutable", "Unroutable (drop)": "drop_unroutable",
  "Deliver (manual ack)": "deliver", "Deliver (auto ack)": "deliver_no_ack",
  "Get (manual ack)": "get", "Get (auto ack)": "get_no_ack", "Get (empty)": "get_empty",
  "Consumer ack": "ack", Redelivered: "redeliver"};

const inVhost = (vhost) => (vhost ? `${path("vhosts", vhost)}/channels` : "channels");

export const stateOf = (name) =>
  h("span", {class: `state ${STATES[name] ?? ""}`}, name ?? "unknown");

const numberColumn = (key, title) =>
  ({key, title, number: true, cell: (row) => count(row[key])});

export const rateColumn = (name, title) => ({key: `message_stats.${name}_details.rate`, title,
  number: true, cell: (row) => details(row.message_stats, name)});

export function channelColumns() {
  return [
    {key: "name", title: "Name", cell: (row) => h("a", {href: to("channels", row.name)}, row.name)},
    {key: "vhost", title: "Virtual host"},
    nodeColumn,
    {key: "user", title: "User name"},
    {key: "mode", title: "Mode", sortable: false, cell: (row) => [
      row.confirm && tag("confirm"), row.transactional && tag("transactional")]},
    {key: "state", title: "State", cell: (row) => stateOf(row.state)},
    numberColumn("consumer_count", "Consumers"),
    numberColumn("prefetch_count", "Prefetch"),
    numberColumn("messages_unacknowledged", "Unacked"),
    numberColumn("messages_unconfirmed", "Unconfirmed"),
    rateColumn("publish", "Publish"),
    rateColumn("deliver_get", "Deliver / get"),
    rateColumn("ack", "Ack"),
    {...rateColumn("confirm", "Confirm"), isExtra: true},
    {...rateColumn("return_unroutable", "Unroutable (return)"), isExtra: true},
    {...rateColumn("redeliver", "Redelivered"), isExtra: true},
    {...numberColumn("messages_uncommitted", "Uncommitted"), isExtra: true},
  ];
}

route("channels", () => {
  const list = new List({caption: "Channels", where: inVhost, vhosts: true, key: (row) => row.name,
    needs: ["confirm", "transactional"], columns: channelColumns(), empty: "No open channels."});
  return {title: "Channels", element: h("section", {class: "panel"}, list.element),
    refresh: () => list.refresh()};
});

route("channels/:name", ({name}) => {
  const about = h("div");
  const totals = h("div");
  const consumers = consumerList({hasQueue: true});
  const flow = new Chart("Message rates", rate);
  const period = new Period(refreshNow);
  const element = h("div", {}, panel("Overview", about), period.element,
    h("div", {class: "grid"}, flow.element, panel("Messages", totals)),
    panel("Consumers", consumers.element));
  return {title: `Channel ${name}`, element, async refresh() {
    const row = await get(path("channels", name), period.query("msg_rates"));
    const stats = row.message_stats ?? {};
    render(about, aboutChannel(row));
    render(totals, facts(Object.fromEntries(Object.entries(COUNTED).map(([title, key]) =>
      [title, [count(stats[key] ?? 0), h("small", {}, ` ${details(stats, key)}`)]]))));
    flow.draw(messageRates(stats));
    await consumers.show(row.consumer_details);
  }};
});

function aboutChannel(row) {
  const connection = row.connection_details?.name;
  return facts({
    Connection: connection ? h("a", {href: to("connections", connection)}, connection) : "–",
    "User name": row.user, "Virtual host": row.vhost, ...aboutNode(row),
    State: stateOf(row.state),
    Mode: row.confirm ? "confirm" : row.transactional ? "transactional" : "–",
    "Prefetch count": count(row.prefetch_count),
    "Global prefetch count": count(row.global_prefetch_count),
    Unacked: count(row.messages_unacknowledged), Unconfirmed: count(row.messages_unconfirmed),
    Uncommitted: count(row.messages_uncommitted),
  });
}

