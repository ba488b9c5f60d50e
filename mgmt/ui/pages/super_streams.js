// Super streams: their partitions, the active consumers of these, adding and deleting one.

import {del, get, path, put} from "../api.js";
import {queueLink} from "../declared.js";
import {attempt, confirm, confirmByName} from "../dialog.js";
import {code, facts, fold, h, panel, render} from "../dom.js";
import {changing, dangerous, field, fields, input, object, objectField, vhostField}
  from "../forms.js";
import {bytes, count, duration, plural} from "../format.js";
import {go, route, to} from "../router.js";
import {List} from "../table.js";
import {streamTabs} from "./stream_tabs.js";

const ARGUMENTS = {"x-max-age": "7D", "x-max-length-bytes": 20_000_000_000,
  "x-stream-max-segment-size-bytes": 500_000_000, "x-initial-cluster-size": 3,
  "x-queue-leader-locator": "balanced"};

const inVhost = (vhost) => path(...["stream", "super-streams", vhost].filter(Boolean));

route("stream/super-streams", () => {
  const list = new List({
    caption: "Super streams", where: inVhost, vhosts: true,
    key: (row) => `${row.vhost}\n${row.name}`, empty: "No super streams.",
    columns: [
      {key: "name", title: "Name", cell: (row) =>
        h("a", {href: to("stream", "super-streams", row.vhost, row.name)}, row.name)},
      {key: "vhost", title: "Virtual host"},
      {key: "partitions", title: "Partitions", number: true, sortable: false,
        cell: (row) => count(row.partitions.length)},
    ],
  });
  return {title: "Super streams", refresh: () => list.refresh(),
    element: h("div", {}, streamTabs("super-streams"), h("section", {class: "panel"}, list.element),
      fold("Add a new super stream", addForm(list)))};
});

function addForm(list) {
  return changing("Add super stream", {
    done: ({name}) => `Super stream ${name} added`, after: () => list.refresh(),
    work: ({vhost, name, partitions, keys, arguments: text}) =>
      put(path("stream", "super-streams", vhost, name), {arguments: object(text),
        ...(keys.trim() ? {"binding-keys": keys} : {partitions: Number(partitions)})}),
  }, fields(vhostField(), field("Name", input("name", {required: true})),
    field("Partitions", input("partitions", {type: "number", min: 1, max: 1000, value: 3})),
    field("Or binding keys", input("keys"), "with commas: a partition for each")),
  objectField("Arguments", "arguments", ARGUMENTS));
}

const STREAM = "name,messages,first_offset,next_offset,size_bytes,segments,node,state";

route("stream/super-streams/:vhost/:name", ({vhost, name}) => {
  let rows = [];
  const about = h("div");
  const list = new List({id: "partitions", caption: "Partitions", small: true,
    load: async () => rows, key: (row) => row.stream, empty: "It has no partitions.",
    columns: [
      {key: "stream", title: "Stream", cell: (row) => queueLink(vhost, row.stream)},
      {key: "routing_key", title: "Binding key", cell: (row) => code(row.routing_key)},
      {key: "node", title: "Leader", minor: true},
      {key: "messages", title: "Messages", number: true, cell: (row) => count(row.messages)},
      {key: "size_bytes", title: "Size", number: true, cell: (row) => bytes(row.size_bytes)},
      {key: "consumers", title: "Active consumers", sortable: false, cell: activeConsumers},
    ]});
  const element = h("div", {}, panel("Overview", about), panel("Partitions", list.element),
    panel("Delete", dangerous("Delete this super stream", () => remove(vhost, name, rows))));
  return {title: `Super stream ${name}`, element, async refresh() {
    rows = await partitionsOf(vhost, name);
    render(about, facts({"Virtual host": vhost, Exchange: h("a",
      {href: to("exchanges", vhost, name)}, name), Partitions: count(rows.length),
    Messages: count(sum(rows, "messages")), Size: bytes(sum(rows, "size_bytes"))}));
    await list.refresh();
  }};
});

const sum = (rows, key) => rows.reduce((total, row) => total + (row[key] ?? 0), 0);

async function partitionsOf(vhost, name) {
  const [superStreams, queues, consumers] = await Promise.all([
    get(path("stream", "super-streams", vhost)), get(path("queues", vhost), {columns: STREAM}),
    get(path("stream", "consumers", vhost))]);
  const found = superStreams.find((one) => one.name === name);
  if (!found) {
    const error = new Error("there is no such super stream");
    error.status = 404;
    throw error;
  }
  const known = new Map(queues.map((one) => [one.name, one]));
  return found.partitions.map((one) => ({...known.get(one.stream), ...one,
    consumers: consumers.filter(({queue, active}) => active && queue.name === one.stream)}));
}

function activeConsumers({consumers}) {
  return consumers.map(({properties, connection_details: {name}, offset_lag: lag,
    offset_lag_ms: age}) => h("div", {}, `${properties.name || "(no name)"} on `,
    h("a", {href: to("connections", name)}, name),
    lag ? `, ${plural(lag, "message")} behind (${duration(age)})` : ", up to date"));
}

async function remove(vhost, name, rows) {
  const messages = sum(rows, "messages");
  const detail = `The exchange ${name} and its ${plural(rows.length, "stream")} with `
    + `${plural(messages, "message")} will be deleted.`;
  const isSure = messages ? await confirmByName(`Delete ${name}?`, detail, name)
    : await confirm(`Delete ${name}?`, detail);
  if (!isSure) return;
  const work = () => del(path("stream", "super-streams", vhost, name));
  if (await attempt(`Super stream ${name} deleted`, work)) go("stream", "super-streams");
}
