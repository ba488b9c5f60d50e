// The edges of the bindings diagram, and warnings where messages end up nowhere. An edge is a
// binding, a dead-letter or alternate exchange, a shovel or a federation link. Shards and
// partitions of super streams are queues with bindings, which are marked. No requests, no elements.
//
// The broker counts messages by exchange and queue, not by binding. The rate of an edge is exact if
// all messages of its exchange take it; otherwise it is a bound, of the smaller of the rates at its
// ends.

import {plural} from "../format.js";

export const BINDING = "binding";
const SHARD = "shard";
const PARTITION = "partition";
const PARTITION_ORDER = "x-stream-partition-order";
const DEAD_LETTERS = "dead-letter";
const ALTERNATE = "alternate";
const SHOVEL = "shovel";
const FEDERATION = "federation";
// Boxes of other brokers: messages come from the first kind, and go to the second one.
const UPSTREAM = "upstream";
const ELSEWHERE = "elsewhere";

const rateOf = (row, name) => row?.message_stats?.[`${name}_details`]?.rate;
const at = (rows) => new Map(rows.map((row) => [row.name, row]));

// found: {bindings, exchanges, queues, policies, shovels, links} of one virtual host, as in the
// API. moved: the rates of shovels by name. Returns {edges, warnings}, where an edge has {from,
// into, kind, source, destination, routing_key, rate, isBound}, and a warning {text, exchange or
// queue}.
export function topology(found, moved) {
  const exchanges = at(found.exchanges);
  const queues = at(found.queues);
  const policies = at(found.policies);
  const warnings = [];
  const edges = [
    ...found.bindings.map((one) => bindingEdge(one)),
    ...alternateEdges(found.exchanges, exchanges, policies, warnings),
    ...deadLetterEdges(found.queues, exchanges, queues, warnings),
    ...found.shovels.filter((one) => one.src_uri).map((one) => shovelEdge(one, moved)),
    ...found.links.map(federationEdge),
  ];
  const leading = new Map();
  for (const one of edges) {
    if (!leading.has(one.from)) leading.set(one.from, new Set());
    leading.get(one.from).add(one.into);
  }
  for (const one of edges) addRate(one, leading, exchanges, queues);
  warnings.push(...nowhere(found.exchanges, leading), ...failing(found));
  return {edges, warnings};
}

function edge(from, into, kind, key, rate) {
  const name = (box) => box.slice(box.indexOf(" ") + 1);
  return {from, into, kind, source: name(from), destination: name(into), routing_key: key, rate};
}

function bindingEdge(one) {
  const isShard = one.destination.startsWith(`sharding: ${one.source} - `);
  const kind = isShard ? SHARD : PARTITION_ORDER in (one.arguments ?? {}) ? PARTITION : BINDING;
  return edge(`exchange ${one.source}`, `${one.destination_type} ${one.destination}`, kind,
    one.routing_key);
}

function alternateEdges(rows, exchanges, policies, warnings) {
  return rows.flatMap((one) => {
    const name = one.arguments?.["alternate-exchange"]
      ?? policies.get(one.policy)?.definition["alternate-exchange"];
    if (name === undefined) return [];
    if (!exchanges.has(name)) {
      warnings.push({exchange: one.name, text: `The alternate exchange ${name} of exchange `
        + `${one.name} does not exist: messages that match no binding are lost.`});
    }
    return [edge(`exchange ${one.name}`, `exchange ${name}`, ALTERNATE, "unroutable")];
  });
}

function deadLetterEdges(rows, exchanges, queues, warnings) {
  return rows.flatMap((one) => {
    const of = (name) => one.arguments?.[`x-${name}`] ?? one.effective_policy_definition?.[name];
    const name = of("dead-letter-exchange");
    if (name === undefined) return [];
    const from = `queue ${one.name}`;
    const key = of("dead-letter-routing-key");
    if (name === "") {
      if (key !== undefined && !queues.has(key)) {
        warnings.push({queue: one.name, text: `Queue ${one.name} sends its dead letters to queue `
          + `${key}, which does not exist: they are lost.`});
      }
      return [edge(from, `queue ${key ?? one.name}`, DEAD_LETTERS, "dead letters")];
    }
    if (!exchanges.has(name)) {
      warnings.push({queue: one.name, text: `The dead-letter exchange ${name} of queue ${one.name} `
        + "does not exist: its dead letters are lost."});
    }
    return [edge(from, `exchange ${name}`, DEAD_LETTERS, key ? `dead letters, ${key}`
      : "dead letters")];
  });
}

// A URI without a host is the node itself, whose objects are those of the diagram.
const isHere = (uri, vhost) => {
  const found = /^amqps?:\/\/(?:\/(.*))?$/.exec(uri);
  return Boolean(found) && decodeURIComponent(found[1] ?? "/") === vhost;
};

function shovelEdge(one, moved) {
  const box = (side, other) => {
    const queue = one[`${side}_queue`];
    const exchange = one[`${side}_exchange`];
    if (!isHere(one[`${side}_uri`], one.vhost)) {
      return `${other} ${queue ?? exchange ?? ""} at ${one[`${side}_uri`]}`;
    }
    return queue !== undefined ? `queue ${queue}` : `exchange ${exchange ?? ""}`;
  };
  return edge(box("src", UPSTREAM), box("dest", ELSEWHERE), SHOVEL, `shovel ${one.name}`,
    moved.get(one.name));
}

function federationEdge(one) {
  const there = one.upstream_exchange ?? one.upstream_queue;
  return edge(`${UPSTREAM} ${there} at ${one.upstream}`,
    `${one.type} ${one.exchange ?? one.queue}`, FEDERATION, `federation ${one.upstream}`,
    rateOf(one.local_channel, "publish"));
}

// leading: where the edges of each box lead.
function addRate(one, leading, exchanges, queues) {
  if (one.rate !== undefined || one.kind === SHOVEL || one.kind === FEDERATION) return;
  const isOfExchange = one.from.startsWith("exchange ");
  const source = isOfExchange ? exchanges.get(one.source) : undefined;
  if (one.kind === BINDING && source?.type === "fanout") {
    one.rate = rateOf(source, "publish_in");
    return;
  }
  if (isOfExchange && one.kind === BINDING && leading.get(one.from).size === 1) {
    one.rate = rateOf(source, "publish_out");
    return;
  }
  const into = one.into.startsWith("queue ") ? rateOf(queues.get(one.destination), "publish")
    : rateOf(exchanges.get(one.destination), "publish_in");
  const ends = [into, one.kind === ALTERNATE ? rateOf(source, "publish_in")
    : rateOf(source, "publish_out")].filter((rate) => rate !== undefined);
  if (ends.length) Object.assign(one, {rate: Math.min(...ends), isBound: true});
}

// Exchanges that every virtual host has are only of interest if messages come to them.
function nowhere(rows, leading) {
  const isUsed = (one) => (rateOf(one, "publish_in") ?? 0) > 0;
  return rows.filter((one) => one.name && !leading.has(`exchange ${one.name}`)
    && (!one.name.startsWith("amq.") || isUsed(one)))
    .map((one) => ({exchange: one.name, text: `Exchange ${one.name} has no binding and no `
      + "alternate exchange: its messages are lost."}));
}

function failing({shovels, links}) {
  return [
    ...shovels.filter((one) => one.state === "terminated")
      .map((one) => ({text: `Shovel ${one.name} moves nothing: ${one.reason}`})),
    ...links.filter((one) => one.status === "error")
      .map((one) => ({text: `The federation link of ${one.type} ${one.exchange ?? one.queue} to `
        + `${one.upstream} moves nothing: ${one.error}`})),
  ];
}

// What a queue holds: its backlog, and the age of the oldest message.
export function backlog(queue, duration) {
  if (queue?.messages === undefined) return "";
  const age = queue.oldest_ready_age_ms;
  return plural(queue.messages, "message") + (age ? `, oldest ${duration(age)}` : "");
}
