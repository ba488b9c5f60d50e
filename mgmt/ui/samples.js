// The API's samples as lines of a chart, {points, now, colour}: points are {time, value}, the
// oldest first; now is the present value; colour is a number, the same for a kind of rate on all
// pages.

// Kinds of message rates, by RabbitMQ's names for them.
const MESSAGE_RATES = [
  ["Publish", "publish"], ["Publisher confirm", "confirm"], ["Deliver (manual ack)", "deliver"],
  ["Deliver (auto ack)", "deliver_no_ack"], ["Consumer ack", "ack"], ["Redelivered", "redeliver"],
  ["Get (manual ack)", "get"], ["Get (auto ack)", "get_no_ack"], ["Get (empty)", "get_empty"],
  ["Unroutable (return)", "return_unroutable"], ["Unroutable (drop)", "drop_unroutable"],
];

function pointsOf(details) {
  const samples = details?.samples ?? [];
  return samples.map((one) => ({time: one.timestamp, value: one.sample})).reverse();
}

// A line of values. name: such as "messages_ready", whose details have the samples.
export function values(row, name) {
  return {points: pointsOf(row[`${name}_details`]), now: row[name] ?? 0};
}

// A line of the rates of a total.
export function rates(row, name) {
  const details = row?.[`${name}_details`];
  const points = pointsOf(details);
  return {now: details?.rate ?? 0, points: points.slice(1).map(({time, value}, place) => ({
    time,
    value: Math.max(0, (value - points[place].value) / (time - points[place].time) * 1000),
  }))};
}

// Lines of all message rates that an object has. stats: its message_stats.
export function messageRates(stats = {}) {
  return Object.fromEntries(MESSAGE_RATES.map(([title, name], colour) =>
    [title, name, colour]).filter(([, name]) => `${name}_details` in stats)
    .map(([title, name, colour]) => [title, {...rates(stats, name), colour}]));
}

// The lag of each consumer of a stream, or of each group of them that has one name.
export const consumerLags = ({consumer_lags: lags = {}}) =>
  Object.fromEntries(Object.entries(lags).map(([name, row]) => [name, values(row, "lag")]));

export const queuedMessages = (row) => ({Ready: values(row, "messages_ready"),
  Unacked: values(row, "messages_unacknowledged"), Total: values(row, "messages")});
