// Sessions of AMQP 1.0, and their links: parts of a connection's page.

import {get, path} from "../api.js";
import {code, h, panel} from "../dom.js";
import {bytes, count} from "../format.js";
import {to} from "../router.js";
import {List} from "../table.js";

const number = (key, title) => ({key, title, number: true, cell: (row) => count(row[key])});
const yesOrNo = (key, title) => ({key, title, cell: (row) => (row[key] ? "yes" : "no")});
const none = (text) => h("span", {class: "quiet"}, text);

const SESSION = {key: "channel_number", title: "Session", number: true,
  cell: (row) => count(row.channel_number)};
const SIZE = {key: "max_message_size", title: "Largest message", number: true, minor: true,
  cell: ({max_message_size: size}) => (typeof size === "number" ? bytes(size) : size)};
const CREDIT = {key: "credit", title: "Credit", number: true,
  cell: ({credit}) => (credit > 0 ? count(credit) : h("span", {class: "bad"}, count(credit)))};

const SESSIONS = [
  SESSION, number("incoming_window", "Incoming window"),
  number("remote_incoming_window", "Client's incoming window"),
  number("remote_outgoing_window", "Client's outgoing window"),
  number("outgoing_unsettled_deliveries", "Unsettled"),
  {...number("next_incoming_id", "Next incoming id"), minor: true},
  {...number("next_outgoing_id", "Next outgoing id"), minor: true},
  {...number("handle_max", "Handle max"), minor: true},
];
const INCOMING = [
  SESSION, number("handle", "Handle"), {key: "link_name", title: "Name"},
  {key: "target_address", title: "Target", cell: ({target_address: address}) =>
    address ?? none("(each message names its own)")},
  {key: "snd_settle_mode", title: "Settle mode"}, CREDIT,
  number("unconfirmed_messages", "Unconfirmed"), number("delivery_count", "Delivery count"), SIZE,
];
const outgoing = (vhost) => [
  SESSION, number("handle", "Handle"), {key: "link_name", title: "Name"},
  {key: "source_address", title: "Source", cell: (row) => row.source_address ?? ""},
  {key: "queue_name", title: "Queue", cell: ({queue_name: queue}) =>
    (queue ? h("a", {href: to("queues", vhost, queue)}, queue) : none("(management)"))},
  yesOrNo("send_settled", "Sent settled"), CREDIT, number("delivery_count", "Delivery count"),
  {key: "filter", title: "Filters", cell: ({filter}) => (filter.length
    ? code(Object.fromEntries(filter.map(({name, value}) => [name, value]))) : "")}, SIZE,
];

// The sessions of a connection, and the links of all of them.
export function connectionSessions({name, vhost}) {
  let sessions = [];
  const links = (kind) => sessions.flatMap(({channel_number, [kind]: found}) =>
    found.map((link) => ({...link, channel_number})));
  const list = (id, caption, columns, load) => new List({
    id, caption, columns, small: true, load: async () => load(),
    empty: `No ${caption.toLowerCase()}.`,
    key: (row) => `${row.channel_number}\n${row.handle ?? ""}`,
  });
  const parts = [
    list("sessions", "Sessions", SESSIONS, () => sessions),
    list("incoming", "Incoming links", INCOMING, () => links("incoming_links")),
    list("outgoing", "Outgoing links", outgoing(vhost), () => links("outgoing_links")),
  ];
  const element = h("div", {}, ...parts.map((one) => panel(one.caption, one.element)));
  return {element, async refresh() {
    sessions = await get(path("connections", name, "sessions"));
    await Promise.all(parts.map((one) => one.refresh()));
  }};
}
