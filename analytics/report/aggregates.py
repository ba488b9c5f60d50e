"""The data of a report: small tables, whatever the size of the trace. Pure.

Each table holds sums over one of the tables of tables.py, with a limit on its rows; collect.py
fills it. Time is divided into at most `STEPS_MAX` steps of ten seconds, or of several times that,
numbered from 0.
Durations and times are microseconds.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from leveret.analytics.findings.finding import Queue
from leveret.analytics.formatting import DAY_US, MINUTE_US, shown

ACTIVITY_US = 10_000_000
STEPS_MAX = 1440
COLUMNS_MAX = 120
"""Columns of a heat map."""
QUEUES_MAX = 40
ROWS_MAX = 500
"""Rows of each table that has no rows by step."""


@dataclass
class QueueSeries:
    """The values of a queue by step; steps without events have no key.

    ready, unacked, wait_max_us, hold_max_us: the step's maximum. hold_p50_us: how long a consumer
    with acknowledgements holds a message, median. worst_wait, worst_ack: the highest p99 of a
    minute, and the minute.
    """

    queue: Queue
    came: dict[int, int] = field(default_factory=dict)
    delivered: dict[int, int] = field(default_factory=dict)
    acknowledged: dict[int, int] = field(default_factory=dict)
    wait_max_us: dict[int, int] = field(default_factory=dict)
    hold_p50_us: dict[int, int] = field(default_factory=dict)
    hold_max_us: dict[int, int] = field(default_factory=dict)
    worst_wait: tuple[int, int] | None = None
    worst_ack: tuple[int, int] | None = None
    ready: dict[int, int] = field(default_factory=dict)
    unacked: dict[int, int] = field(default_factory=dict)
    ready_at_end: int = 0


class ReportedConsumer(NamedTuple):
    """A row of the table `consumers`, summed over all dates."""

    queue: Queue
    connection: str
    tag: str | None
    delivered: int
    no_ack: int
    acknowledged: int
    unacknowledged: int
    ack_p50_us: int | None
    first_us: int
    last_delivery_us: int
    last_ack_us: int | None


class Edge(NamedTuple):
    """A row of the table `topology`. dead_letters: the reason; None for other messages."""

    vhost: str
    source_kind: str
    source: str
    target_kind: str
    target: str
    dead_letters: str | None
    messages: int


class Anomaly(NamedTuple):
    """A minute that differs strongly from the baseline."""

    time_us: int
    score: float
    reason: str


class Size(NamedTuple):
    """Messages with bodies of up to this number of bytes."""

    up_to_bytes: int
    messages: int


@dataclass
class Aggregates:
    """All data of a report.

    begins_us: start of step 0. published: messages, in all. came, delivered, acknowledged: by step;
    came counts a message in each of its queues. no_ack: deliveries that need no acknowledgement, by
    queue. heat: for each queue (None: all queues), messages by column and upper bound of their
    wait; a column is `column_us` long, and column 0 begins at `heat_begins_us`. outcomes: messages
    by queue, fate and reason, if there is one. churn: connections opened by step. publishers: users
    by messages, with their messages by step. faults: how far to trust the trace, as sentences.
    """

    begins_us: int = 0
    ends_us: int = 0
    step_us: int = ACTIVITY_US
    heat_begins_us: int = 0
    column_us: int = MINUTE_US
    sample: int = 1
    events: dict[str, int] = field(default_factory=dict)
    vhosts: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    published: int = 0
    came: dict[int, int] = field(default_factory=dict)
    delivered: dict[int, int] = field(default_factory=dict)
    acknowledged: dict[int, int] = field(default_factory=dict)
    queues: list[QueueSeries] = field(default_factory=list)
    queues_total: int = 0
    heat: dict[Queue | None, dict[tuple[int, int], int]] = field(default_factory=dict)
    outcomes: dict[tuple[Queue, str, str | None], int] = field(default_factory=dict)
    no_ack: dict[Queue, int] = field(default_factory=dict)
    publishers: dict[str, dict[int, int]] = field(default_factory=dict)
    publishers_total: dict[str, int] = field(default_factory=dict)
    consumers: list[ReportedConsumer] = field(default_factory=list)
    topology: list[Edge] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)
    sizes: list[Size] = field(default_factory=list)
    churn: dict[int, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """Number of steps."""
        return max(1, -(-(self.ends_us - self.begins_us) // self.step_us))

    def time_of(self, step: int) -> int:
        """Return the start of a step."""
        return self.begins_us + step * self.step_us

    def clock(self, time_us: int) -> str:
        """Format a time as 14:05, with seconds if steps are shorter than a minute.

        It has the date if the trace spans several days.
        """
        moment = datetime.fromtimestamp(time_us / 1_000_000, UTC)
        text = f"{moment:%H:%M}" if self.step_us >= MINUTE_US else f"{moment:%H:%M:%S}"
        is_one_day = self.begins_us // DAY_US == max(self.begins_us, self.ends_us - 1) // DAY_US
        return text if is_one_day else f"{moment:%Y-%m-%d} {text}"

    def named(self, queue: Queue) -> str:
        """Return a queue's name, with its virtual host if there are several."""
        name = f"queue {shown(queue.name)}"
        return name if len(self.vhosts) < 2 else f"{name} in {shown(queue.vhost)}"
