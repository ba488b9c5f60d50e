// Connections and channels.

import {del, get, path} from "./api.js";
import {attempt, confirm} from "./dialog.js";
import {h, numbers, panel, replace} from "./dom.js";
import {bytes, count, details, json, rate, time} from "./format.js";
import {go, route, to} from "./router.js";
import {List} from "./table.js";

route("connections", () => {
  const list = new List({
    caption: "Connections", where: "connections", key: (row) => row.name, empty: "No client is connected.",
    columns: [
      {key: "name", title: "Connection", cell: (row) => [h("a", {href: to("connections", row.name)}, row.name),
        row.user_provided_name ? h("div", {class: "quiet"}, row.user_provided_name) : ""]},
      {key: "user", title: "User"}, {key: "vhost", title: "Virtual host"},
      {key: "state", title: "State", cell: (row) => state(row.state)},
      {key: "ssl", title: "TLS", cell: (row) => (row.ssl ? row.ssl_protocol : "no")},
      {key: "channels", title: "Channels", number: true, cell: (row) => count(row.channels)},
      {key: "recv_oct", title: "In", number: true, cell: (row) => `${bytes(row.recv_oct_details?.rate)}/s`},
      {key: "send_oct", title: "Out", number: true, cell: (row) => `${bytes(row.send_oct_details?.rate)}/s`},
    ],
  });
  return {title: "Connections", element: h("section", {class: "panel"}, list.element), refresh: () => list.refresh()};
});

export function state(name) {
  const kind = {running: "good", blocked: "bad", blocking: "bad", flow: "warn"}[name] ?? "";
  return h("span", {class: kind}, name);
}

route("connections/:name", ({name}, user) => {
  const facts = h("div");
  const properties = h("pre");
  const channels = new List({
    caption: "Channels", load: () => get(path("connections", name, "channels")), key: (row) => row.name,
    columns: channelColumns(), empty: "It has no channels.",
  });
  const close = h("button", {type: "button", class: "danger", onclick: async () => {
    if (!await confirm("Close this connection?", `${name} will be closed, and its client told why.`, "Close")) return;
    if (await attempt("Connection closed", () => del(path("connections", name), {}, {"X-Reason": `closed by ${user.name} in the management pages`}))) go("connections");
  }}, "Close the connection");
  return {title: `Connection ${name}`, element: h("div", {}, panel("Connection", facts, close),
    panel("Client properties", properties), panel("Channels", channels.element)), async refresh() {
    const row = await get(path("connections", name));
    replace(facts, numbers({State: state(row.state), User: row.user, "Virtual host": row.vhost, Protocol: row.protocol,
      Mechanism: row.auth_mechanism, TLS: row.ssl ? `${row.ssl_protocol} ${row.ssl_cipher}` : "no",
      Heartbeat: row.timeout ? `${row.timeout} s` : "off", "Frame max": bytes(row.frame_max), Since: time(row.connected_at),
      In: bytes(row.recv_oct), Out: bytes(row.send_oct)}));
    replace(properties, json(row.client_properties));
    await channels.refresh();
  }};
});

function channelColumns() {
  return [
    {key: "name", title: "Channel", cell: (row) => h("a", {href: to("channels", row.name)}, row.name)},
    {key: "user", title: "User"}, {key: "vhost", title: "Virtual host"},
    {key: "mode", title: "Mode", sortable: false, cell: (row) => [row.confirm ? h("span", {class: "tag"}, "confirms") : "",
      row.transactional ? h("span", {class: "tag"}, "transactions") : ""]},
    {key: "consumer_count", title: "Consumers", number: true, cell: (row) => count(row.consumer_count)},
    {key: "prefetch_count", title: "Prefetch", number: true, cell: (row) => count(row.prefetch_count)},
    {key: "messages_unacknowledged", title: "Unacked", number: true, cell: (row) => count(row.messages_unacknowledged)},
    {key: "messages_unconfirmed", title: "Unconfirmed", number: true, cell: (row) => count(row.messages_unconfirmed)},
    {key: "publish", title: "Publish", number: true, sortable: false, cell: (row) => details(row.message_stats, "publish")},
    {key: "deliver", title: "Deliver", number: true, sortable: false, cell: (row) => details(row.message_stats, "deliver_get")},
    {key: "ack", title: "Ack", number: true, sortable: false, cell: (row) => details(row.message_stats, "ack")},
  ];
}

route("channels", () => {
  const list = new List({caption: "Channels", where: "channels", key: (row) => row.name, columns: channelColumns(),
    empty: "No channel is open."});
  return {title: "Channels", element: h("section", {class: "panel"}, list.element), refresh: () => list.refresh()};
});

route("channels/:name", ({name}) => {
  const facts = h("div");
  const messages = h("div");
  const consumers = h("div");
  return {title: `Channel ${name}`, element: h("div", {}, panel("Channel", facts), panel("Messages", messages),
    panel("Consumers", consumers)), async refresh() {
    const row = await get(path("channels", name));
    replace(facts, numbers({Connection: h("a", {href: to("connections", row.connection_details.name)}, row.connection_details.name),
      User: row.user, "Virtual host": row.vhost, State: state(row.state), Mode: row.confirm ? "confirms" : row.transactional ? "transactions" : "plain",
      Prefetch: count(row.prefetch_count), "Global prefetch": count(row.global_prefetch_count),
      Unacked: count(row.messages_unacknowledged), Unconfirmed: count(row.messages_unconfirmed)}));
    const stats = row.message_stats ?? {};
    replace(messages, numbers(Object.fromEntries(["publish", "confirm", "deliver", "deliver_no_ack", "get", "ack", "redeliver", "return_unroutable"]
      .map((key) => [key.replaceAll("_", " "), `${count(stats[key] ?? 0)} (${rate(stats[`${key}_details`]?.rate ?? 0)})`]))));
    replace(consumers, consumerTable(row.consumer_details));
  }};
});

export function consumerTable(consumers) {
  if (!consumers?.length) return h("p", {class: "quiet"}, "There are no consumers.");
  return h("div", {class: "scroll"}, h("table", {}, h("caption", {class: "visually-hidden"}, "Consumers"),
    h("thead", {}, h("tr", {}, ["Tag", "Channel", "Queue", "Acks", "Prefetch", "Active", "Arguments"].map((name) => h("th", {scope: "col"}, name)))),
    h("tbody", {}, consumers.map((one) => h("tr", {}, h("td", {}, one.consumer_tag),
      h("td", {}, h("a", {href: to("channels", one.channel_details.name)}, one.channel_details.name)),
      h("td", {}, h("a", {href: to("queues", one.queue.vhost, one.queue.name)}, one.queue.name)),
      h("td", {}, one.ack_required ? "manual" : "automatic"), h("td", {}, count(one.prefetch_count)),
      h("td", {}, one.activity_status), h("td", {}, h("code", {}, JSON.stringify(one.arguments))))))));
}
