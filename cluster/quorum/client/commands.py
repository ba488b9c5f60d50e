"""The commands of a node's clients: how each is encoded, and what happens on its outcome.

Consumers and basic.get are in consumers.py.
"""

from collections.abc import Callable, Sequence
from typing import Final

from mypy_extensions import i64

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.properties import NO_TTL, ttl_ms_of
from leveret.broker.queues.contract.modifications import Modification
from leveret.broker.queues.contract.publication import OWN_TTL, Publication, Publisher
from leveret.broker.queues.deduplication.identifiers import key_of
from leveret.cluster.quorum.client.consuming_client import ConsumerCommand
from leveret.cluster.quorum.client.holders import Holder
from leveret.cluster.quorum.machine.commands import (
    RUN_FIELDS,
    TTL_MAX_MS,
    Cancel,
    Discard,
    Enqueue,
    EnqueueOnce,
    EnqueueTimed,
    Join,
    Modify,
    Purge,
    Return,
    Settle,
    encode_command,
)
from leveret.cluster.quorum.machine.effects import Result
from leveret.cluster.quorum.machine.own_times import times_of
from leveret.cluster.remote_queues.message_runs import RunWriter
from leveret.cluster.replicated_queues.client.numbered_command import NumberedCommand
from leveret.cluster.replicated_queues.client.sender_numbers import SenderNumbers
from leveret.cluster.replicated_queues.client.timed_request import TimedRequest
from leveret.cluster.replicated_queues.client.unapplied_hold import UnappliedHold
from leveret.storage.messages.message import Message

SETTLE: Final = 1
RETURN: Final = 2
RETURN_FAILED: Final = 3
RETURN_UNSEEN: Final = 4
DISCARD: Final = 5
"""What to do with deliveries. Failed: the client did not ask for the return. Unseen: the deliveries
were not handed to the client.
"""
DEFAULT_PRIORITY: Final = 4
"""The priority of messages that have none."""
MESSAGE_BYTES: Final = 100
"""About how much memory a message takes, beside its body, until it is applied."""


class JoinGroup(NumberedCommand):
    """The first command of a sender. node, incarnation: of this node."""

    __slots__ = ("_incarnation", "_node")

    def __init__(self, node: str, incarnation: int) -> None:
        super().__init__()
        self._node = node
        self._incarnation = incarnation

    def encode(self, sender: int, seen: int) -> bytes:
        """Encode the command."""
        return encode_command(Join(sender, self.number, seen, self._node, self._incarnation))

    def sender_ended(self) -> bool:
        """The next sender has its own first command."""
        return False


class QuorumSenders:
    """The senders of a node's client of a quorum queue."""

    __slots__ = ("_numbers",)

    def __init__(self, numbers: SenderNumbers) -> None:
        self._numbers = numbers

    def next_number(self) -> int:
        """The number of the next sender."""
        return self._numbers.next_number()

    def join(self) -> JoinGroup:
        """The first command of a sender."""
        return JoinGroup(self._numbers.node, self._numbers.incarnation)


class HeldRun:
    """A run of messages whose publisher waits for the queue. place: of its first message in the
    command. first: the publisher's number of this message.
    """

    __slots__ = ("count", "first", "place", "publisher")

    def __init__(self, publisher: Publisher, first: int, count: int, place: int) -> None:
        self.publisher = publisher
        self.first = first
        self.count = count
        self.place = place


class PublishRuns(NumberedCommand):
    """Publishes messages: the runs that arrived in one turn.

    It holds the runs of publishers that wait for a confirm (`Publisher.hold`). The messages are
    dropped once they are encoded. size: about how much memory they take. is_once: duplicates are
    not added to the queue.
    """

    __slots__ = (
        "_held", "_hold", "_keys", "_messages", "_messages_at", "_runs", "_times", "is_once",
        "size",
    )  # fmt: skip

    def __init__(self, hold: UnappliedHold, is_once: bool = False) -> None:
        super().__init__()
        self.is_once = is_once
        self._keys: list[bytes] = []
        self._hold = hold
        self._held: list[HeldRun] = []
        self._messages: list[Message] = []
        self._messages_at = 0
        self._runs: list[int] = []
        self._times: dict[int, bytes] = {}
        self.size: i64 = 0

    def __repr__(self) -> str:
        return f"<PublishRuns {self.number}>"

    def add(self, publication: Publication, takes_times: bool = False) -> None:
        """Add a run, before the command has a number. takes_times: all nodes take `EnqueueTimed`,
        for messages with times to live of their own.
        """
        messages = publication.messages
        publisher = publication.publisher
        if publisher is not None:
            count = len(messages)
            publisher.hold(publication.first, count, self)
            self._held.append(HeldRun(publisher, publication.first, count, len(self._messages)))
        if self.is_once:
            self._keys += map(_key_of, messages)
        size = publication.body_bytes + MESSAGE_BYTES * len(messages)
        self.size += size
        self._hold.published(size)
        if self._messages:
            self._messages += messages
        else:
            self._messages = messages.copy()
        ttl_ms = NO_TTL if publication.ttl_ms is None else publication.ttl_ms
        if ttl_ms == OWN_TTL and takes_times and not self.is_once:
            _add_timed(self._runs, self._times, messages)
        else:
            _add_alike(self._runs, messages, ttl_ms)

    def encode(self, sender: int, seen: int) -> bytes:
        """Encode the command, with its messages once."""
        if self.is_once:
            command: Enqueue = EnqueueOnce(sender, self.number, seen, self._runs, self._keys)
        elif self._times:
            command = EnqueueTimed(sender, self.number, seen, self._runs, self._times)
        else:
            command = Enqueue(sender, self.number, seen, self._runs)
        start = encode_command(command)
        messages_at, self._messages_at = self._messages_at, len(start)
        if messages_at:
            return start + self.payload[messages_at:]
        messages, self._messages = self._messages, []
        pieces = RunWriter(start, is_kept=True).publish(messages)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def applied(self, result: object) -> None:
        """The queue has the messages, except those that it has refused."""
        if isinstance(result, Result):
            self._refuse(result.refused)
        held, self._held = self._held, []
        for run in held:
            run.publisher.confirm(run.first, self)
        self._hold.applied(self.size)

    def _refuse(self, places: Sequence[int]) -> None:
        """Refuse messages. places: intervals, first, last ..."""
        held = iter(self._held)
        run = next(held, None)
        for at in range(0, len(places), 2):
            for place in range(places[at], places[at + 1] + 1):
                while run is not None and place >= run.place + run.count:
                    run = next(held, None)
                if run is None:
                    return
                if place >= run.place:
                    run.publisher.refuse(run.first + place - run.place)

    def sender_forgotten(self) -> bool:
        """Refuse the messages: the publishers may publish them again."""
        self._end(is_settled=False)
        return False

    def queue_ended(self, error: Exception, is_deleted: bool) -> None:
        """Confirm the runs if the queue is deleted; refuse them if the node stops."""
        self._end(is_deleted)

    def _end(self, is_settled: bool) -> None:
        held, self._held = self._held, []
        for publisher in dict.fromkeys(run.publisher for run in held):
            publisher.holder_died(self, is_settled)
        self._hold.applied(self.size)


def _key_of(message: Message) -> bytes:
    header = message.header
    assert isinstance(header, ContentHeader), "messages have content headers"
    return key_of(header)


def _add_alike(runs: list[int], messages: list[Message], ttl_ms: i64) -> None:
    """Add messages to the runs of an `Enqueue`. A run is consecutive messages that are alike.

    ttl_ms: of all messages; NO_TTL if they have none, OWN_TTL if each has its own.
    """
    last: object = None
    size: i64 = -1
    priority: i64 = DEFAULT_PRIORITY
    run_priority: i64 = -1
    ttl: i64 = _encoded_ttl(ttl_ms)
    run_ttl: i64 = ttl
    count: i64 = 0
    for message in messages:
        header = message.header
        if header is not last:
            last = header
            own = header.priority
            priority = DEFAULT_PRIORITY if own is None else own
            if ttl_ms == OWN_TTL:
                assert isinstance(header, ContentHeader), "messages have content headers"
                ttl = _encoded_ttl(ttl_ms_of(header.kind))
        if len(message.body) == size and priority == run_priority and ttl == run_ttl:
            count += 1
            continue
        if count:
            runs += (count, size, run_ttl, run_priority)
        count, size, run_priority, run_ttl = 1, len(message.body), priority, ttl
    runs += (count, size, run_ttl, run_priority)


def _add_timed(runs: list[int], times: dict[int, bytes], messages: list[Message]) -> None:
    """Add messages to the runs and times of an `EnqueueTimed`. A run is consecutive messages that
    are alike, whatever their times to live are.
    """
    last: object = None
    size: i64 = -1
    priority: i64 = DEFAULT_PRIORITY
    run_priority: i64 = -1
    ttl_ms: i64 = 0
    shortest_ms: i64 = 0
    longest_ms: i64 = 0
    lives_ms: list[int] = []
    for message in messages:
        header = message.header
        if header is not last:
            assert isinstance(header, ContentHeader), "messages have content headers"
            last = header
            own = header.priority
            priority = DEFAULT_PRIORITY if own is None else own
            ttl_ms = min(ttl_ms_of(header.kind), TTL_MAX_MS)
        if len(message.body) != size or priority != run_priority:
            if lives_ms:
                _end_timed(runs, times, size, run_priority, shortest_ms, longest_ms, lives_ms)
                lives_ms = []
            size, run_priority = len(message.body), priority
            shortest_ms = longest_ms = ttl_ms
        elif ttl_ms < shortest_ms:
            shortest_ms = ttl_ms
        elif ttl_ms > longest_ms:
            longest_ms = ttl_ms
        lives_ms.append(ttl_ms)
    _end_timed(runs, times, size, run_priority, shortest_ms, longest_ms, lives_ms)


def _end_timed(
    runs: list[int], times: dict[int, bytes], size: i64, priority: i64, shortest_ms: i64,
    longest_ms: i64, lives_ms: list[int],
) -> None:  # fmt: skip
    """Add a run, with the times of its messages if they differ."""
    if longest_ms > shortest_ms:
        times[len(runs) // RUN_FIELDS] = times_of(lives_ms)
    runs += (len(lives_ms), size, _encoded_ttl(shortest_ms), priority)


def _encoded_ttl(ttl_ms: i64) -> i64:
    """A time to live as in the runs of an `Enqueue`."""
    return min(ttl_ms, TTL_MAX_MS) + 1


class SettleHeld(NumberedCommand):
    """Settles or returns deliveries of one holder. action: one of the constants above."""

    __slots__ = ("_action", "_consumer", "_positions")

    def __init__(self, action: int, holder: Holder, positions: list[int]) -> None:
        """positions: ascending intervals, first, last ..."""
        super().__init__()
        self._action = action
        self._consumer = holder.number
        self._positions = positions

    def encode(self, sender: int, seen: int) -> bytes:
        """Encode the command."""
        action, consumer, positions = self._action, self._consumer, self._positions
        if action == SETTLE:
            return encode_command(Settle(sender, self.number, seen, consumer, positions))
        if action == DISCARD:
            return encode_command(Discard(sender, self.number, seen, consumer, positions))
        command = Return(
            sender, self.number, seen, consumer, positions, action == RETURN_FAILED,
            action == RETURN_UNSEEN,
        )  # fmt: skip
        return encode_command(command)

    def sender_ended(self) -> bool:
        """The holder has ended, and what it held was returned."""
        return False


class ModifyHeld(NumberedCommand):
    """Takes modified deliveries of one holder back."""

    __slots__ = ("_consumer", "_modification", "_positions")

    def __init__(self, modification: Modification, holder: Holder, positions: list[int]) -> None:
        """positions: ascending intervals, first, last ..."""
        super().__init__()
        self._modification = modification
        self._consumer = holder.number
        self._positions = positions

    def encode(self, sender: int, seen: int) -> bytes:
        """Encode the command."""
        return encode_command(
            Modify(sender, self.number, seen, self._consumer, self._positions, *self._modification)
        )

    def sender_ended(self) -> bool:
        """The holder has ended, and what it held was returned."""
        return False


class CancelConsumer(NumberedCommand):
    """Ends a consumer. returns: whether its messages are returned, as its channel has ended."""

    __slots__ = ("_cancelled", "_consumer", "_returns")

    def __init__(
        self, consumer: ConsumerCommand, returns: bool, cancelled: Callable[[], object]
    ) -> None:
        """cancelled: called when the consumer gets no more messages."""
        super().__init__()
        self._consumer = consumer
        self._returns = returns
        self._cancelled = cancelled

    def encode(self, sender: int, seen: int) -> bytes:
        """Encode the command. The consumer has a number: it has subscribed before."""
        consumer = self._consumer.number
        return encode_command(Cancel(sender, self.number, seen, consumer, self._returns))

    def applied(self, result: object) -> None:
        """The consumer gets no more messages."""
        self._cancelled()

    def sender_ended(self) -> bool:
        """The consumer has ended with the sender."""
        self._cancelled()
        return False

    def queue_ended(self, error: Exception, is_deleted: bool) -> None:
        """The consumer has ended with the queue."""
        self._cancelled()


class PurgeQueue(NumberedCommand):
    """Drops the ready messages. request: is answered with their number."""

    __slots__ = ("_request",)

    def __init__(self, request: TimedRequest) -> None:
        super().__init__()
        self._request = request

    def encode(self, sender: int, seen: int) -> bytes:
        """Encode the command."""
        return encode_command(Purge(sender, self.number, seen))

    def applied(self, result: object) -> None:
        """The queue has dropped them."""
        self._request.give(result.value if isinstance(result, Result) else 0)

    def queue_ended(self, error: Exception, is_deleted: bool) -> None:
        """Answer with an error."""
        self._request.refuse(error)
