"""The metrics of connections and channels: a row for each, and totals.

Totals include closed connections and channels, so that they never decrease. They are computed in
slices. A channel may close after the counts of closed channels were read and before its own were.
It is then missing, and the totals of the last page are kept instead.
"""

from typing import NamedTuple

from leveret.broker.runtime.counts import AMQP091, MessageCounts
from leveret.mgmt.metrics import families as names
from leveret.mgmt.metrics.text import Exposition, render_labels
from leveret.mgmt.node_facade.facts import ChannelNumbers
from leveret.mgmt.statistics.sampler import Sampler

CONNECTION = names.CONNECTION_COARSE + names.CONNECTION
CHANNEL = names.CHANNEL + names.CHANNEL_EXCHANGE
COUNTED = (
    "published", "confirmed", "returned", "dropped", "got", "got_no_ack", "delivered",
    "delivered_no_ack", "redelivered", "acked", "got_empty", "routed",
)  # fmt: skip
"""Fields of `MessageCounts`, in the order of `CHANNEL_EXCHANGE` and `CHANNEL_QUEUE`; `routed`."""

Numbers = tuple[int, ...]
NOTHING: Numbers = (0,) * (len(COUNTED) + 1)


class ProtocolTotals(NamedTuple):
    """The part of another protocol in `ClientTotals`. consumers: those of open channels."""

    messages: dict[str, int]
    with_confirms: int
    publishers: int
    consumers: int


class ClientTotals(NamedTuple):
    """The sums over all channels and connections.

    messages: by the names in `COUNTED`. with_confirms: messages published on channels with
    confirms. publishers: channels that have published, and links of publishers in AMQP 1.0. state:
    in the order of `names.CHANNEL`. traffic: bytes in and out, reads and writes. by_protocol: the
    parts of other protocols.
    """

    messages: dict[str, int]
    with_confirms: int
    state: Numbers
    publishers: int
    traffic: Numbers
    channels: int
    by_protocol: dict[str, ProtocolTotals]


class ClientMetrics:
    """All connections and channels of a node."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._messages_before: Numbers = (0,) * (len(COUNTED) + 1)
        self._traffic_before: Numbers = (0,) * 4
        self._before_by_protocol: dict[str, Numbers] = {}

    async def totals(self) -> ClientTotals:
        """The sums over everything, in slices."""
        counts = self._sampler.facade.counts
        messages: Numbers = (
            *_counted(counts.closed_channels), counts.published_with_confirms,
        )  # fmt: skip
        traffic: Numbers = (counts.bytes_in, counts.bytes_out, counts.reads, counts.writes)
        state: Numbers = (0,) * len(names.CHANNEL)
        publishers = channels = 0
        others = {
            name: (*_counted(one.messages), one.with_confirms)
            for name, one in counts.by_protocol.items()
        }
        using: dict[str, Numbers] = {}
        for connection in self._sampler.facade.connections_in_any_state():
            traffic = _added(traffic, connection.traffic)
            channels += connection.channel_count
            for channel in connection.sessions():
                numbers = channel.numbers()
                state = _added(state, _state(numbers))
                row = _counted(channel.counts())
                publishing = channel.publisher_count
                publishers += publishing
                whole = (*row, numbers.published_with_confirms)
                messages = _added(messages, whole)
                protocol = channel.counted_as
                if protocol != AMQP091:
                    others[protocol] = _added(others.get(protocol, NOTHING), whole)
                    both = (publishing, numbers.consumers)
                    using[protocol] = _added(using.get(protocol, (0, 0)), both)
            await self._sampler.give_way()
        messages = self._messages_before = _not_less(messages, self._messages_before)
        traffic = self._traffic_before = _not_less(traffic, self._traffic_before)
        named = dict(zip(COUNTED, messages, strict=False))
        by_protocol = {
            name: self._of_protocol(name, row, using.get(name, (0, 0)))
            for name, row in sorted(others.items())
        }
        return ClientTotals(named, messages[-1], state, publishers, traffic, channels, by_protocol)

    def _of_protocol(self, name: str, row: Numbers, using: Numbers) -> ProtocolTotals:
        row = _not_less(row, self._before_by_protocol.get(name, NOTHING))
        self._before_by_protocol[name] = row
        return ProtocolTotals(dict(zip(COUNTED, row, strict=False)), row[-1], *using)

    def add_totals(self, page: Exposition, totals: ClientTotals) -> None:
        """Add the sums under the names of the families of connections and channels."""
        counted = tuple(totals.messages[name] for name in COUNTED[:-1])
        page.add_row(names.CHANNEL, totals.state)
        page.add_row(names.CHANNEL_EXCHANGE + names.CHANNEL_QUEUE, counted)
        page.add_row(CONNECTION, (*totals.traffic, 0, totals.channels, 0))
        page.add_row(names.PUBLISHED, (totals.messages["routed"],))

    async def add_connections(self, page: Exposition, wanted: names.Families) -> None:
        """Add each connection. Its label is `channel`, as in RabbitMQ."""
        labels, rows = [], []
        for connection in self._sampler.facade.connections():
            labels.append(render_labels((("channel", connection.name),)))
            rows.append((*connection.traffic, 0, connection.channel_count, 0))
            await self._sampler.give_way()
        page.add_table(wanted, [CONNECTION.index(family) for family in wanted], labels, rows)

    async def add_channels(self, page: Exposition, wanted: names.Families) -> None:
        """Add each channel."""
        labels, rows = [], []
        for connection in self._sampler.facade.connections():
            for channel in connection.channels():
                labels.append(render_labels((("channel", channel.name),)))
                counts = _counted(channel.counts())
                rows.append((*_state(channel.numbers()), *counts[: len(names.CHANNEL_EXCHANGE)]))
            await self._sampler.give_way()
        page.add_table(wanted, [CHANNEL.index(family) for family in wanted], labels, rows)


def _added(one: Numbers, other: Numbers) -> Numbers:
    return tuple(map(int.__add__, one, other))


def _not_less(now: Numbers, before: Numbers) -> Numbers:
    return tuple(map(max, now, before))


def _counted(counts: MessageCounts) -> Numbers:
    """In the order of `COUNTED`."""
    return (
        counts.published, counts.confirmed, counts.returned, counts.dropped, counts.got,
        counts.got_no_ack, counts.delivered, counts.delivered_no_ack, counts.redelivered,
        counts.acked, counts.got_empty, counts.routed,
    )  # fmt: skip


def _state(channel: ChannelNumbers) -> Numbers:
    """In the order of `names.CHANNEL`."""
    return (
        channel.consumers, channel.unacked, channel.unconfirmed, channel.uncommitted,
        channel.acks_uncommitted, channel.prefetch_count, channel.global_prefetch_count, 0,
    )  # fmt: skip
