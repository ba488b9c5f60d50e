"""RabbitMQ's global counters: those of the node, which outlive channels and queues.

All queues are classic ones. The counters of RabbitMQ's other queue types are 0, as they are in
RabbitMQ before such a queue is declared.
"""

from leveret.broker.queues.classic_queue import CLASSIC_QUEUE
from leveret.broker.queues.queue_kind import STREAM_QUEUE
from leveret.broker.queues.quorum_queue import QUORUM_QUEUE
from leveret.mgmt.metrics import families as names
from leveret.mgmt.metrics.clients import Totals
from leveret.mgmt.metrics.text import Exposition, render_labels
from leveret.mgmt.running_node import Node

PROTOCOL = (("protocol", "amqp091"),)
DISABLED, AT_MOST_ONCE, AT_LEAST_ONCE = "disabled", "at_most_once", "at_least_once"
EXPIRED, REJECTED, MAXLEN, DELIVERY_LIMIT, CONFIRMED = names.DEAD_LETTERED
CLASSIC_DEATHS = (("expired", EXPIRED), ("rejected", REJECTED), ("maxlen", MAXLEN))
QUORUM_DEATHS = (*CLASSIC_DEATHS, ("delivery_limit", DELIVERY_LIMIT))
AT_LEAST_ONCE_DEATHS = (EXPIRED, REJECTED, DELIVERY_LIMIT, CONFIRMED)


def add_global_counters(page: Exposition, node: Node, totals: Totals, consumers: int) -> None:
    """Add all global counters to a page."""
    counted = totals.messages
    page.add_row(names.GLOBAL, (
        counted["published"], totals.with_confirms, counted["routed"], counted["dropped"],
        counted["returned"], counted["confirmed"], totals.publishers, consumers,
    ), render_labels(PROTOCOL))  # fmt: skip
    for kind in (CLASSIC_QUEUE, QUORUM_QUEUE, STREAM_QUEUE):
        labels = render_labels((*PROTOCOL, ("queue_type", kind.module)))
        row = _given(counted) if kind is CLASSIC_QUEUE else (0,) * len(names.GLOBAL_BY_QUEUE_TYPE)
        page.add_row(names.GLOBAL_BY_QUEUE_TYPE, row, labels)
    _add_deaths(page, node)


def _given(counted: dict[str, int]) -> tuple[int, ...]:
    """In the order of `GLOBAL_BY_QUEUE_TYPE`."""
    manual, automatic = counted["delivered"], counted["delivered_no_ack"]
    got, got_no_ack = counted["got"], counted["got_no_ack"]
    return (
        manual + automatic + got + got_no_ack, manual, automatic, got, got_no_ack,
        counted["got_empty"], counted["redelivered"], counted["acked"],
    )  # fmt: skip


def _add_deaths(page: Exposition, node: Node) -> None:
    counts = node.sampler.broker.services.counts
    for strategy, died in ((DISABLED, counts.discarded), (AT_MOST_ONCE, counts.dead_lettered)):
        for kind, deaths in ((CLASSIC_QUEUE, CLASSIC_DEATHS), (QUORUM_QUEUE, QUORUM_DEATHS)):
            labels = _labels(kind.module, strategy)
            for reason, family in deaths:
                page.add(family, died[kind.name, reason], labels)
    for family in AT_LEAST_ONCE_DEATHS:
        page.add(family, 0, _labels(QUORUM_QUEUE.module, AT_LEAST_ONCE))


def _labels(queue_type: str, strategy: str) -> str:
    return render_labels((("queue_type", queue_type), ("dead_letter_strategy", strategy)))
