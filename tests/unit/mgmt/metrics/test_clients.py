"""Sums over connections and channels, which may change while they are computed."""

from types import SimpleNamespace

import pytest

from leveret.broker.runtime.counts import AMQP091, MessageCounts, NodeCounts
from leveret.mgmt.metrics.clients import ClientMetrics
from leveret.mgmt.node_facade.clients import OpenConnection


class Channel:
    """A channel on which a number of messages were published."""

    def __init__(self, published):
        self.counts = MessageCounts()
        self.counts.published = published
        self.confirms = SimpleNamespace(published=published, unconfirmed_count=1)
        self.transaction = None
        self.consumers = {}
        self.unacked = ()
        self.prefetch_count, self.global_prefetch_count = 10, 0
        self.counted_as = AMQP091
        self.publisher_count = int(published > 0)

    def message_counts(self):
        return self.counts


class Connection:
    def __init__(self, *channels):
        self.channels = dict(enumerate(channels, 1))
        self.bytes_in, self.bytes_out, self.reads, self.writes = 100, 200, 3, 4

    @property
    def sessions(self):
        return self.channels.values()


class Node:
    """The sampler's view of a node. meanwhile: called when other tasks run."""

    def __init__(self, *connections):
        self.counts = NodeCounts()
        self.open = dict.fromkeys(connections)
        self.facade = SimpleNamespace(
            counts=self.counts,
            connections_in_any_state=lambda: list(map(OpenConnection, self.open)),
        )
        self.meanwhile = lambda: None

    async def give_way(self):
        self.meanwhile()

    def close(self, connection):
        """Close a connection."""
        if connection in self.open:
            del self.open[connection]
            for channel in connection.channels.values():
                self.counts.closed_channels.add(channel.counts)
                self.counts.published_with_confirms += channel.confirms.published
            connection.channels = {}
            self.counts.bytes_in += connection.bytes_in


async def test_everything_is_summed_up():
    node = Node(Connection(Channel(1), Channel(0)), Connection(Channel(3)), Connection())
    totals = await ClientMetrics(node).totals()
    assert totals.messages["published"] == totals.with_confirms == 4
    assert (totals.publishers, totals.channels) == (2, 3)
    assert totals.traffic == (300, 600, 9, 12)
    assert totals.state == (0, 0, 3, 0, 0, 30, 0, 0)


@pytest.mark.parametrize("closing", [0, 1])
async def test_totals_do_not_shrink_when_a_connection_goes_meanwhile(closing):
    connections = [Connection(Channel(5)), Connection(Channel(7))]
    node = Node(*connections)
    clients = ClientMetrics(node)
    assert (await clients.totals()).messages["published"] == 12
    node.meanwhile = lambda: node.close(connections[closing])
    for _ in range(2):
        totals = await clients.totals()
        assert totals.messages["published"] == totals.with_confirms == 12
        assert totals.traffic[0] == 200
