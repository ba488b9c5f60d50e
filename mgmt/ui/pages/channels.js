// Channels: the list, and one of them with its rates and consumers.

import {get, path} from "../api.js";
import {Chart, Period, rates} from "../chart.js";
import {code, facts, h, panel, render, table, tag} from "../dom.js";
import {count, details, rate} from "../format.js";
import {refreshNow} from "../live.js";
import {route, to} from "../router.js";
import {List} from "../table.js";

const STATES = {running: "good", idle: "quiet", blocked: "bad", blocking: "bad", flow: "warn",
  down: "bad", crashed: "bad", stopped: "bad"};
const COUNTED = {Published: "publish", Confirmed: "confirm", Unroutable: "return_unroutable",
  "Delivered, to be acked": "deliver", "Delivered without acks": "deliver_no_ack", Got: "get",
  Acknowledged: "ack", Redelivered: "redeliver"};

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
    {key: "user", title: "User"},
    {key: "mode", title: "Mode", sortable: false, cell: (row) => [
      row.confirm && tag("confirms"), row.transactional && tag("transactions")]},
    {key: "state", title: "State", cell: (row) => stateOf(row.state)},
    numberColumn("consumer_count", "Consumers"),
    numberColumn("prefetch_count", "Prefetch"),
    numberColumn("messages_unacknowledged", "Unacked"),
    numberColumn("messages_unconfirmed", "Unconfirmed"),
    rateColumn("publish", "Publish"),
    rateColumn("deliver_get", "Deliver"),
    rateColumn("ack", "Ack"),
  ];
}

route("channels", () => {
  const list = new List({caption: "Channels", where: inVhost, vhosts: true, key: (row) => row.name,
    needs: ["confirm", "transactional"], columns: channelColumns(), empty: "No channel is open."});
  return {title: "Channels", element: h("section", {class: "panel"}, list.element),
    refresh: () => list.refresh()};
});

route("channels/:name", ({name}) => {
  const about = h("div");
  const totals = h("div");
  const consumers = h("div");
  const flow = new Chart("Message rates", rate);
  const period = new Period(refreshNow);
  const element = h("div", {}, panel("Channel", about), period.element,
    h("div", {class: "grid"}, flow.element, panel("Messages", totals)),
    panel("Consumers", consumers));
  return {title: `Channel ${name}`, element, async refresh() {
    const row = await get(path("channels", name), period.query("msg_rates"));
    const stats = row.message_stats ?? {};
    render(about, aboutChannel(row));
    render(totals, facts(Object.fromEntries(Object.entries(COUNTED).map(([title, key]) =>
      [title, [count(stats[key] ?? 0), h("small", {}, ` ${details(stats, key)}`)]]))));
    flow.draw({Published: rates(stats.publish_details), Delivered: rates(stats.deliver_get_details),
      Acknowledged: rates(stats.ack_details), Redelivered: rates(stats.redeliver_details)});
    render(consumers, consumerTable(row.consumer_details));
  }};
});

function aboutChannel(row) {
  const connection = row.connection_details?.name;
  return facts({
    Connection: connection ? h("a", {href: to("connections", connection)}, connection) : "–",
    User: row.user, "Virtual host": row.vhost, State: stateOf(row.state),
    Mode: row.confirm ? "confirms" : row.transactional ? "transactions" : "plain",
    Prefetch: count(row.prefetch_count), "Global prefetch": count(row.global_prefetch_count),
    Unacked: count(row.messages_unacknowledged), Unconfirmed: count(row.messages_unconfirmed),
    Uncommitted: count(row.messages_uncommitted),
  });
}

const HEADS = ["Tag", "Queue", "Channel", "Acks", "Exclusive", "Prefetch", "Activity", "Arguments"];

export function consumerTable(consumers) {
  if (!consumers?.length) return h("p", {class: "quiet"}, "There are no consumers.");
  return table("Consumers", HEADS, consumers.map((one) => [
    one.consumer_tag,
    h("a", {href: to("queues", one.queue.vhost, one.queue.name)}, one.queue.name),
    h("a", {href: to("channels", one.channel_details.name)}, one.channel_details.name),
    one.ack_required ? "manual" : "automatic",
    one.exclusive ? "yes" : "no",
    count(one.prefetch_count),
    one.activity_status?.replaceAll("_", " ") ?? (one.active ? "active" : "waiting"),
    Object.keys(one.arguments ?? {}).length ? code(one.arguments) : "",
  ]));
}
