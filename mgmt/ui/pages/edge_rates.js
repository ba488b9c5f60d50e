// The rates of the edges of the bindings diagram. The broker counts messages by exchange and queue,
// not by binding, so a rate may only be known to be at most something; then `isBound` is set. The
// rate of an edge is exact if all messages of its exchange take it.

export const rateOf = (row, name) => row?.message_stats?.[`${name}_details`]?.rate;

// Adds rate and isBound to edges of exchanges and of dead letters. ways: the kinds of edges by
// which messages come to an exchange that were not published to it, {bindings, others}. Where
// nothing is known, the rate stays undefined.
export class EdgeRates {
  constructor(edges, exchanges, queues, ways) {
    Object.assign(this, {exchanges, queues, ways});
    this.leading = groups(edges, (one) => one.from);
    this.arriving = groups(edges.filter((one) => [...ways.bindings, ...ways.others]
      .includes(one.kind)), (one) => one.into);
    this.edges = edges;
    this.seen = new Set();
  }

  add() {
    for (const one of this.edges) this.rated(one);
  }

  // An edge with its rate. Bindings may form a circle, in which a rate is not known.
  rated(edge) {
    if (this.seen.has(edge)) return edge;
    this.seen.add(edge);
    Object.assign(edge, edge.from.startsWith("queue ") ? this.ofDeadLetters(edge)
      : this.ofExchange(edge));
    return edge;
  }

  ofExchange(edge) {
    const source = this.exchanges.get(edge.source);
    const into = this.ofQueue(edge.into);
    const isBinding = this.ways.bindings.includes(edge.kind);
    const all = this.inflow(edge.from);
    const takesAll = source?.type === "fanout"
      || (source?.type === "topic" && edge.routing_key === "#");
    if (isBinding && takesAll && all.rate !== undefined) return all;
    const isOnly = new Set(this.leading.get(edge.from).map((one) => one.into)).size === 1;
    if (isBinding && isOnly && into !== undefined && !this.arriving.has(edge.from)) {
      return {rate: rateOf(source, "publish_out") ?? 0, isBound: false};
    }
    return bound([into, all.rate]);
  }

  // At most as many as each queue gets that all of them go to.
  ofDeadLetters(edge) {
    if (edge.into.startsWith("queue ")) return bound([this.ofQueue(edge.into)]);
    const {type} = this.exchanges.get(edge.destination) ?? {};
    const next = (this.leading.get(edge.into) ?? []).filter((one) => type === "fanout"
      || (type === "direct" && edge.key !== undefined && one.routing_key === edge.key));
    return bound(next.map((one) => this.ofQueue(one.into)));
  }

  // What comes to an exchange.
  inflow(box) {
    const name = box.slice(box.indexOf(" ") + 1);
    const all = {rate: rateOf(this.exchanges.get(name), "publish_in") ?? 0, isBound: false};
    for (const one of this.arriving.get(box) ?? []) {
      const {rate, isBound} = this.rated(one);
      if (rate === undefined) return {};
      all.rate += rate;
      all.isBound ||= Boolean(isBound);
    }
    return all;
  }

  ofQueue(box) {
    if (!box.startsWith("queue ")) return undefined;
    const queue = this.queues.get(box.slice("queue ".length));
    return queue && (rateOf(queue, "publish") ?? 0);
  }
}

function bound(rates) {
  const known = rates.filter((one) => one !== undefined);
  return known.length ? {rate: Math.min(...known), isBound: true} : {};
}

function groups(edges, keyOf) {
  const found = new Map();
  for (const one of edges) {
    const key = keyOf(one);
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(one);
  }
  return found;
}
