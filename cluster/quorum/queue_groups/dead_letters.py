"""Publishes the dead letters of a quorum queue while its leader is on this node, and traces what
happens to its messages.

With the strategy at-most-once, they are published in order as soon as they are read
(letter_reader.py), and are lost if the node dies before that.

With the strategy at-least-once, the machine keeps them (machine/dead_letters.py), and this module
is the source of their worker (vhost/dead_letters/worker.py). Once a turn the leader proposes an
entry for the letters that all targets have confirmed. A new leader first publishes the letters that
the machine has kept. Letters that were confirmed to an earlier leader, but without an entry, are
published again.
"""

import logging

from leveret.broker.events.taps import DUPLICATE
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.contract.retained_dead_letters import (
    DeadLetterWorker,
    RetainedDeadLetter,
)
from leveret.broker.queues.dead_letters.header import EXPIRED, REJECTED
from leveret.broker.runtime.turns import Actor
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.groups.groups import Groups
from leveret.cluster.quorum.client.quorum_queue_client import QuorumQueueClient
from leveret.cluster.quorum.machine.commands import (
    LettersDone,
    encode_command,
    entry_of,
    intervals_of,
)
from leveret.cluster.quorum.machine.effects import (
    Delayed,
    Dropped,
    Effect,
    LettersDropped,
    PublishDeadLetters,
    RefusedDuplicates,
)
from leveret.cluster.quorum.machine.runs import Run
from leveret.cluster.quorum.queue_groups.letter_reader import REASONS, LetterReader, ReadLetters
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Entry

logger = logging.getLogger("leveret.cluster")

DELAYED = "delayed"
"""The reason for which messages are read that wait for their retry."""


class LeaderDeadLetters:
    """The dead letters of one queue. vhost: the queue's."""

    def __init__(
        self, vhost: QueueOwner, queue: QuorumQueueClient, groups: Groups, addresses: Addresses
    ) -> None:
        self._vhost = vhost
        self._queue = queue
        self._once = LetterReader(addresses)
        self._kept = RetainedLetterSource(vhost, queue, groups, addresses)

    def begin(self, member: GroupMember, kept: list[Effect]) -> None:
        """The node has the leader now. kept: the letters that earlier leaders have left."""
        self.end()
        self._once.begin(member, self._publish)
        self._kept.begin(member, kept)

    def end(self) -> None:
        """The node no longer has the leader, or the queue ends."""
        self._once.end()
        self._kept.end()

    def options_changed(self) -> None:
        """The dead-letter exchange or routing key may have changed."""
        self._kept.options_changed()

    def take(self, effect: Effect) -> None:
        """Carry out an effect of the machine."""
        if isinstance(effect, PublishDeadLetters) and effect.are_kept:
            self._kept.add(effect)
        elif isinstance(effect, PublishDeadLetters):
            self._read(REASONS[effect.reason], effect.runs)
        elif isinstance(effect, Dropped) and self._vhost.tracer is not None:
            # Its messages are read as dead letters, to be traced, and then counted.
            self._read(REASONS[effect.reason], effect.runs)
        elif isinstance(effect, RefusedDuplicates) and self._vhost.tracer is not None:
            self._read(DUPLICATE, effect.runs)
        elif isinstance(effect, Delayed) and self._vhost.tracer is not None:
            self._read(DELAYED, effect.runs)
        elif isinstance(effect, Dropped):
            count = sum([run.count for run in effect.runs])
            self._vhost.note_discarded(self._queue, REASONS[effect.reason], count)
        elif isinstance(effect, LettersDropped):
            self._kept.dropped(effect.count)

    def _read(self, reason: str, runs: list[Run]) -> None:
        self._once.add(reason, runs)
        self._publish()

    def _publish(self) -> None:
        while (letters := self._once.take()) is not None:
            self._trace(letters)
            if letters.reason not in {DUPLICATE, DELAYED}:
                self._vhost.dead_letter(self._queue, letters.messages, letters.reason)

    def _trace(self, letters: ReadLetters) -> None:
        tracer, reason = self._vhost.tracer, letters.reason
        if tracer is None or reason == REJECTED:
            return  # The channel of the consumer has traced a rejected message.
        for message in letters.messages:
            if reason == EXPIRED:
                tracer.expired(self._queue, message)
            elif reason == DELAYED:
                tracer.delayed(self._queue, message, letters.time_ms)
            else:
                tracer.dropped(self._queue, message, reason)


class RetainedLetterSource(Actor):
    """The `DeadLetterSource` of one queue. The worker exists from the first letter on."""

    __slots__ = ("_done", "_groups", "_queue", "_reader", "_taken", "_vhost", "_worker")

    def __init__(
        self, vhost: QueueOwner, queue: QuorumQueueClient, groups: Groups, addresses: Addresses
    ) -> None:
        super().__init__()
        self._vhost = vhost
        self._queue = queue
        self._groups = groups
        self._reader = LetterReader(addresses)
        self._worker: DeadLetterWorker | None = None
        self._taken: ReadLetters | None = None
        self._done: list[int] = []

    def __repr__(self) -> str:
        return f"the retained dead letters of {self._queue!r}"

    # The leader

    def begin(self, member: GroupMember, letters: list[Effect]) -> None:
        """The node has the leader now. letters: those that earlier leaders have left."""
        self._reader.begin(member, self._has_read)
        for one in letters:
            assert isinstance(one, PublishDeadLetters), "a machine keeps letters"
            self._reader.add(REASONS[one.reason], one.runs)
        if letters:
            self._wake()

    def end(self) -> None:
        """The node no longer has the leader. The next leader publishes unsettled letters."""
        self._reader.end()
        self._forget()
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def add(self, letters: PublishDeadLetters) -> None:
        """Add the letters of messages that have died."""
        count = sum([run.count for run in letters.runs])
        self._vhost.note_kept(self._queue, REASONS[letters.reason], count)
        self._reader.add(REASONS[letters.reason], letters.runs)
        self._wake()

    def options_changed(self) -> None:
        """The dead-letter exchange or routing key may have changed."""
        if self._worker is not None:
            self._worker.look_again()

    def dropped(self, count: int) -> None:
        """The machine has dropped all letters, because the strategy has changed."""
        logger.info(
            "%r no longer retains dead letters: its %d retained ones are dropped",
            self._queue, count,
        )  # fmt: skip
        self._forget()
        if self._worker is not None:
            self._worker.forget()

    def _forget(self) -> None:
        self._reader.clear()
        self._taken = None
        self._done.clear()

    def _wake(self) -> None:
        if self._worker is None:
            self._worker = self._vhost.make_dead_letter_worker(self._queue, self)
        self._worker.wake()

    def _has_read(self) -> None:
        if self._worker is not None:
            self._worker.wake()

    def take_turn(self) -> None:
        """Propose an entry for the letters that were confirmed."""
        done, self._done = sorted(self._done), []
        member = self._reader.member
        if done and member is not None:
            entry = encode_command(LettersDone(intervals_of(done)))
            member.propose_entries([entry_of(entry, self._groups.wall_ms())])

    # The worker

    @property
    def has_ready(self) -> bool:
        """Whether there are letters that were not taken."""
        return self._taken is not None or self._reader.has_letters

    def take(self) -> RetainedDeadLetter | None:
        """The next letter; None if there is none, or a thread has to read it first."""
        taken = self._taken or self._reader.take()
        if taken is None:
            return None
        message = taken.messages.pop(0)
        self._taken = taken._replace(position=taken.position + 1) if taken.messages else None
        return RetainedDeadLetter(Entry(message, taken.position), message, taken.reason)

    def settle(self, letter: RetainedDeadLetter) -> None:
        """All targets of a taken letter have confirmed it."""
        self._done.append(letter.entry.position)
        self._vhost.turns.wake(self)
