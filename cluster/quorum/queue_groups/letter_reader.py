"""Reads messages of a quorum queue from the log of the leader on this node, in order: its dead
letters, and messages that are traced.

A letter is read only when it is taken. If a thread has to read it, the letters after it wait.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from leveret.broker.queues.dead_letters.header import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.quorum.machine.effects import Reason
from leveret.cluster.quorum.machine.runs import Run
from leveret.cluster.quorum.queue_groups.message_reading import messages_of
from leveret.storage.contract.backing_queue import BeingRead
from leveret.storage.disk.disk import StoreError
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Message

REASONS = {
    Reason.EXPIRED: EXPIRED, Reason.REJECTED: REJECTED, Reason.MAXLEN: MAXLEN,
    Reason.DELIVERY_LIMIT: DELIVERY_LIMIT,
}  # fmt: skip

logger = logging.getLogger("leveret.cluster")


class ReadLetters(NamedTuple):
    """Messages that died together, as they were published. position: of the first one. reason: why
    they died, or why they are traced. time_ms: of their run.
    """

    position: int
    messages: list[Message]
    reason: str
    time_ms: int


class LetterReader:
    """The letters of a queue that were not taken. has_read: called when a thread has read some.

    member: the leader; None while it is not on this node.
    """

    __slots__ = ("_addresses", "_has_read", "_is_reading", "_read", "_waiting", "member")

    def __init__(self, addresses: Addresses) -> None:
        self.member: GroupMember | None = None
        self._addresses = addresses
        self._has_read: Callable[[], object] = _nothing
        self._waiting: deque[tuple[str, Run]] = deque()
        self._is_reading = False
        self._read: ReadLetters | None = None

    def begin(self, member: GroupMember, has_read: Callable[[], object]) -> None:
        """A member leads. has_read: called when a thread has read some."""
        self.member, self._has_read = member, has_read

    def end(self) -> None:
        """It leads no longer: drop all letters. An ended queue is freed without a collection."""
        self.member, self._has_read = None, _nothing
        self.clear()

    @property
    def has_letters(self) -> bool:
        """Whether there are letters that were not taken."""
        return self._read is not None or bool(self._waiting)

    def add(self, reason: str, runs: list[Run]) -> None:
        """Add letters after all others."""
        self._waiting.extend((reason, run) for run in runs)

    def clear(self) -> None:
        """Drop all letters."""
        self._waiting.clear()
        self._read = None

    def take(self) -> ReadLetters | None:
        """The next letters; None if there are none, or a thread has to read them first."""
        if self._is_reading:
            return None
        taken, self._read = self._read or self._next(), None
        return taken

    def _next(self) -> ReadLetters | None:
        member, waiting = self.member, self._waiting
        while waiting and member is not None and not member.damage:
            reason, run = waiting[0]
            try:
                entry = member.read_entry(run.index)
            except BeingRead as reading:
                self._is_reading = True
                reading.when_done(self._thread_has_read)
                return None
            except StoreError as error:
                waiting.clear()
                member.lost_entry(error)
                return None
            except KeyError:
                logger.error(
                    "%d dead letters of %s are lost: entry %d is not in the log",
                    run.count, member.queue_name, run.index,
                )  # fmt: skip
                waiting.popleft()
                continue
            waiting.popleft()
            messages = messages_of(run, entry, self._addresses)
            return ReadLetters(run.position, messages, reason, run.time_ms)
        return None

    def _thread_has_read(self) -> None:
        """Take the data that a thread has read. They exist during this call only."""
        self._is_reading = False
        self._read = self._read or self._next()
        if not self._is_reading:
            self._has_read()


def _nothing() -> None:
    """No member leads."""
