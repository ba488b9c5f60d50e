"""The data of a report: small tables, whatever the size of the trace. Pure.

Each table holds sums over one of the tables of tables.py, with a limit on its rows; collect.py
fills it. Time is divided into at most `STEPS_MAX` steps of whole minutes, numbered from 0.
Durations and times are microseconds.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

STEPS_MAX = 1440
COLUMNS_MAX = 120
"""Columns of a heat map."""
QUEUES_MAX = 40
ROWS_MAX = 500
"""Rows of each table that has no rows by step."""
MINUTE_US, DAY_US = 60_000_000, 86_400_000_000


class Queue(NamedTuple):
    """A queue, identified by virtual host and name."""

    vhost: str
    name: str


@dataclass
class QueueSeries:
    """The values of a queue by step; steps without events have no key.

    wait_p99_us, ack_p99_us: of the step's worst minute. ready, unacked: the step's maximum.
    """

    queue: Queue
    came: dict[int, int] = field(default_factory=dict)
    delivered: dict[int, int] = field(default_factory=dict)
    acknowledged: dict[int, int] = field(default_factory=dict)
    wait_p99_us: dict[int, int] = field(default_factory=dict)
    ack_p99_us: dict[int, int] = field(default_factory=dict)
    ready: dict[int, int] = field(default_factory=dict)
    unacked: dict[int, int] = field(default_factory=dict)
    ready_at_end: int = 0


class Consumer(NamedTuple):
    """A row of the table `consumers`, summed over all dates."""

    queue: Queue
    connection: str
    tag: str | None
    delivered: int
    acknowledged: int
    unacknowledged: int
    ack_p50_us: int | None
    first_us: int
    last_delivery_us: int
    last_ack_us: int | None


class Poison(NamedTuple):
    """Messages of a queue that were delivered too often, and the one delivered most often."""

    queue: Queue
    messages: int
    deliveries: int
    message: int
    message_id: str | None
    fate: str


class Deaths(NamedTuple):
    """Dead-lettered messages. lost: dead letters that were routed to no queue."""

    queue: Queue
    reason: str
    exchange: str
    messages: int
    lost: int
    first_us: int
    last_us: int


class Unroutable(NamedTuple):
    """Messages that were routed to no queue."""

    vhost: str
    exchange: str
    routing_key: str
    messages: int
    returned: int
    user: str | None
    connection: str | None


class HotKey(NamedTuple):
    """A routing key with much more than an even share."""

    vhost: str
    exchange: str
    routing_key: str
    messages: int
    share: float


class Duplicate(NamedTuple):
    """A message-id that was published more than once."""

    vhost: str
    message_id: str
    messages: int


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


class Rejected(NamedTuple):
    """Lines or files that were rejected, by reason."""

    reason: str
    times: int
    example: str


class Size(NamedTuple):
    """Messages with bodies of up to so many bytes."""

    up_to_bytes: int
    messages: int


@dataclass
class Aggregates:
    """All data of a report.

    begins_us: start of step 0. published, delivered, acknowledged: by step. heat: for each queue
    (None: all queues), messages by column and upper bound of their wait; a column is `column_steps`
    steps. outcomes: messages by queue and fate. duplicates_total: number of ids, of which
    `duplicates` lists a few. churn: connections opened by step. short_lived: connections of less
    than 10 s, by user.
    """

    begins_us: int = 0
    ends_us: int = 0
    step_minutes: int = 1
    column_steps: int = 1
    sample: int = 1
    events: dict[str, int] = field(default_factory=dict)
    vhosts: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    published: dict[int, int] = field(default_factory=dict)
    delivered: dict[int, int] = field(default_factory=dict)
    acknowledged: dict[int, int] = field(default_factory=dict)
    queues: list[QueueSeries] = field(default_factory=list)
    queues_total: int = 0
    heat: dict[Queue | None, dict[tuple[int, int], int]] = field(default_factory=dict)
    outcomes: dict[tuple[Queue, str], int] = field(default_factory=dict)
    consumers: list[Consumer] = field(default_factory=list)
    poison: list[Poison] = field(default_factory=list)
    deaths: list[Deaths] = field(default_factory=list)
    unroutable: list[Unroutable] = field(default_factory=list)
    hot_keys: list[HotKey] = field(default_factory=list)
    duplicates: list[Duplicate] = field(default_factory=list)
    duplicates_total: int = 0
    topology: list[Edge] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)
    sizes: list[Size] = field(default_factory=list)
    churn: dict[int, int] = field(default_factory=dict)
    short_lived: dict[str, int] = field(default_factory=dict)
    gaps: int = 0
    lost_records: int = 0
    first_gap_us: int = 0
    rejected: list[Rejected] = field(default_factory=list)

    @property
    def step_us(self) -> int:
        """Duration of a step."""
        return self.step_minutes * MINUTE_US

    @property
    def steps(self) -> int:
        """Number of steps."""
        return max(1, -(-(self.ends_us - self.begins_us) // self.step_us))

    def time_of(self, step: int) -> int:
        """Return the start of a step."""
        return self.begins_us + step * self.step_us

    def step_of(self, time_us: int) -> int:
        """Return the step of a time."""
        return (time_us - self.begins_us) // self.step_us

    def clock(self, time_us: int) -> str:
        """Format a time as 14:05, with the date if the trace spans several days."""
        moment = datetime.fromtimestamp(time_us / 1_000_000, UTC)
        is_one_day = self.begins_us // DAY_US == max(self.begins_us, self.ends_us - 1) // DAY_US
        return f"{moment:%H:%M}" if is_one_day else f"{moment:%Y-%m-%d %H:%M}"
