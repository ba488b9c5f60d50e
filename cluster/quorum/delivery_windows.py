"""Limits the deliveries that are sent to the nodes of consumers before they are handed over.

The group gives a consumer as many messages as its prefetch limit allows, which may be very many
bytes. The leader sends a consumer at most `WINDOW_BYTES` that its node has not handed over. Later
deliveries are withheld: they are only in the state of the queue, where the consumer holds them. The
node reports what it has handed over (`took`), and is sent more. A client that attaches is sent what
its consumers have not received, so a window begins again with each session. When a consumer is
cancelled, its client learns which deliveries were withheld, and returns them.

A single message is always sent, however large it is. Larger deliveries are sent in parts, so that
each part is read, sent and handed over in one turn.

Invariants:

DW1  The deliveries that are sent to a consumer continue its delivery numbers, and are sent once in
     a session: after a withheld part, everything is withheld.
"""

from collections.abc import Iterator
from typing import Final

from leveret.cluster.quorum.machine.consumers import ConsumerState
from leveret.cluster.quorum.machine.effects import Applied, Deliver, Effect, Withheld
from leveret.cluster.quorum.machine.quorum_machine import QuorumMachine
from leveret.cluster.quorum.machine.runs import MESSAGE_BYTES, Run

WINDOW_BYTES: Final = 4 * 1024 * 1024
"""As much as publishers may have under way for a queue (unapplied_hold.py)."""
PART_BYTES: Final = 256 * 1024
"""About the size of the largest `Deliver`."""


class DeliveryWindows:
    """The windows of all consumers of a queue, on the member that leads."""

    __slots__ = ("_queue", "_withheld")

    def __init__(self, queue: QuorumMachine) -> None:
        self._queue = queue
        self._withheld: dict[ConsumerState, None] = {}
        """The consumers with withheld deliveries, and some that have ended."""

    def begin(self, sender: int) -> None:
        """A client attaches: nothing is on its way to its consumers."""
        known = self._queue.senders.known.get(sender)
        if known is not None:
            for consumer in known.consumers.values():
                consumer.is_withheld = False
                consumer.sent = consumer.unread_bytes = 0
                self._withheld.pop(consumer, None)

    def admitted(self, effects: list[Effect]) -> list[Effect]:
        """The effects, with deliveries in parts, and without those that are withheld."""
        admitted: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Deliver):
                self._admit(effect, admitted)
                continue
            if self._withheld and isinstance(effect, Applied):
                self._give_up(admitted)
            admitted.append(effect)
        return admitted

    def _give_up(self, admitted: list[Effect]) -> None:
        """Add the withheld deliveries of cancelled consumers, before clients learn of that."""
        for consumer in list(self._withheld):
            sender, number = consumer.sender, consumer.number
            if self._queue.consumer(sender, number) is not consumer:
                del self._withheld[consumer]
            elif consumer.is_cancelled:
                del self._withheld[consumer]
                runs = consumer.held_after(consumer.sent)
                if runs:
                    admitted.append(Withheld(sender, number, runs))

    def _admit(self, deliver: Deliver, admitted: list[Effect]) -> None:
        consumer = self._queue.consumer(deliver.sender, deliver.consumer)
        size = 0
        for run in deliver.runs:
            size += run.octets
        if size <= PART_BYTES:
            if consumer is None or self._has_room(consumer, size, deliver.runs):
                admitted.append(deliver)
            return
        for runs in _in_parts(deliver.runs):
            size = sum([run.octets for run in runs])
            if consumer is None or self._has_room(consumer, size, runs):
                admitted.append(Deliver(deliver.sender, deliver.consumer, runs))

    def _has_room(self, consumer: ConsumerState, size: int, runs: list[Run]) -> bool:
        """Whether runs are sent to a consumer, or withheld."""
        last = runs[-1].delivery + runs[-1].count - 1
        if consumer.is_withheld or last <= consumer.sent:
            return False  # DW1
        if consumer.unread_bytes and consumer.unread_bytes + size > WINDOW_BYTES:
            consumer.is_withheld = True
            self._withheld[consumer] = None
            return False
        consumer.unread_bytes += size
        consumer.sent = last
        return True

    def took(self, sender: int, number: int, octets: int) -> list[Effect]:
        """A consumer was handed messages of this size; returns what is sent to it now."""
        consumer = self._queue.consumer(sender, number)
        if consumer is None:
            return []
        consumer.unread_bytes = max(0, consumer.unread_bytes - octets)
        if not consumer.is_withheld or consumer.unread_bytes > WINDOW_BYTES // 2:
            return []
        consumer.is_withheld = False
        self._withheld.pop(consumer, None)
        runs = consumer.held_after(consumer.sent)
        return self.admitted([Deliver(sender, number, runs)]) if runs else []


def _in_parts(runs: list[Run]) -> Iterator[list[Run]]:
    """The runs in order, in lists of about `PART_BYTES`, with at least one message each."""
    part: list[Run] = []
    room = PART_BYTES
    for run in runs:
        size, taken = run.size + MESSAGE_BYTES, 0
        while taken < run.count:
            count = min(run.count - taken, room // size)
            if not count and part:
                yield part
                part, room = [], PART_BYTES
                continue
            count = max(count, 1)
            part.append(run if count == run.count else run.part(taken, count))
            taken += count
            room = max(0, room - count * size)
    yield part
