// Lists of consumers: those of a queue or of a channel.

import {code, h} from "../dom.js";
import {count, duration, plural, time} from "../format.js";
import {to} from "../router.js";
import {List} from "../table.js";

const numberColumn = (key, title) =>
  ({key, title, number: true, cell: (row) => count(row[key])});

const QUEUE = {key: "queue.name", title: "Queue", cell: ({queue}) =>
  h("a", {href: to("queues", queue.vhost, queue.name)}, queue.name)};
const COLUMNS = [
  {key: "consumer_tag", title: "Consumer tag"},
  {key: "activity_status", title: "Activity status", wide: true,
    cell: activityOf},
  {key: "channel_details.name", title: "Channel", cell: channelOf},
  {key: "ack_required", title: "Ack required", cell: (row) => (row.ack_required ? "yes" : "no")},
  {key: "exclusive", title: "Exclusive", cell: (row) => (row.exclusive ? "yes" : "no")},
  numberColumn("prefetch_count", "Prefetch count"),
  numberColumn("messages_unacknowledged", "Unacked"),
  {key: "consumer_timeout", title: "Timeout", number: true, minor: true,
    cell: (row) => duration(row.consumer_timeout)},
  {key: "arguments", title: "Arguments", cell: (row) =>
    (Object.keys(row.arguments ?? {}).length ? code(row.arguments) : "")},
];

// Where a consumer of a stream is.
const OFFSETS = [
  numberColumn("offset", "Next offset"), numberColumn("offset_lag", "Lag"),
  {key: "offset_lag_ms", title: "Lag in time", number: true, cell: lagInTime},
];

// How old the first message is that a consumer of a stream has not got.
export function lagInTime({offset_lag: lag, offset_lag_ms: age}) {
  return lag === 0 ? "none" : duration(age);
}

// hasQueue: with a column of the consumer's queue. hasOffset: with those of a stream's consumers.
export function consumerList({hasQueue = false, hasOffset = false} = {}) {
  let consumers = [];
  const list = new List({
    id: "consumers", caption: "Consumers", small: true, load: async () => consumers,
    key: (row) => `${row.channel_details.name}\n${row.consumer_tag}`,
    empty: "No consumers.", columns: [COLUMNS[0], ...(hasQueue ? [QUEUE] : []),
      ...(hasOffset ? OFFSETS : []), ...COLUMNS.slice(1)],
  });
  const show = (found) => {
    consumers = found ?? [];
    return list.refresh();
  };
  return {element: list.element, show};
}

// Sessions of some protocols are not channels: their connection is shown instead.
function channelOf({has_channel: hasChannel, channel_details: channel}) {
  const {name, connection_name: connection} = channel;
  return hasChannel === false ? h("a", {href: to("connections", connection)}, connection)
    : h("a", {href: to("channels", name)}, name);
}

function activityOf({activity_status: status, active, ...row}) {
  return [status?.replaceAll("_", " ") ?? (active ? "active" : "waiting"), stallOf(row)];
}

// A consumer that holds messages and acknowledges none.
function stallOf({stalled_since: since, messages_unacknowledged: held}) {
  return since && h("div", {class: "bad"},
    `stalled: holds ${plural(held, "message")}, no ack since ${time(Date.parse(since))}`);
}
