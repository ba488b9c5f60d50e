// Publishers and consumers of the stream protocol, and stored offsets.

import {get, path, post} from "../api.js";
import {nodeColumn} from "../cluster.js";
import {h, panel} from "../dom.js";
import {changing, field, fields, input} from "../forms.js";
import {byteRate, count, time} from "../format.js";
import {refreshNow} from "../live.js";
import {route, to} from "../router.js";
import {List} from "../table.js";
import {stateOf} from "./channels.js";
import {consumerList, lagInTime} from "./consumers.js";
import {streamTabs} from "./stream_tabs.js";

const number = (key, title) => ({key, title, number: true, cell: (row) => count(row[key])});

const QUEUE = {key: "queue.name", title: "Stream", cell: ({queue}) =>
  h("a", {href: to("queues", queue.vhost, queue.name)}, queue.name)};
const CONNECTION = {key: "connection_details.name", title: "Connection",
  cell: ({connection_details: {name}}) => h("a", {href: to("connections", name)}, name)};
const NODE = {...nodeColumn, key: "connection_details.node",
  cell: ({connection_details: {node}}) => node};

const PUBLISHERS = [
  {key: "reference", title: "Name", cell: (row) => row.reference
    || h("span", {class: "quiet"}, "(none: not deduplicated)")},
  QUEUE, CONNECTION, NODE, {...number("publisher_id", "Id"), minor: true},
  number("published", "Published"), number("confirmed", "Confirmed"), number("errored", "Errors"),
];
const CONSUMERS = [
  {key: "properties.name", title: "Name", cell: ({properties}) => properties.name
    || h("span", {class: "quiet"}, "(none)")},
  QUEUE, number("offset", "Next offset"),
  {key: "offset_lag", title: "Lag", number: true,
    cell: (row) => (isWaiting(row) ? "–" : count(row.offset_lag))},
  {key: "offset_lag_ms", title: "Lag in time", number: true,
    cell: (row) => (isWaiting(row) ? "–" : lagInTime(row))},
  {key: "activity_status", title: "Activity", cell: (row) =>
    row.activity_status.replaceAll("_", " ")},
  CONNECTION, NODE, {...number("subscription_id", "Id"), minor: true},
  number("consumed", "Consumed"), {...number("credits", "Credits"), minor: true},
];

const isWaiting = (row) => row.activity_status === "waiting";

const without = (column, columns) => columns.filter((one) => one !== column);

const keyOf = (row) =>
  `${row.connection_details.name}\n${row.publisher_id ?? row.subscription_id}`;

// kind: publishers or consumers. where(vhost): the API path of those that are listed.
function clientList(kind, columns, where, vhosts = false) {
  const caption = `${kind[0].toUpperCase()}${kind.slice(1)} of the stream protocol`;
  const list = new List({id: kind, caption, where, vhosts, key: keyOf, columns, small: true,
    empty: `No ${kind} of the stream protocol.`,
    needs: ["connection_details", "queue", "activity_status", "properties"]});
  return {element: panel(caption, list.element), refresh: () => list.refresh()};
}

// The part of a stream's page with its clients.
export function streamClients(vhost, name) {
  const publishers = clientList("publishers", without(QUEUE, PUBLISHERS),
    () => path("stream", "publishers", vhost, name));
  const consumers = clientList("consumers", without(QUEUE, CONSUMERS),
    () => path("stream", "consumers", vhost, name));
  const amqp = consumerList({hasOffset: true});
  const where = path("stream", vhost, name);
  const offsets = offsetList(where, () => found?.messages > 0 ? found.next_offset : 0);
  let found;
  const element = h("div", {}, consumers.element,
    panel("Consumers of AMQP 0-9-1", amqp.element), publishers.element,
    panel("Stored offsets", offsets.element, resetForm(where)));
  return {element, async refresh() {
    found = await get(path("queues", vhost, name),
      {columns: "consumer_details,messages,next_offset"});
    // Those of the stream protocol are there, too, but have no channel.
    const ofChannels = found.consumer_details?.filter((one) => one.channel_details.name);
    await Promise.all([amqp.show(ofChannels), publishers.refresh(),
      consumers.refresh(), offsets.refresh()]);
  }};
}

// The offsets that consumers have stored under their names. end(): the offset after the last one.
function offsetList(where, end) {
  return new List({id: "offsets", caption: "Stored offsets", small: true, key: (row) => row.name,
    empty: "No consumer has stored an offset.",
    load: async () => {
      const {offsets} = await get(`${where}/tracking`, {type: "offset"});
      return Object.entries(offsets).map(([name, offset]) =>
        ({name, offset, lag: Math.max(0, end() - 1 - offset)}));
    },
    columns: [{key: "name", title: "Name"}, number("offset", "Offset"),
      {key: "lag", title: "Messages after it", number: true, cell: (row) => count(row.lag)}]});
}

function resetForm(where) {
  return changing("Reset offset", {
    done: ({name}) => `${name} goes on there`, after: refreshNow,
    work: ({name, to: position}) => post(`${where}/offsets`, {name, to: position}),
  }, h("p", {class: "quiet"}, "Stop the consumer first: it stores its own offsets."),
  fields(field("Consumer's name", input("name", {required: true})),
    field("Goes on with", input("to", {required: true}),
      "an offset, a time, how long ago, such as 1h, last or next")));
}

// All connections of the protocol

const inVhost = (what) => (vhost) => path(...["stream", what, vhost].filter(Boolean));

route("stream", () => {
  const list = new List({
    id: "connections", caption: "Stream connections", where: inVhost("connections"), vhosts: true,
    key: (row) => row.name, needs: ["user_provided_name"],
    empty: "No connections of the stream protocol.",
    columns: [
      {key: "name", title: "Name", cell: (row) =>
        [h("a", {href: to("connections", row.name)}, row.name),
          row.user_provided_name && h("div", {class: "quiet"}, row.user_provided_name)]},
      {key: "vhost", title: "Virtual host", minor: true}, nodeColumn,
      {key: "user", title: "User name"},
      {key: "state", title: "State", cell: (row) => stateOf(row.state)},
      {key: "client_properties.product", title: "Client", minor: true},
      {key: "recv_oct_details.rate", title: "From client", number: true,
        cell: (row) => byteRate(row.recv_oct_details?.rate)},
      {key: "send_oct_details.rate", title: "To client", number: true,
        cell: (row) => byteRate(row.send_oct_details?.rate)},
      {key: "connected_at", title: "Connected at", minor: true,
        cell: (row) => time(row.connected_at)},
    ],
  });
  const publishers = clientList("publishers", PUBLISHERS, inVhost("publishers"), true);
  const consumers = clientList("consumers", CONSUMERS, inVhost("consumers"), true);
  const element = h("div", {}, streamTabs("connections"),
    panel("Stream connections", list.element), publishers.element, consumers.element);
  return {title: "Stream connections", element, refresh: () =>
    Promise.all([list.refresh(), publishers.refresh(), consumers.refresh()])};
});

// The publishers and consumers of one connection, on its page.
export function connectionClients(vhost, name) {
  const of = (kind) => () => path("stream", "connections", vhost, name, kind);
  const publishers = clientList("publishers", without(CONNECTION, PUBLISHERS), of("publishers"));
  const consumers = clientList("consumers", without(CONNECTION, CONSUMERS), of("consumers"));
  return {element: h("div", {}, publishers.element, consumers.element),
    refresh: () => Promise.all([publishers.refresh(), consumers.refresh()])};
}
