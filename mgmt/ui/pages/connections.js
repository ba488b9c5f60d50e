// Connections: the list, and a single connection with its channels and client properties.

import {del, get, path} from "../api.js";
import {Chart} from "../chart.js";
import {aboutNode, nodeColumn} from "../cluster.js";
import {attempt, confirm} from "../dialog.js";
import {facts, h, panel, render, replace} from "../dom.js";
import {dangerous, field, input} from "../forms.js";
import {byteRate, bytes, count, json, time} from "../format.js";
import {refreshNow} from "../live.js";
import {Period} from "../period.js";
import {go, route, to} from "../router.js";
import {rates} from "../samples.js";
import {asBytes, session} from "../session.js";
import {List} from "../table.js";
import {channelColumns, stateOf} from "./channels.js";
import {connectionSessions} from "./links.js";
import {connectionClients} from "./stream_clients.js";

const inVhost = (vhost) => (vhost ? `${path("vhosts", vhost)}/connections` : "connections");

const link = (row) => [h("a", {href: to("connections", row.name)}, row.name),
  row.user_provided_name ? h("div", {class: "quiet"}, row.user_provided_name) : ""];

route("connections", () => {
  const list = new List({
    caption: "Connections", where: inVhost, vhosts: true, key: (row) => row.name,
    needs: ["user_provided_name", "ssl_protocol"],
    empty: "No connections.",
    columns: [
      {key: "name", title: "Name", cell: link},
      {key: "vhost", title: "Virtual host", minor: true},
      nodeColumn,
      {key: "user", title: "User name"},
      {key: "state", title: "State", cell: (row) => stateOf(row.state)},
      {key: "ssl", title: "TLS", minor: true,
        cell: (row) => (row.ssl ? row.ssl_protocol ?? "yes" : "no")},
      {key: "protocol", title: "Protocol", minor: true},
      {key: "channels", title: "Channels", number: true, cell: (row) => count(row.channels)},
      {key: "recv_oct_details.rate", title: "From client", number: true,
        cell: (row) => byteRate(row.recv_oct_details?.rate)},
      {key: "send_oct_details.rate", title: "To client", number: true,
        cell: (row) => byteRate(row.send_oct_details?.rate)},
      {key: "client_properties.product", title: "Client", isExtra: true},
      {key: "client_properties.client_id", title: "Client id", isExtra: true},
      {key: "container_id", title: "Container id", isExtra: true},
      {key: "peer_host", title: "Client address", isExtra: true},
      {key: "timeout", title: "Heartbeat", number: true, isExtra: true,
        cell: (row) => (row.timeout ? `${row.timeout} s` : "off")},
      {key: "connected_at", title: "Connected at", cell: (row) => time(row.connected_at)},
    ],
  });
  return {title: "Connections", element: h("section", {class: "panel"}, list.element),
    refresh: () => list.refresh()};
});

route("connections/:name", ({name}) => {
  const about = h("div");
  const properties = h("pre", {tabindex: 0, "aria-label": "Client properties"});
  const flow = new Chart("Data rates", byteRate);
  const period = new Period(refreshNow);
  const channels = new List({
    caption: "Channels", small: true, load: () => get(path("connections", name, "channels")),
    key: (row) => row.name, columns: channelColumns(), empty: "No channels.",
  });
  const end = dangerous("Force close", () => closeConnection(name));
  const parts = h("div", {}, panel("Channels", channels.element));
  let clients = channels;
  const element = h("div", {}, panel("Overview", about, end), parts, period.element,
    h("div", {class: "grid"}, flow.element, panel("Client properties", properties)));
  return {title: `Connection ${name}`, element, async refresh() {
    const row = await get(path("connections", name), period.query("data_rates"));
    render(about, aboutConnection(row));
    render(properties, json(row.client_properties));
    flow.draw({"From client": rates(row, "recv_oct"), "To client": rates(row, "send_oct")});
    if (clients === channels && row.protocol in PARTS) {
      clients = PARTS[row.protocol](row);
      replace(parts, clients.element);
    }
    await clients.refresh();
  }};
});

// What connections of a protocol without channels have in their place.
const PARTS = {
  "stream": (row) => connectionClients(row.vhost, row.name),
  "AMQP 1-0": connectionSessions,
};

function aboutConnection(row) {
  return facts({
    State: stateOf(row.state), "User name": row.user, "Virtual host": row.vhost,
    ...aboutNode(row), Client: `${row.peer_host}:${row.peer_port}`,
    Server: `${row.host}:${row.port}`,
    Protocol: row.protocol, "Authentication": row.auth_mechanism,
    TLS: row.ssl ? [row.ssl_protocol, row.ssl_cipher].filter(Boolean).join(" ") : "no",
    Heartbeat: row.timeout ? `${row.timeout} s` : "off", "Frame max": bytes(row.frame_max),
    "Channel max": count(row.channel_max), ...ofProtocol(row.variable_map),
    ...(row.container_id === undefined ? {} : {"Container id": row.container_id}),
    "Connected at": time(row.connected_at),
    "From client": bytes(row.recv_oct), "To client": bytes(row.send_oct),
    ...(row.peer_cert_subject ? {Certificate: row.peer_cert_subject} : {}),
  });
}

const VARIABLES = {
  client_id: "Client id", clean_sess: "Clean session", will_msg: "Topic of the will",
  exchange: "Exchange", subscriptions: "Subscriptions", session_id: "Session id",
  auth_mechanism: "Login by",
};

/** What only connections of MQTT or STOMP have. */
function ofProtocol(variables = {}) {
  const shown = (value) => (typeof value === "boolean" ? (value ? "yes" : "no") : value ?? "none");
  return Object.fromEntries(Object.entries(VARIABLES)
    .filter(([key]) => key in variables).map(([key, title]) => [title, shown(variables[key])]));
}

async function closeConnection(name) {
  const reason = input("reason", {value: `Closed by ${session.user.name} in the management UI`});
  const detail = `${name} and all its channels will be closed, and its unacknowledged `
    + "messages requeued.";
  const isSure = await confirm("Close this connection?", detail, "Close",
    field("Reason sent to the client", reason));
  if (!isSure) return;
  const work = () => del(path("connections", name), {}, {"X-Reason": asBytes(reason.value)});
  if (await attempt("Connection closed", work)) go("connections");
}
