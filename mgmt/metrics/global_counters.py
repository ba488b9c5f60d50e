"""RabbitMQ's global counters: counters of the node, which outlive channels and queues.

Channels count deliveries, but not by the kind of queue. Quorum queues and streams count what
clients of this node get from them, wherever they are led. The deliveries of classic queues are the
rest.
"""

from leveret.broker.plugins.own_plugins import MQTT as MQTT_PLUGIN
from leveret.broker.plugins.own_plugins import STREAM as STREAM_PLUGIN
from leveret.broker.queues.contract.queue_kind import CLASSIC_QUEUE
from leveret.broker.queues.quorum_kind import QUORUM_QUEUE
from leveret.broker.queues.stream_kind import STREAM_QUEUE
from leveret.broker.runtime.counts import AMQP10, GIVEN, NOTHING_GIVEN, MessageCounts
from leveret.mgmt.metrics import families as names
from leveret.mgmt.metrics.clients import COUNTED, ClientTotals, ProtocolTotals
from leveret.mgmt.metrics.text import Exposition, render_labels
from leveret.mgmt.running_node import RunningNode

PROTOCOL = (("protocol", "amqp091"),)
STREAM_PROTOCOL = (("protocol", "stream"),)
STREAM_LABELS = render_labels(STREAM_PROTOCOL)
DISABLED, AT_MOST_ONCE, AT_LEAST_ONCE = "disabled", "at_most_once", "at_least_once"
EXPIRED, REJECTED, MAXLEN, DELIVERY_LIMIT, CONFIRMED = names.DEAD_LETTERED
CLASSIC_DEATHS = (("expired", EXPIRED), ("rejected", REJECTED), ("maxlen", MAXLEN))
QUORUM_DEATHS = (*CLASSIC_DEATHS, ("delivery_limit", DELIVERY_LIMIT))
DELIVERIES = GIVEN.index("got_empty")
"""The number of kinds in `GIVEN` that are deliveries."""
MQTT_VERSIONS = ("mqtt310", "mqtt311", "mqtt50")
KINDS = (CLASSIC_QUEUE, QUORUM_QUEUE, STREAM_QUEUE)
NO_MESSAGES = MessageCounts()
NO_TOTALS = ProtocolTotals(dict.fromkeys(COUNTED, 0), 0, 0, 0)
AT_LEAST_ONCE_DEATHS = (
    ("expired", EXPIRED), ("rejected", REJECTED), ("delivery_limit", DELIVERY_LIMIT),
)  # fmt: skip


Numbers = tuple[int, ...]


class GlobalCounters:
    """The global counters of one node. None is lower than on the page before."""

    def __init__(self, node: RunningNode) -> None:
        self._node = node
        self._classic_before = NOTHING_GIVEN

    def add_to(self, page: Exposition, totals: ClientTotals, consumers: int) -> None:
        """Add all global counters to a page."""
        others = totals.by_protocol.values()
        counted = {
            name: number - sum(one.messages[name] for one in others)
            for name, number in totals.messages.items()
        }
        with_confirms = totals.with_confirms - sum(one.with_confirms for one in others)
        publishers = totals.publishers - sum(one.publishers for one in others)
        consumers -= sum(one.consumers for one in others)
        _add_protocol(page, PROTOCOL, counted, (with_confirms, publishers, consumers))
        self._add_mqtt(page, totals)
        counts = self._node.sampler.facade.counts
        amqp10 = {
            kind.module: _given(counts.given_in_amqp10.get(kind.module, NO_MESSAGES))
            for kind in KINDS
        }
        self._add_amqp10(page, totals, amqp10)
        quorum = _less(_given(counts.given_by_quorum_queues), amqp10[QUORUM_QUEUE.module])
        stream = _less(_given(counts.given_by_streams), amqp10[STREAM_QUEUE.module])
        by_others = map(int.__add__, quorum, stream)
        classic = map(int.__sub__, (counted[name] for name in GIVEN), by_others)
        self._classic_before = tuple(map(max, classic, self._classic_before))
        rows = (
            (CLASSIC_QUEUE, self._classic_before), (QUORUM_QUEUE, quorum), (STREAM_QUEUE, stream)
        )  # fmt: skip
        for kind, given in rows:
            labels = render_labels((*PROTOCOL, ("queue_type", kind.module)))
            page.add_row(names.GLOBAL_BY_QUEUE_TYPE, (sum(given[:DELIVERIES]), *given), labels)
        _add_deaths(page, self._node)
        _add_stream_protocol(page, self._node)

    def _add_amqp10(
        self, page: Exposition, totals: ClientTotals, given: dict[str, Numbers]
    ) -> None:
        """The counters of AMQP 1.0, on a node that serves it. given: by the modules of queues."""
        if not self._node.sampler.facade.serves_amqp10 and AMQP10 not in totals.by_protocol:
            return
        one = totals.by_protocol.get(AMQP10, NO_TOTALS)
        protocol = (("protocol", AMQP10),)
        figures = (one.with_confirms, one.publishers, one.consumers)
        _add_protocol(page, protocol, one.messages, figures)
        for module, row in given.items():
            labels = render_labels((*protocol, ("queue_type", module)))
            page.add_row(names.GLOBAL_BY_QUEUE_TYPE, (sum(row[:DELIVERIES]), *row), labels)

    def _add_mqtt(self, page: Exposition, totals: ClientTotals) -> None:
        """The counters of the versions of MQTT, on a node that serves it.

        The queues of its sessions count as classic ones.
        """
        if MQTT_PLUGIN not in self._node.sampler.facade.plugins.running:
            return
        for name in MQTT_VERSIONS:
            one = totals.by_protocol.get(name, NO_TOTALS)
            protocol = (("protocol", name),)
            figures = (one.with_confirms, one.publishers, one.consumers)
            _add_protocol(page, protocol, one.messages, figures)
            given = tuple(one.messages[kind] for kind in GIVEN)
            labels = render_labels((*protocol, ("queue_type", CLASSIC_QUEUE.module)))
            page.add_row(names.GLOBAL_BY_QUEUE_TYPE, (sum(given[:DELIVERIES]), *given), labels)


def _add_protocol(
    page: Exposition,
    protocol: tuple[tuple[str, str], ...],
    counted: dict[str, int],
    figures: tuple[int, int, int],
) -> None:
    """The counters of one protocol. figures: messages with confirms, publishers, consumers."""
    with_confirms, publishers, consumers = figures
    page.add_row(names.GLOBAL, (
        counted["published"], with_confirms, counted["routed"], counted["dropped"],
        counted["returned"], counted["confirmed"], publishers, consumers,
    ), render_labels(protocol))  # fmt: skip


def _less(all_given: Numbers, part: Numbers) -> Numbers:
    """What is left without a part. Settlements of the two may be counted in different turns."""
    return tuple(max(0, one - other) for one, other in zip(all_given, part, strict=True))


def _given(counts: MessageCounts) -> Numbers:
    return tuple([getattr(counts, name) for name in GIVEN])


def _add_deaths(page: Exposition, node: RunningNode) -> None:
    counts = node.sampler.facade.counts
    for strategy, died in ((DISABLED, counts.discarded), (AT_MOST_ONCE, counts.dead_lettered)):
        for kind, deaths in ((CLASSIC_QUEUE, CLASSIC_DEATHS), (QUORUM_QUEUE, QUORUM_DEATHS)):
            labels = _labels(kind.module, strategy)
            for reason, family in deaths:
                page.add(family, died[kind.name, reason], labels)
        if over_limit := died[CLASSIC_QUEUE.name, "delivery_limit"]:
            # RabbitMQ's classic queues have no delivery limit.
            page.add(DELIVERY_LIMIT, over_limit, _labels(CLASSIC_QUEUE.module, strategy))
    name, labels = QUORUM_QUEUE.name, _labels(QUORUM_QUEUE.module, AT_LEAST_ONCE)
    for reason, family in AT_LEAST_ONCE_DEATHS:
        page.add(family, counts.kept[name, reason], labels)
    page.add(CONFIRMED, counts.kept_confirmed[name], labels)


def _add_stream_protocol(page: Exposition, node: RunningNode) -> None:
    """The counters of the stream protocol, on a node that serves it."""
    if STREAM_PLUGIN not in node.sampler.facade.plugins.running:
        return
    counts = node.sampler.facade.counts
    own = counts.stream_protocol
    # All of its publishers get confirms; what a publisher sends is for one stream, which exists.
    page.add_row(names.GLOBAL, (
        own.published, own.published, own.routed, 0, 0, own.confirmed, own.publishers,
        own.consumers,
    ), STREAM_LABELS)  # fmt: skip
    labels = render_labels((*STREAM_PROTOCOL, ("queue_type", STREAM_QUEUE.module)))
    page.add_row(names.GLOBAL_BY_QUEUE_TYPE, (own.delivered, *NOTHING_GIVEN), labels)
    for name, family in names.STREAM_ERRORS.items():
        page.add(family, counts.stream_errors[name], STREAM_LABELS)


def _labels(queue_type: str, strategy: str) -> str:
    return render_labels((("queue_type", queue_type), ("dead_letter_strategy", strategy)))
