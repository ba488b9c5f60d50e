// The edges of the bindings diagram, and warnings where messages end up nowhere. An edge is a
// binding, a dead-letter or alternate exchange, a shovel or a federation link. Shards and
// partitions of super streams are queues with bindings, which are marked. No requests, no elements.

import {plural, time} from "../format.js";
import {EdgeRates, rateOf} from "./edge_rates.js";

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

const at = (rows) => new Map(rows.map((row) => [row.name, row]));

// found: {bindings, exchanges, queues, policies, shovels, links, unroutable} of one virtual host,
// as in the API; unroutable: the counts of messages that reached no queue. moved: the rates of
// shovels by name. Returns {edges, loose, warnings}, where an edge has {from, into, kind, source,
// destination, routing_key, rate, isBound}, loose are names of queues without an edge, and a
// warning has {text} with exchange, queue or isUnroutable.
export function topology(found, moved) {
  const policies = at(found.policies);
  const rows = found.exchanges.map((one) => ({...one, alternate: alternateOf(one, policies)}));
  const exchanges = at(rows);
  const queues = at(found.queues);
  const warnings = [];
  const edges = [
    ...found.bindings.map((one) => bindingEdge(one)),
    ...alternateEdges(exchanges, warnings),
    ...deadLetterEdges(found, exchanges, queues, warnings),
    ...found.shovels.filter((one) => one.src_uri).map((one) => shovelEdge(one, moved)),
    ...found.links.map(federationEdge),
  ];
  const counted = edges.filter((one) => ![SHOVEL, FEDERATION].includes(one.kind));
  const ways = {bindings: [BINDING, SHARD, PARTITION], others: [ALTERNATE, DEAD_LETTERS]};
  new EdgeRates(counted, exchanges, queues, ways).add();
  const leading = new Set(edges.map((one) => one.from));
  const others = [...nowhere(found.exchanges, leading), ...failing(found)];
  const linked = new Set(edges.flatMap((one) => [one.from, one.into]));
  const loose = [...queues.keys()].filter((name) => !linked.has(`queue ${name}`));
  return {edges, loose, warnings: [...lost(found.unroutable), ...others, ...joined(warnings)]};
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

const alternateOf = (exchange, policies) => exchange.arguments?.["alternate-exchange"]
  ?? policies.get(exchange.policy)?.definition["alternate-exchange"];

function alternateEdges(exchanges, warnings) {
  const having = [...exchanges.values()].filter((one) => one.alternate !== undefined);
  return having.map(({name, alternate}) => {
    if (!exchanges.has(alternate)) {
      warnings.push({exchange: name, text: `The alternate exchange ${alternate} of exchange `
        + `${name} does not exist: messages that match no binding are lost.`});
    }
    return edge(`exchange ${name}`, `exchange ${alternate}`, ALTERNATE, "unroutable");
  });
}

function deadLetterEdges({bindings, queues: rows}, exchanges, queues, warnings) {
  const sources = new Set(bindings.map((one) => one.source));
  const bound = new Set(bindings.map((one) => `${one.source}\n${one.routing_key}`));
  const isLeading = (name, key) => {
    const {type, alternate} = exchanges.get(name);
    return type !== "direct" || alternate !== undefined || !sources.has(name)
      || bound.has(`${name}\n${key}`);
  };
  return rows.flatMap((one) => {
    const of = (name) => one.arguments?.[`x-${name}`] ?? one.effective_policy_definition?.[name];
    const name = of("dead-letter-exchange");
    if (name === undefined) return [];
    const from = `queue ${one.name}`;
    const key = of("dead-letter-routing-key");
    const waits = of("dead-letter-strategy") === "at-least-once"
      && of("overflow") === "reject-publish";
    const warn = (to) => warnings.push({queue: one.name, why: `dead letters to ${to}: `
      + `${waits ? "they wait" : "they are lost"}.`});
    if (name === "") {
      if (key !== undefined && !queues.has(key)) {
        warn(`queue ${key}, which does not exist`);
      }
      return [edge(from, `queue ${key ?? one.name}`, DEAD_LETTERS, "dead letters")];
    }
    if (!exchanges.has(name)) warn(`exchange ${name}, which does not exist`);
    else if (key !== undefined && !isLeading(name, key)) {
      warn(`exchange ${name} with the key ${key || "''"}, with which nothing is bound there`);
    }
    return [{...edge(from, `exchange ${name}`, DEAD_LETTERS,
      key ? `dead letters, ${key}` : "dead letters"), key}];
  });
}

// A URI without a host is the node itself, whose objects are those of the diagram.
const isHere = (uri, vhost) => {
  const found = /^amqps?:\/\/(?:\/([^?]*))?(?:\?.*)?$/.exec(uri);
  return Boolean(found) && decodeURIComponent(found[1] ?? "/") === vhost;
};

function shovelEdge(one, moved) {
  const box = (side, other) => {
    const queue = one[`${side}_queue`];
    const exchange = one[`${side}_exchange`];
    if (!isHere(one[`${side}_uri`], one.vhost)) {
      const name = queue ?? exchange ?? one[`${side}_address`] ?? "";
      return `${other} ${name} at ${one[`${side}_uri`]}`;
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

// Queues that send their dead letters to the same place share a warning.
function joined(warnings) {
  const alike = new Map();
  for (const one of warnings) {
    const key = one.why ?? one.text;
    if (!alike.has(key)) alike.set(key, []);
    alike.get(key).push(one);
  }
  return [...alike.values()].map(([first, ...more]) => ({...first, text: first.text
    ?? (more.length ? `Queue ${first.queue} and ${plural(more.length, "other")} send their `
      : `Queue ${first.queue} sends its `) + first.why}));
}

// Messages that have reached no queue, and were not returned to their publishers.
function lost(counts) {
  return counts.map((one) => ({...one, messages: one.messages - one.returned}))
    .filter((one) => one.messages > 0)
    .map(({exchange, prefix, messages, last_ms: last}) => ({isUnroutable: true,
      text: `${plural(messages, "message")} to exchange ${exchange || "(default)"} with `
        + `${prefix ? `a key that begins with ${prefix}` : "no key"} reached no queue, the last `
        + `one at ${time(last)}.`}));
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
