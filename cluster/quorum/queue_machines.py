"""Adapts the state machine of a queue to the interface for groups (groups/group_machine.py)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from leveret.broker.queues.contract.demand import Demand
from leveret.broker.queues.delivery.age import Ages
from leveret.cluster.quorum.delivery_windows import DeliveryWindows
from leveret.cluster.quorum.effect_bytes import decode_effects, encode_effects
from leveret.cluster.quorum.entry_parts import needed_parts
from leveret.cluster.quorum.machine.commands import (
    RUN_FIELDS,
    ClientCommand,
    CommandError,
    Enqueue,
    Expire,
    Tick,
    decode_entry,
    encode_command,
    entry_of,
    is_publish,
)
from leveret.cluster.quorum.machine.effects import Deliver, Effect, Effects, ForClient
from leveret.cluster.quorum.machine.figures import MachineFigures, figures
from leveret.cluster.quorum.machine.quorum_machine import QuorumMachine
from leveret.cluster.quorum.machine.runs import Run
from leveret.cluster.quorum.machine.snapshots import QueueSnapshot, restored_in_steps
from leveret.cluster.raft.entry_log import WINDOW_BYTES

FOR_THE_LEADER = 0
MESSAGE_BYTES_MIN: Final = 5
"""The flags and the length of a message in a run (remote_queues/message_runs.py)."""
FIGURES = b"figures"
"""A client's request for `MachineFigures`."""


def never() -> bool:
    """Messages expire at the head only."""
    return False


class FiguresError(ValueError):
    """The bytes are not figures of this version."""


class QueueMachine:
    """The `GroupMachine` of a queue. queue: the machine itself. expires_on_time: whether messages
    expire wherever they are in the queue, while this member leads.

    The ages of messages are known to every member, from the times of entries. Messages that were
    published before a snapshot count from its time.
    """

    def __init__(self, queue: QuorumMachine) -> None:
        self.queue = queue
        self._ages = Ages(queue.messages.now_ms)
        self._effects = Effects()
        self._demand: Demand | None = None
        self.expires_on_time: Callable[[], bool] = never
        self._windows = DeliveryWindows(queue)

    def apply(self, index: int, entry: bytes, collects: bool) -> None:
        """Apply an entry. Raises CommandError. collects: effects are taken next."""
        messages = self.queue.messages
        position = messages.position
        self.queue.apply(index, entry, self._effects if collects else None)
        if messages.position != position and messages.now_ms != self._ages.marked_ms:
            self._ages.mark(messages.now_ms, position)

    def watch(self, demand: Demand | None) -> None:
        """Keep this demand up to date while this member leads."""
        self._demand = demand
        self._look_at_demand()

    def _look_at_demand(self) -> None:
        if self._demand is not None:
            messages = self.queue.messages
            self._demand.look(messages.ready.count, messages.consumers)

    def take_effects(self) -> list[tuple[int, Effect]]:
        """The effects since the last call, in order, with their senders."""
        if self._demand is not None:
            self._look_at_demand()
        effects = self._effects.take()
        for effect in effects:
            if isinstance(effect, Deliver):
                self._note_waits(effect.runs)
        return [
            (effect.sender if isinstance(effect, ForClient) else FOR_THE_LEADER, effect)
            for effect in self._windows.admitted(effects)
        ]

    def _note_waits(self, runs: list[Run]) -> None:
        """Count how long messages have waited that are delivered for the first time."""
        now_ms = self.queue.messages.now_ms
        for run in runs:
            if not run.returns:
                self._ages.delivered(run.position, run.count, now_ms)

    def accepted(self, commands: list[bytes]) -> list[bytes]:
        """All of another node's. Raises CommandError if one is damaged, or is not of a client."""
        for command in commands:
            _check(entry_of(command, 0))
        return commands

    def entries(self, commands: list[bytes], wall_ms: int, term: int) -> list[bytes]:
        """The entries of a client's commands. Raises CommandError."""
        return [self.entry(command, wall_ms) for command in commands]

    def entry(self, command: bytes, wall_ms: int) -> bytes:
        """The entry of a client's command. Raises CommandError.

        Publishes are not checked again: `accepted` has checked those of other nodes, and those of
        this node were encoded here. Decoding them takes as long as applying a part of them.
        """
        entry = entry_of(command, wall_ms)
        if not is_publish(command):
            _check(entry)
        return entry

    def attach(self, sender: int, seen: int, received: Mapping[int, int]) -> list[Effect]:
        """The effects that a client lacks."""
        self._windows.begin(sender)
        return self._windows.admitted(self.queue.attach(sender, seen, received))

    def took(self, sender: int, consumer: int, octets: int) -> list[Effect]:
        """A consumer was handed messages of this size; returns what is sent to it now."""
        return self._windows.took(sender, consumer, octets)

    def snapshot(self) -> Iterator[bytes]:
        """The current state, in pieces."""
        return QueueSnapshot(self.queue).pieces()

    def live(self) -> Sequence[tuple[int, int]]:
        """Runs of the entries that the state refers to: the first and the last one of each."""
        intervals = self.queue.live()
        return [(intervals[at], intervals[at + 1]) for at in range(0, len(intervals), 2)]

    def tick_at_ms(self) -> int:
        """When the leader has to propose a tick; 0 if time changes nothing."""
        wake_at_ms = self.queue.wake_at_ms()
        if self.expires_on_time():
            expire_at_ms = self.queue.expire_at_ms()
            if expire_at_ms and not 0 < wake_at_ms <= expire_at_ms:
                return expire_at_ms
        return wake_at_ms

    def tick(self, wall_ms: int) -> bytes:
        """The entry of a tick."""
        command = Tick()
        if self.expires_on_time() and 0 < self.queue.expire_at_ms() <= wall_ms:
            command = Expire()
        return entry_of(encode_command(command), wall_ms)

    def needs_current(self, question: bytes) -> bool:
        """Figures may be a little old."""
        return False

    def answer(self, question: bytes) -> bytes:
        """Answer a request for figures. Raises ValueError for another request."""
        if question != FIGURES:
            raise ValueError(f"a client of a quorum queue asks {question[:20]!r}")
        return msgspec.msgpack.encode(self.figures())

    def figures(self) -> MachineFigures:
        """The figures of the queue."""
        ready, ages = self.queue.messages.ready, self._ages
        heads = [one.head for one in (ready.returned, *[level.queue for level in ready.levels])]
        first = min([run.position for run in heads if run is not None], default=0)
        return msgspec.structs.replace(
            figures(self.queue),
            oldest_ready_ms=ages.marked_ms - ages.age_ms(first, ages.marked_ms) if first else 0,
            waited_counts=tuple(ages.counts),
            waited_ms=ages.sum_ms,
            expires_on_time=self.expires_on_time(),
        )


class QueueMachines:
    """The `MachineKind` of quorum queues."""

    window_bytes: int = WINDOW_BYTES

    def new(self) -> QueueMachine:
        """The machine of a group without entries."""
        return QueueMachine(QuorumMachine())

    def restore(self, state: bytes) -> Iterator[QueueMachine | None]:
        """Make the machine with this state, in short steps. Raises SnapshotError."""
        for queue in restored_in_steps(state):
            yield None if queue is None else QueueMachine(queue)

    def entries_of(self, effect: Effect) -> Sequence[int]:
        """The indexes of the entries that a client needs for an effect."""
        return [run.index for run in effect.runs] if isinstance(effect, Deliver) else ()

    def without_entry(self, effect: Effect, index: int) -> Effect | None:
        """A delivery without the messages of one entry; None if no others are left."""
        if not isinstance(effect, Deliver):
            return None
        runs = [run for run in effect.runs if run.index != index]
        return Deliver(effect.sender, effect.consumer, runs) if runs else None

    def needed_parts(
        self, effects: list[Effect], entries: Mapping[int, bytes]
    ) -> tuple[list[Effect], dict[int, bytes]]:
        """The parts of entries that a client on another node needs (entry_parts.py)."""
        return needed_parts(effects, entries)

    def encode(self, effects: list[Effect]) -> bytes:
        """Encode effects for a client."""
        return encode_effects(effects)

    def decode(self, data: bytes) -> list[Effect]:
        """The inverse of `encode`. Raises EffectError."""
        return decode_effects(data)


def _check(entry: bytes) -> None:
    """Check the entry of a client's command. Raises CommandError."""
    decoded = decode_entry(entry)
    if isinstance(decoded.command, Enqueue):
        _check_size(decoded.command.runs, len(entry) - decoded.messages_at)
    elif not isinstance(decoded.command, ClientCommand):
        raise CommandError("a client of a quorum queue has sent a command of leaders")


def _check_size(runs: list[int], octets: int) -> None:
    """Check that this many bytes can contain the messages of a publish. Raises CommandError.

    Messages that differ have a run each, so this is here, where it is compiled.
    """
    needed = 0
    for at in range(0, len(runs), RUN_FIELDS):
        needed += runs[at] * (MESSAGE_BYTES_MIN + runs[at + 1])
    if needed > octets:
        raise CommandError(
            f"the messages of a publish to a quorum queue need {needed} bytes, and it has {octets}"
        )


def decode_figures(data: bytes) -> MachineFigures:
    """Decode the answer to `FIGURES`. Raises FiguresError."""
    try:
        return msgspec.msgpack.decode(data, type=MachineFigures)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FiguresError(f"the figures of a quorum queue are damaged: {error}") from error
