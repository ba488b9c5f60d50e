// The list of queues, and adding one, with a preview of the declaration.

import {path, put} from "../api.js";
import {nodeColumn, nodeNames} from "../cluster.js";
import {FEATURES, addPlan, queueLink, shortTags} from "../declared.js";
import {fold, h} from "../dom.js";
import {changing, checkbox, field, fields, nameField, object, objectField, row, select, vhostField}
  from "../forms.js";
import {bytes, count, duration, percent} from "../format.js";
import {MEMBERS, MIRRORS, memberTags, mirrorTags} from "../mirrors.js";
import {route} from "../router.js";
import {List, vhostOr} from "../table.js";
import {rateColumn, stateOf} from "./channels.js";

const ARGUMENTS = {
  "x-queue-type": "quorum", "x-message-ttl": 60000, "x-expire-on-time": true, "x-expires": 1800000,
  "x-max-length": 1000, "x-max-length-bytes": 1000000,
  "x-overflow": "reject-publish", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "",
  "x-max-priority": 10, "x-single-active-consumer": true, "x-queue-mode": "lazy",
  "x-delayed-retry-type": "all", "x-delayed-retry-min": 1000, "x-delayed-retry-max": 600000,
  "x-delayed-retry-multiplier": 2, "x-delivery-limit": 20,
  "x-message-deduplication": true, "x-cache-size": 200000, "x-cache-ttl": 3600000,
};

const lengthColumn = (key, title) => ({key, title, number: true, cell: (one) => count(one[key])});

// The node, and how many others have mirrors or members.
const placeColumn = {key: "node", title: "Node", minor: true,
  get isExtra() {
    return nodeColumn.isExtra;
  },
  cell: (row) => [nodeColumn.cell(row), " ", mirrorTags(row), memberTags(row)]};

route("queues", () => {
  const list = new List({
    caption: "Queues", where: vhostOr("queues"), vhosts: true, empty: "No queues.",
    needs: [...FEATURES, ...MIRRORS, ...MEMBERS, "idle_since", "sync_messages", "size_bytes"],
    key: (one) => `${one.vhost}\n${one.name}`,
    columns: [
      {key: "name", title: "Name", cell: (one) => queueLink(one.vhost, one.name)},
      {key: "vhost", title: "Virtual host", minor: true},
      placeColumn,
      {key: "type", title: "Type", isExtra: true},
      {key: "features", title: "Features", sortable: false, minor: true, cell: shortTags},
      {key: "state", title: "State", minor: true, cell: stateOfQueue},
      lengthColumn("messages_ready", "Ready"),
      lengthColumn("messages_unacknowledged", "Unacked"),
      lengthColumn("messages", "Total"),
      {key: "oldest_ready_age_ms", title: "Oldest message", number: true,
        cell: (one) => duration(one.oldest_ready_age_ms)},
      {key: "message_bytes", title: "Message bytes", number: true,
        cell: (one) => bytes(one.message_bytes ?? one.size_bytes)},
      lengthColumn("consumers", "Consumers"),
      rateColumn("publish", "Incoming"),
      rateColumn("deliver_get", "Deliver / get"),
      rateColumn("ack", "Ack"),
      {...rateColumn("redeliver", "Redelivered"), isExtra: true},
      {...lengthColumn("messages_delayed", "Delayed"), isExtra: true},
      {...lengthColumn("messages_persistent", "Persistent"), isExtra: true},
      {key: "oldest_unacked_age_ms", title: "Oldest unacked", number: true, isExtra: true,
        cell: (one) => duration(one.oldest_unacked_age_ms)},
      {key: "memory", title: "Process memory", number: true, isExtra: true,
        cell: (one) => bytes(one.memory)},
      {key: "consumer_capacity", title: "Consumer capacity", number: true, isExtra: true,
        cell: (one) => percent(one.consumer_capacity)},
    ],
  });
  return {title: "Queues", refresh: () => list.refresh(),
    element: h("div", {}, h("section", {class: "panel"}, list.element),
      fold("Add a new queue", addForm(list)))};
});

// Running, or idle if there was no recent traffic.
export function stateOfQueue({state, idle_since: idle, message_stats: stats = {}}) {
  const isBusy = Object.values(stats).some((details) => details.rate > 0);
  return stateOf(state === "running" && idle && !isBusy ? "idle" : state);
}

const bodyOf = (values) => ({durable: values.durable, auto_delete: values.auto_delete,
  arguments: object(values.arguments), ...(values.node ? {node: values.node} : {})});

function nodeField() {
  const names = nodeNames();
  if (names.length < 2) return "";
  return field("Node", select("node", [["", "any"], ...names]));
}

function addForm(list) {
  const element = changing("Add queue", {
    done: (values) => `Queue ${values.name} added`,
    work: (values) => put(path("queues", values.vhost, values.name), bodyOf(values)),
    after: () => list.refresh(),
  }, fields(vhostField(), nameField(), nodeField()),
  row(checkbox("Durable", "durable", true), checkbox("Auto delete", "auto_delete")),
  objectField("Arguments", "arguments", ARGUMENTS));
  return addPlan(element, "queues", bodyOf);
}
