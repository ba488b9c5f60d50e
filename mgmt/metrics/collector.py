"""The three pages of metrics: totals, single objects, and chosen groups of families.

`/metrics` has sums over objects, so its size does not grow with their number;
`/metrics/per-object` has a sample for each object; `/metrics/detailed?family=...&vhost=...` has the
chosen groups, for the objects of the chosen vhosts. Names begin with `rabbitmq_`, on the detailed
page with `rabbitmq_detailed_`, or with `rabbitmq_cluster_` if the values are the same on all nodes.
Ages are in the totals too, with a bounded number of labels (ages.py).

A page is computed in slices of a few milliseconds, between which the node does its other work. So
it does not show one single moment, but no counter is lower than on the page before.
"""

from collections import Counter

from prometheus_client import CollectorRegistry

from leveret.broker.runtime.patterns import compile_pattern
from leveret.mgmt.metrics import families as names
from leveret.mgmt.metrics import node_metrics, raft, streams
from leveret.mgmt.metrics.ages import QueueAgeMetrics
from leveret.mgmt.metrics.clients import ClientMetrics
from leveret.mgmt.metrics.global_counters import GlobalCounters
from leveret.mgmt.metrics.links import add_links
from leveret.mgmt.metrics.queues import GROUPS, OTHER_GROUPS, add_queues, add_sums
from leveret.mgmt.metrics.standby import add_standby
from leveret.mgmt.metrics.text import Exposition, render_labels
from leveret.mgmt.running_node import RunningNode

PREFIX, DETAILED_PREFIX = "rabbitmq_", "rabbitmq_detailed_"
CLUSTER_PREFIX = "rabbitmq_cluster_"
QUEUE_GROUPS = GROUPS.keys() | OTHER_GROUPS
CHANNEL_GROUPS = {
    "channel_metrics": names.CHANNEL,
    "channel_exchange_metrics": names.CHANNEL_EXCHANGE,
}
CONNECTION_GROUPS = {
    "connection_coarse_metrics": names.CONNECTION_COARSE,
    "connection_metrics": names.CONNECTION,
}
NODE_GROUPS = {
    "connection_churn_metrics": node_metrics.add_churn,
    "node_coarse_metrics": node_metrics.add_coarse,
    "node_metrics": node_metrics.add_limits,
    "node_persister_metrics": node_metrics.add_store,
    "auth_attempt_metrics": node_metrics.add_auth,
    "auth_attempt_detailed_metrics": node_metrics.add_auth_by_source,
}
EXCHANGE_GROUPS = frozenset(("exchange_metrics", "exchange_bindings", "exchange_names"))
RAFT_GROUP, STREAM_GROUP = "ra_metrics", "stream_consumer_metrics"
EMPTY_GROUPS = frozenset(("channel_process_metrics",))
"""Groups without samples: this node has no Erlang processes."""
FAMILIES = frozenset(
    {*QUEUE_GROUPS, *CHANNEL_GROUPS, *CONNECTION_GROUPS, *NODE_GROUPS, *EXCHANGE_GROUPS}
    | {*EMPTY_GROUPS, RAFT_GROUP, STREAM_GROUP, "vhost_status"}
)


class Collector:
    """The metrics of one node, as long as its broker runs.

    sampler: the broker's. runtime: the families of the process (runtime.py).
    """

    def __init__(self, node: RunningNode, runtime: CollectorRegistry) -> None:
        self._node = node
        self._runtime = runtime
        self.sampler = node.sampler
        self._clients = ClientMetrics(node.sampler)
        self._global_counters = GlobalCounters(node)
        self._ages = QueueAgeMetrics(node.sampler, node.config.prometheus.age_queues)
        left_out = node.config.prometheus.left_out
        self._left_out = compile_pattern(left_out) if left_out else None

    async def totals(self) -> Exposition:
        """`/metrics`."""
        consumers = (await self.sampler.queue_sums()).consumers
        page = await self._begin(consumers)
        totals = await self._clients.totals()
        self._clients.add_totals(page, totals)
        self._global_counters.add_to(page, totals, consumers)
        await raft.add_sums(page, self._node)
        await streams.add_sums(page, self.sampler)
        await add_sums(page, self.sampler, self._left_out)
        await self._ages.add_to(page)
        return page

    async def per_object(self) -> Exposition:
        """`/metrics/per-object`."""
        consumers = (await self.sampler.queue_sums()).consumers
        page = await self._begin(consumers)
        self._global_counters.add_to(page, await self._clients.totals(), consumers)
        await add_queues(page, self.sampler, None, set(QUEUE_GROUPS))
        await raft.add_members(page, self.sampler, None)
        await streams.add_lags(page, self.sampler, None)
        await self._add_clients(page, {*CHANNEL_GROUPS, *CONNECTION_GROUPS})
        await self._ages.add_to(page)
        return page

    async def _begin(self, consumers: int) -> Exposition:
        page = Exposition(PREFIX, self._runtime)
        node_metrics.add_node(page, self._node, consumers)
        add_links(page, self.sampler.facade)
        add_standby(page, self._node.follower)
        await self.sampler.give_way()
        return page

    async def detailed(self, wanted: set[str], vhosts: set[str] | None) -> Exposition:
        """`/metrics/detailed`. wanted: of `FAMILIES`. vhosts: None for all."""
        page = Exposition(DETAILED_PREFIX)
        for name, add in NODE_GROUPS.items():
            if name in wanted:
                add(page, self._node)
        if wanted & QUEUE_GROUPS:
            await add_queues(page, self.sampler, vhosts, wanted)
        if RAFT_GROUP in wanted:
            await raft.add_members(page, self.sampler, vhosts)
        if STREAM_GROUP in wanted:
            await streams.add_lags(page, self.sampler, vhosts)
        await self._add_clients(page, wanted)
        await self._add_vhosts(page, wanted, vhosts)
        node_metrics.add_identity(page, self._node)
        return page

    async def _add_clients(self, page: Exposition, wanted: set[str]) -> None:
        channel = _chosen(CHANNEL_GROUPS, wanted)
        if channel:
            await self._clients.add_channels(page, channel)
        connection = _chosen(CONNECTION_GROUPS, wanted)
        if connection:
            await self._clients.add_connections(page, connection)

    async def _add_vhosts(
        self, page: Exposition, wanted: set[str], vhosts: set[str] | None
    ) -> None:
        for vhost in self.sampler.facade.vhost_names():
            if vhosts is not None and vhost not in vhosts:
                continue
            if "vhost_status" in wanted:
                labels = render_labels((("vhost", vhost),))
                is_up = int(self.sampler.facade.has_vhost(vhost))
                page.add(names.VHOST_STATUS, is_up, labels, prefix=CLUSTER_PREFIX)
            if wanted & EXCHANGE_GROUPS:
                await self._add_exchanges(page, wanted, vhost)

    async def _add_exchanges(self, page: Exposition, wanted: set[str], vhost: str) -> None:
        unroutable: Counter[str] = Counter()
        for one in self.sampler.facade.unroutable_counts(vhost):
            unroutable[one.exchange] += one.messages
        for exchange in self.sampler.facade.exchanges(vhost):
            place = (("vhost", vhost), ("exchange", exchange.name))
            if "exchange_metrics" in wanted:
                row = (exchange.published, exchange.routed, unroutable.pop(exchange.name, 0))
                page.add_row(names.EXCHANGE, row, render_labels(place))
                if exchange.messages_delayed is not None:
                    waiting = (exchange.messages_delayed, (exchange.next_delayed_ms or 0) / 1000)
                    page.add_row(names.EXCHANGE_DELAYED, waiting, render_labels(place))
                if exchange.deduplication is not None:
                    seen = (exchange.duplicates, exchange.deduplication.entries)
                    page.add_row(names.EXCHANGE_DEDUPLICATION, seen, render_labels(place))
            if exchange.name and not exchange.internal:
                # As in RabbitMQ, internal exchanges and the default exchange are left out.
                labels = render_labels((*place, ("type", exchange.type)))
                if "exchange_bindings" in wanted:
                    page.add(
                        names.EXCHANGE_BINDINGS, exchange.bindings, labels, prefix=CLUSTER_PREFIX
                    )
                if "exchange_names" in wanted:
                    page.add(names.EXCHANGE_NAME, 1, labels, prefix=CLUSTER_PREFIX)
            await self.sampler.give_way()
        if "exchange_metrics" in wanted:
            # Those of dead-letter exchanges that do not exist.
            for name, count in unroutable.items():
                place = (("vhost", vhost), ("exchange", name))
                page.add_row(names.EXCHANGE, (0, 0, count), render_labels(place))


def _chosen(groups: dict[str, names.Families], wanted: set[str]) -> names.Families:
    return tuple(family for name, group in groups.items() if name in wanted for family in group)
