"""The figures from which findings are made: small, whatever the size of the trace. Pure.

collect_evidence.py fills them. Times and durations are microseconds. Time is divided into steps of
ten seconds, or of as many times ten seconds as are needed to have at most `STEPS_MAX` of a virtual
host's trace.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from leveret.analytics.findings.finding import Queue
from leveret.analytics.findings.trait import Trait
from leveret.analytics.formatting import HOUR_US, listed, local_time, shown

STEPS_MAX = 1440
ACTIVITY_US = 10_000_000


class SeenPublisher(NamedTuple):
    """Who publishes: a user on a connection. connection: empty for those with few messages."""

    user: str
    connection: str = ""


class TraceSpan(NamedTuple):
    """When a virtual host's trace begins and ends. sample: one message in this number is in it."""

    begins_us: int
    ends_us: int
    step_us: int
    sample: int

    @property
    def length_us(self) -> int:
        """Length of the trace."""
        return max(1, self.ends_us - self.begins_us)

    @property
    def steps(self) -> int:
        """Number of steps."""
        return (self.ends_us - self.begins_us) // self.step_us + 1

    def time_of(self, step: int) -> int:
        """Return the start of a step."""
        return self.begins_us + step * self.step_us


@dataclass
class QueueSteps:
    """What happened in a queue, by step; steps without events have no key.

    ready, ready_max: ready messages at the end of the step, and the most in it. bytes, size_max: of
    the bodies delivered, and of the largest one. settled, busy_us, hold_p50_us, held_max: the
    figures of its consumers with acknowledgements. consumers: how many of them had an event.
    """

    queue: Queue
    span: TraceSpan
    ready: dict[int, int] = field(default_factory=dict)
    ready_max: dict[int, int] = field(default_factory=dict)
    came: dict[int, int] = field(default_factory=dict)
    delivered: dict[int, int] = field(default_factory=dict)
    redelivered: dict[int, int] = field(default_factory=dict)
    sent_back: dict[int, int] = field(default_factory=dict)
    expired: dict[int, int] = field(default_factory=dict)
    dropped: dict[int, int] = field(default_factory=dict)
    bytes: dict[int, int] = field(default_factory=dict)
    size_max: dict[int, int] = field(default_factory=dict)
    wait_max_us: dict[int, int] = field(default_factory=dict)
    settled: dict[int, int] = field(default_factory=dict)
    busy_us: dict[int, int] = field(default_factory=dict)
    hold_p50_us: dict[int, int] = field(default_factory=dict)
    held_max: dict[int, int] = field(default_factory=dict)
    consumers: dict[int, int] = field(default_factory=dict)

    def longest_wait_us(self, since_us: int, until_us: int | None) -> int:
        """Return the longest wait of a message that was delivered in a time."""
        return max(between(self, self.wait_max_us, since_us, until_us), default=0)


def between(
    steps: QueueSteps, values: Mapping[int, int], since_us: int, until_us: int | None
) -> list[int]:
    """Return the values of the steps of a time, and of the step after it."""
    span = steps.span
    first = (since_us - span.begins_us) // span.step_us
    last = span.steps if until_us is None else (until_us - span.begins_us) // span.step_us + 1
    return [value for step, value in values.items() if first <= step <= last]


@dataclass(eq=False)
class ConsumerSteps:
    """What a consumer of a queue settled, by step, and how long it was busy. tag: may be empty."""

    queue: Queue
    connection: str
    tag: str
    settled: dict[int, int] = field(default_factory=dict)
    busy_us: dict[int, int] = field(default_factory=dict)


@dataclass(eq=False)
class HeldKind:
    """Messages of a queue that are alike. held: their number, and the least time that consumers
    held one, by the step in which a minute begins.
    """

    routing_key: str
    up_to_bytes: int
    held: dict[int, tuple[int, int]] = field(default_factory=dict)


class SeenConsumer(NamedTuple):
    """A consumer. tag: None for basic.get. work_us: the time of a message, the median of its steps.

    oldest_us: when it got the oldest message that it still holds. mark_us: since when it has
    settled none, if it holds any. settled_since: messages that it settled after oldest_us.
    rejected: without requeue. sent_back: requeued by a reject. out_of_order: of these, while it
    held others. back_first_us, back_last_us: the steps in which it sent messages back. no_ack:
    messages delivered to it that need no acknowledgement.
    """

    queue: Queue
    connection: str
    channel: int
    tag: str | None
    delivered: int
    acknowledged: int
    unacknowledged: int
    first_us: int
    last_us: int
    oldest_us: int | None
    steps: int
    settled: int
    busy_us: int
    work_us: int | None
    held_max: int
    hold_max_us: int | None
    mark_us: int | None
    settled_since: int
    rejected: int = 0
    sent_back: int = 0
    out_of_order: int = 0
    back_first_us: int | None = None
    back_last_us: int | None = None
    user: str = ""
    no_ack: int = 0


class Usual(NamedTuple):
    """The usual times of a queue: by far the most pauses and holds are not longer."""

    pause_us: int
    hold_us: int


class ConsumerPause(NamedTuple):
    """A consumer that held messages and settled none; or held one message for long (is_one)."""

    queue: Queue
    connection: str
    tag: str | None
    since_us: int
    until_us: int | None
    held: int
    is_one: bool = False


class Unattended(NamedTuple):
    """A time in which messages were ready and the queue had no consumer."""

    queue: Queue
    since_us: int
    until_us: int | None
    ready_max: int
    ready_last: int
    came: int


class Attendance(NamedTuple):
    """How a queue's messages left it. consumed: delivered to consumers, got: by basic.get."""

    consumed: int = 0
    got: int = 0


class Poison(NamedTuple):
    """Messages of one fate that were delivered too often, and the one delivered most often."""

    queue: Queue
    fate: str
    messages: int
    deliveries: int
    deliveries_max: int
    message: int
    message_id: str | None
    first_us: int
    last_us: int


class Loss(NamedTuple):
    """Messages that ended without a consumer or a dead letter."""

    queue: Queue
    fate: str
    reason: str | None
    messages: int
    first_us: int | None
    last_us: int | None


class DeadLetterFlow(NamedTuple):
    """Dead letters from a queue to queues, by reason."""

    queue: Queue
    reason: str
    exchange: str
    targets: tuple[str, ...]
    messages: int
    first_us: int
    last_us: int


class Circling(NamedTuple):
    """Messages that became dead letters of the same queue several times."""

    queue: Queue
    messages: int
    visits: int
    visits_max: int
    message: int
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
    first_us: int
    last_us: int


class HotKey(NamedTuple):
    """A routing key with much more than an even share."""

    vhost: str
    exchange: str
    routing_key: str
    messages: int
    share: float


class Duplicates(NamedTuple):
    """Message-ids that came to a queue more than once, and the most frequent one.

    user: who published most of them last, `own` of them. once: ids that each user published once.
    """

    queue: Queue
    ids: int
    message_id: str
    messages: int
    first_us: int
    last_us: int
    user: str | None = None
    own: int = 0
    once: int = 0


class ShortLived(NamedTuple):
    """Connections of a user that lasted a few seconds only."""

    vhost: str
    user: str
    connections: int
    published: int
    median_us: int
    first_us: int
    last_us: int


class Gap(NamedTuple):
    """Records that are missing in a virtual host's trace."""

    vhost: str
    gaps: int
    lost: int
    first_us: int
    last_us: int


class Unread(NamedTuple):
    """Lines or files that were rejected, by reason."""

    reason: str
    times: int
    example: str


class ReaderStep(NamedTuple):
    """Where a consumer of a stream is after a step, in which it read `read` messages.

    first_offset: of the stream, at the same time. lost: messages that it has not read, and that
    retention has removed.
    """

    at_us: int
    read: int
    next_offset: int
    lag: int
    lag_us: int
    lost: int
    first_offset: int


@dataclass
class StreamReaderSteps:
    """A consumer of a stream. steps: in order, at least one.

    name: under which it stores its offset, if it is known, or its tag. stored_offset: -1 if there
    is none.
    """

    queue: Queue
    connection: str
    name: str
    has_ended: bool
    stored_offset: int = -1
    steps: list[ReaderStep] = field(default_factory=list)

    def at(self, time_us: int) -> ReaderStep:
        """Return the first step that is not before a time."""
        return next(step for step in self.steps if step.at_us >= time_us)


@dataclass
class StreamSteps:
    """What was published to a stream, by the time of the step, and what it keeps now."""

    age_max_us: int | None = None
    bytes_max: int | None = None
    segment_bytes: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    messages: dict[int, int] = field(default_factory=dict)
    bytes: dict[int, int] = field(default_factory=dict)

    def published(self, since_us: int, until_us: int) -> int:
        """Return the number of messages published after one step until the end of another."""
        return self.ends[until_us] - self.ends[since_us]

    def kept_messages(self, since_us: int) -> int | None:
        """Return how many messages the stream keeps at least, as large as those since a time.

        None without a limit in bytes.
        """
        messages = sum(count for at_us, count in self.messages.items() if at_us >= since_us)
        size = sum(size for at_us, size in self.bytes.items() if at_us >= since_us)
        if self.bytes_max is None or not size:
            return None
        kept = self.bytes_max - min(self.segment_bytes, self.bytes_max // 2)
        return kept * messages // size


class LateReplies(NamedTuple):
    """Replies of a connection. late: sent after the requester had gone, the last late_max_us after.

    first_us, last_us: when late ones were sent, to ten seconds; None without any.
    """

    vhost: str
    user: str
    connection: str
    replies: int
    late: int
    late_max_us: int | None
    first_us: int | None
    last_us: int | None


@dataclass
class Evidence:
    """All figures. arrivals: messages by queue, publisher and step. sent: messages that came to
    queues, by virtual host, user and step.

    shares: messages from an exchange to queues, without the default exchange. priorities: came and
    delivered by queue, priority and step. traits: what some of a queue's messages are like
    (trait.py), by what became of them. opened: when connections were opened, and whether they were
    closed, by virtual host and user, of those with many that were not. closings: when connections
    that had lasted for a while were closed, likewise.
    """

    spans: dict[str, TraceSpan] = field(default_factory=dict)
    queues: dict[Queue, QueueSteps] = field(default_factory=dict)
    attendance: dict[Queue, Attendance] = field(default_factory=dict)
    usual: dict[Queue, Usual] = field(default_factory=dict)
    consumers: list[SeenConsumer] = field(default_factory=list)
    consumer_steps: dict[Queue, list[ConsumerSteps]] = field(default_factory=dict)
    held_kinds: dict[Queue, list[HeldKind]] = field(default_factory=dict)
    pauses: list[ConsumerPause] = field(default_factory=list)
    unattended: list[Unattended] = field(default_factory=list)
    users: dict[Queue, list[str]] = field(default_factory=dict)
    sent: dict[str, dict[str, dict[int, int]]] = field(default_factory=dict)
    arrivals: dict[Queue, dict[SeenPublisher, dict[int, int]]] = field(default_factory=dict)
    priorities: dict[Queue, dict[int, dict[int, tuple[int, int]]]] = field(default_factory=dict)
    replies: list[LateReplies] = field(default_factory=list)
    traits: dict[tuple[Queue, str], list[Trait]] = field(default_factory=dict)
    shares: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    poison: list[Poison] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    deaths: list[DeadLetterFlow] = field(default_factory=list)
    circling: list[Circling] = field(default_factory=list)
    unroutable: list[Unroutable] = field(default_factory=list)
    hot_keys: list[HotKey] = field(default_factory=list)
    duplicates: list[Duplicates] = field(default_factory=list)
    short_lived: list[ShortLived] = field(default_factory=list)
    opened: dict[tuple[str, str], list[tuple[int, bool]]] = field(default_factory=dict)
    closings: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    streams: dict[Queue, StreamSteps] = field(default_factory=dict)
    stream_readers: list[StreamReaderSteps] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)

    def ends_us(self, vhost: str) -> int:
        """Return when a virtual host's trace ends."""
        return self.spans[vhost].ends_us

    def clock(self, vhost: str, time_us: int) -> str:
        """Format a time, with its zone."""
        return f"{self._without_zone(vhost, time_us)} {local_time(time_us):%Z}"

    def _without_zone(self, vhost: str, time_us: int) -> str:
        """Format a time: with seconds if the trace is short, with the date if it is long."""
        moment, span = local_time(time_us), self.spans[vhost]
        text = f"{moment:%H:%M:%S}" if span.length_us <= 2 * HOUR_US else f"{moment:%H:%M}"
        is_one_day = local_time(span.begins_us).date() == local_time(span.ends_us).date()
        return text if is_one_day else f"{moment:%Y-%m-%d} {text}"

    def period(self, vhost: str, since_us: int, until_us: int | None) -> str:
        """Format a time with an end, or without one."""
        if until_us is None:
            return f"since {self.clock(vhost, since_us)}"
        since, until = self._without_zone(vhost, since_us), self.clock(vhost, until_us)
        return f"at {until}" if until.startswith(since) else f"from {since} to {until}"

    def named(self, queue: Queue, begins: bool = False) -> str:
        """Return a queue's name, with its virtual host if there are several.

        begins: a sentence begins with it.
        """
        from_vhost = f" in {shown(queue.vhost)}" if len(self.spans) > 1 else ""
        return f"{'Queue' if begins else 'queue'} {shown(queue.name)}{from_vhost}"

    def senders(self, queue: Queue) -> str:
        """Return the users that publish most to a queue; empty if they are not known."""
        return listed([shown(user) for user in self.users.get(queue, [])[:3] if user])
