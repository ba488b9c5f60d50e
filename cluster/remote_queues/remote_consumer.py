"""A consumer of this node at a queue on another node: the client's side.

The home node may send as much as was granted: messages, and bytes of bodies. Once a round the
grants are topped up to the consumer's room, at most a window. Deliveries that arrive while the
consumer has no room (its client does not read, or other consumers of its channel took the room that
they share) wait here.

Invariants:
RC1. Granted deliveries that have not arrived, and those that wait here, are at most one window.
RC2. The consumer gets deliveries in the order of their arrival, and no more than its room.
RC3. A consumer with room whose grants are used up gets another grant in the same round.
"""

from collections import deque
from typing import Protocol

from leveret.broker.queues.contract.queue_client import Consumer
from leveret.storage.messages.message import Entry

WINDOW_MESSAGES, WINDOW_BYTES = 4000, 4 * 1024 * 1024
"""Two turns of a queue (TURN_MESSAGES_MAX), and eight of its deliveries of large bodies."""


class ConsumedRemoteQueue(Protocol):
    """The queue of a consumer (remote_queue.py)."""

    def deliver(self, consumer: "RemoteConsumer", payload: bytes) -> None:
        """Take deliveries from the home node. Raises RunError and QueueFrameError."""

    def lost(self, consumer: "RemoteConsumer") -> None:
        """The queue has crashed, and the consumer with it."""

    def grant(self, number: int, messages: int, body_bytes: int) -> None:
        """Grant the home node further messages and bytes."""

    def grant_later(self, consumer: "RemoteConsumer") -> None:
        """Call `make_grant` at the end of the round."""

    def give_back(self, entries: list[Entry]) -> None:
        """Requeue deliveries whose channel has ended."""


class RemoteConsumer:
    """One consumer. number: identifies it on both nodes. is_ended: it takes nothing more."""

    __slots__ = (
        "_granted", "_granted_bytes", "_waiting", "_waiting_bytes", "consumer",
        "is_ended", "number", "queue",
    )  # fmt: skip

    def __init__(self, queue: ConsumedRemoteQueue, number: int, consumer: Consumer) -> None:
        self.queue = queue
        self.number = number
        self.consumer = consumer
        self.is_ended = False
        self._waiting: deque[Entry] = deque()
        self._waiting_bytes = 0
        self._granted = self._granted_bytes = 0

    def __repr__(self) -> str:
        return f"<RemoteConsumer {self.consumer!r}>"

    def first_grant(self) -> tuple[int, int]:
        """The messages and bytes that are granted with the subscription."""
        self._granted = min(max(self.consumer.room(), 0), WINDOW_MESSAGES)
        self._granted_bytes = WINDOW_BYTES
        self._watch(self._granted)
        return self._granted, self._granted_bytes

    def _watch(self, room: int) -> None:
        """Have `credit` called when a consumer with a limit, or without room, has more room."""
        self.consumer.is_waiting = room < WINDOW_MESSAGES

    def arrive(self, entries: list[Entry], body_bytes: int) -> None:
        """Take deliveries from the home node. body_bytes: the sum of their bodies' sizes."""
        self._granted -= len(entries)
        self._granted_bytes -= body_bytes
        if self.is_ended:
            if not self.consumer.no_ack:
                self.queue.give_back(entries)
            return
        if not self._waiting and self.consumer.room() >= len(entries):
            self.consumer.deliver(entries)
        else:
            self._waiting.extend(entries)
            self._waiting_bytes += body_bytes
            self.deliver_waiting()
        self.queue.grant_later(self)

    def deliver_waiting(self) -> None:
        """Give the consumer as many deliveries as it has room for."""
        waiting, consumer = self._waiting, self.consumer
        while waiting and (room := consumer.room()) > 0:
            entries = [waiting.popleft() for _ in range(min(room, len(waiting)))]
            self._waiting_bytes -= sum([len(entry.message.body) for entry in entries])
            consumer.deliver(entries)

    def make_grant(self) -> None:
        """Grant the consumer's room beyond the earlier grants."""
        if self.is_ended:
            return
        self.deliver_waiting()
        room = self.consumer.room()
        self._watch(room)
        if room <= 0:
            return
        messages = min(room, WINDOW_MESSAGES) - self._granted - len(self._waiting)
        body_bytes = WINDOW_BYTES - self._granted_bytes - self._waiting_bytes
        is_worth_it = messages > 0 if room < WINDOW_MESSAGES else messages >= WINDOW_MESSAGES // 2
        if is_worth_it or (body_bytes >= WINDOW_BYTES // 2):
            messages, body_bytes = max(0, messages), max(0, body_bytes)
            self._granted += messages
            self._granted_bytes += body_bytes
            assert self._granted <= WINDOW_MESSAGES, "RC1: grants are at most a window"
            self.queue.grant(self.number, messages, body_bytes)

    def end(self) -> None:
        """Requeue waiting deliveries, if possible: its channel has ended, or the queue is gone."""
        self.is_ended = True
        self.consumer.is_waiting = False
        waiting, self._waiting = list(self._waiting), deque()
        if waiting and not self.consumer.no_ack:
            self.queue.give_back(waiting)
