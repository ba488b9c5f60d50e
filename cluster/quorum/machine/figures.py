"""The counts and consumers of a quorum queue, for management."""

import msgspec

from leveret.broker.queues.contract.status import DeduplicationStatus
from leveret.cluster.quorum.machine.commands import DelayedRetry
from leveret.cluster.quorum.machine.quorum_machine import QuorumMachine
from leveret.cluster.quorum.machine.runs import RUN_BYTES

QUEUE_BYTES = 20_000
"""About what a member of a queue takes: its machine, its part in Raft, and its client."""
CONSUMER_BYTES = 2_000


class ConsumerCounts(msgspec.Struct, frozen=True):
    """One consumer. sender, number: identify it. is_active: it gets messages if it has room."""

    sender: int
    number: int
    node: str
    tag: str
    credit: int
    priority: int
    no_ack: bool
    details: bytes
    held: int
    is_active: bool
    is_single_active: bool
    is_timed_out: bool


class MachineFigures(msgspec.Struct, frozen=True):
    """The counts of a queue. Bytes are sums of body sizes.

    returned: the ready messages that were returned. by_priority: the other ready messages by level,
    the highest first. next_delayed_ms, last_delayed_ms: when the first and the last delayed message
    become ready; 0 if there are none. taken and the following counts: see `QueueMessages`.
    expires_on_time: whether messages expire wherever they are in the queue.
    memory_bytes: about what the state takes, without bodies. oldest_ready_ms: the wall-clock time
    when the oldest ready message was published; 0 if there is none. waited_counts, waited_ms: as in
    `AgeFigures`.
    """

    ready: int
    ready_bytes: int
    unacked: int
    unacked_bytes: int
    letters: int
    letters_bytes: int
    delayed: int
    delayed_bytes: int
    returned: int
    by_priority: tuple[tuple[int, int], ...]
    senders: int
    is_refusing: bool
    priorities: int
    delivery_limit: int
    next_delayed_ms: int
    last_delayed_ms: int
    consumers: tuple[ConsumerCounts, ...]
    taken: int
    delivered: int
    delivered_no_ack: int
    got: int
    got_no_ack: int
    got_empty: int
    redelivered: int
    acked: int
    memory_bytes: int = 0
    oldest_ready_ms: int = 0
    waited_counts: tuple[int, ...] = ()
    waited_ms: int = 0
    delayed_retry: DelayedRetry = DelayedRetry.DISABLED
    delayed_retry_min_ms: int = 0
    delayed_retry_max_ms: int = 0
    delayed_retry_multiplier: int = 0
    duplicates: int = 0
    identifiers: DeduplicationStatus | None = None
    expired_on_time: int = 0
    expires_on_time: bool = False


def figures(machine: QuorumMachine) -> MachineFigures:
    """The figures of a queue, without the ages of its messages."""
    messages, consumers = machine.messages, machine.messages.consumers
    ready, delayed, letters = messages.ready, messages.delayed, messages.letters
    known = machine.senders.known
    return MachineFigures(
        ready.count, ready.bytes, messages.held_count, messages.held_bytes,
        letters.count, letters.bytes, delayed.count, delayed.bytes, ready.returned.count,
        tuple([(level.level, level.queue.count) for level in ready.levels]),
        len(known), messages.is_refusing, messages.options.priorities,
        messages.options.delivery_limit, delayed.next_ms(), delayed.last_ms(),
        tuple([
            ConsumerCounts(
                one.sender, one.number, known[one.sender].node, one.tag, one.credit, one.priority,
                one.no_ack, one.details, one.held.count,
                one.may_be_active and (not consumers.is_single_active or one is consumers.active),
                one is consumers.active, bool(one.timed_out),
            )
            for one in consumers.subscribed
            if not one.is_cancelled
        ]),
        messages.taken, messages.delivered, messages.delivered_no_ack, messages.got,
        messages.got_no_ack, messages.got_empty, messages.redelivered, messages.acked,
        _memory_bytes(machine), delayed_retry=messages.options.delayed_retry,
        delayed_retry_min_ms=messages.options.delayed_retry_min_ms,
        delayed_retry_max_ms=messages.options.delayed_retry_max_ms,
        delayed_retry_multiplier=messages.options.delayed_retry_multiplier,
        duplicates=messages.duplicates, expired_on_time=messages.expired_on_time,
        identifiers=None if messages.identifiers is None else messages.identifiers.status(),
    )  # fmt: skip


def _memory_bytes(machine: QuorumMachine) -> int:
    messages = machine.messages
    ready, held = messages.ready, [one.held for one in messages.consumers.subscribed]
    queues = [ready.returned, *[level.queue for level in ready.levels]]
    lists = [one.runs for one in (*held, *messages.letters.by_reason)]
    runs = sum(map(len, lists)) + messages.delayed.run_count
    return (
        QUEUE_BYTES + CONSUMER_BYTES * len(held) + RUN_BYTES * runs
        + sum([queue.memory_bytes() for queue in queues])
        + (0 if messages.identifiers is None else messages.identifiers.status().memory_bytes)
    )  # fmt: skip
