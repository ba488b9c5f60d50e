"""Findings: what happened, since when, whom it hurts, what to do, the evidence. Pure."""

from enum import IntEnum
from typing import NamedTuple

from leveret.analytics.formatting import shown

(
    STALLED, SLOW, NO_CONSUMER, BACKLOG, HOT_QUEUE, HOT_KEY, CIRCLE, POISON, BURST,
    PREFETCH_HIGH, PREFETCH_LOW, CHURN, EXPIRED, OVERFLOW, REJECTED, REMOVED, DEAD_LETTERS,
    LOST_LETTERS, UNROUTABLE, DUPLICATES, GAP, UNREAD, FALLS_BEHIND, OVERTAKEN,
    STARVED, OUT_OF_ORDER, REPLAY, LATE_REPLIES, SILENT, WITHOUT_ACKS,
) = (
    "stalled_consumer", "slow_consumer", "no_consumer", "backlog", "hot_queue", "hot_key",
    "circle", "poison", "burst", "prefetch_high", "prefetch_low", "churn", "expired", "overflow",
    "rejected", "removed", "dead_letters", "lost_dead_letters", "unroutable", "duplicates", "gap",
    "unread", "falls_behind", "overtaken",
    "starved", "out_of_order", "replay", "late_replies", "silent_publisher", "without_acks",
)  # fmt: skip
"""Kinds of findings."""


class Severity(IntEnum):
    """How severe a finding is."""

    BAD = 0
    WARNING = 1
    NOTE = 2


class Queue(NamedTuple):
    """A queue, identified by virtual host and name."""

    vhost: str
    name: str


class Finding(NamedTuple):
    """A finding. about: the names of the queue, the exchange or the user that it is about.

    since_us, until_us: microseconds since 1970; until_us is None if it lasts to the end of the
    trace. hurts: whom it hurts. evidence: where the figures are. weight: sorts findings of one kind
    and severity, greatest first.
    """

    kind: str
    severity: Severity
    vhost: str
    about: tuple[str, ...]
    sentence: str
    hurts: str = ""
    advice: str = ""
    evidence: str = ""
    since_us: int | None = None
    until_us: int | None = None
    weight: float = 0.0


def of_table(table: str, queue: Queue, more: str = "") -> str:
    """Return the evidence of a table for a queue."""
    return f"table {table}, queue {shown(queue.name)}{more}"
