"""The state of a quorum queue as bytes, in pieces, and from bytes.

    snapshot   version u8, length of the head u32, head, for each block: length u32, packed runs

The head is msgpack (`_Head`). The blocks are all runs of messages, in the order in which the head
counts them: the queues of ready messages, delayed messages, dead letters by reason, and the
messages that each consumer holds. A queue that refuses duplicates has blocks of identifiers after
these, in msgpack. A block has at most `BLOCK_RUNS` runs, so that a snapshot is
written and read in short steps. A restored queue is the same in all respects: its own snapshot
has the same bytes. A million messages that were published one by one take about 16 MB. Until these
are written, the snapshot shares them with the queue.
"""

from collections.abc import Iterator
from itertools import islice
from struct import Struct
from struct import error as StructError
from typing import Final, TypeVar

import msgspec

from leveret.broker.queues.deduplication.identifiers import Known
from leveret.cluster.quorum.machine.commands import Options
from leveret.cluster.quorum.machine.consumers import ConsumerState
from leveret.cluster.quorum.machine.delayed_messages import DelayedRuns, chunks
from leveret.cluster.quorum.machine.effects import Outcome, Result
from leveret.cluster.quorum.machine.held_runs import OrderedRuns
from leveret.cluster.quorum.machine.packed_runs import PackedRunsError, pack_runs, unpack_runs
from leveret.cluster.quorum.machine.quorum_machine import QuorumMachine
from leveret.cluster.quorum.machine.ready_messages import Level
from leveret.cluster.quorum.machine.run_queue import BLOCK_RUNS
from leveret.cluster.quorum.machine.runs import Run
from leveret.cluster.quorum.machine.senders import Sender

VERSION: Final = 2
_WITH_IDENTIFIERS: Final = 3
"""The version of a queue that knows identifiers: after the runs, there are blocks of them. Older
nodes do not read it, and take no messages with identifiers."""
BLOCK_IDENTIFIERS: Final = 2048
_ONE_BLOCK_EACH: Final = 1
"""In this version, delayed messages, letters and held messages have a block each."""
_START: Final = Struct("<BI")
_LENGTH: Final = Struct("<I")

Part = TypeVar("Part")


class SnapshotError(ValueError):
    """The bytes are not a snapshot of this version."""


class _Consumer(msgspec.Struct, array_like=True):
    number: int
    tag: str
    credit: int
    priority: int
    no_ack: bool
    timeout_ms: int
    details: bytes
    is_once: bool
    is_cancelled: bool
    is_away: bool
    delivered: int
    timed_out: list[int]


class _KeptResult(msgspec.Struct, array_like=True):
    number: int
    outcome: Outcome
    value: int
    refused: list[int]


class _Sender(msgspec.Struct, array_like=True):
    sender: int
    node: str
    incarnation: int
    applied: int
    is_away: bool
    has_ended: bool
    results: list[_KeptResult]
    consumers: list[_Consumer]


class _Head(msgspec.Struct, array_like=True):
    """Everything except runs. A list of consumers has the sender and the number of each in turn.

    queues: how many blocks each queue of ready messages has; the first queue is of returned ones.
    others: how many blocks the delayed messages have, the letters of each reason, and the messages
    that each consumer holds; None: one each. identifiers: how many blocks the known ones have.
    """

    applied: int
    options: Options
    now_ms: int
    used_ms: int
    checked_ms: int
    position: int
    is_refusing: bool
    taken: int
    died: int
    ended: list[tuple[str, int]]
    senders: list[_Sender]
    subscribed: list[int]
    in_service: list[int]
    active: list[int]
    levels: list[int]
    queues: list[int]
    others: list[int] | None = None
    identifiers: int = 0


class _Identifier(msgspec.Struct, array_like=True):
    key: bytes
    expires_at_ms: int
    is_present: bool
    position: int


class QueueSnapshot:
    """The state at one moment, which is written while the queue continues."""

    __slots__ = ("_blocks", "_head", "_identifiers", "_runs", "_version")

    def __init__(self, machine: QuorumMachine) -> None:
        ready = machine.messages.ready
        queues = [queue.pieces() for queue in ready.queues()]
        self._blocks = [block for pieces in queues for block in pieces]
        self._runs = list(_runs_beside_ready(machine))
        others = [-(-sum([len(runs) for runs in lists]) // BLOCK_RUNS) for lists in self._runs]
        known = machine.messages.identifiers
        self._identifiers = [] if known is None else known.items()
        self._version = _WITH_IDENTIFIERS if self._identifiers else VERSION
        head = _head_of(machine, [len(pieces) for pieces in queues], others)
        head.identifiers = -(-len(self._identifiers) // BLOCK_IDENTIFIERS)
        self._head = _ENCODER.encode(head)

    def pieces(self) -> Iterator[bytes]:
        """The bytes, in pieces of some kilobytes."""
        yield _START.pack(self._version, len(self._head)) + self._head
        for block in self._blocks:
            yield _LENGTH.pack(len(block)) + block
        for lists in self._runs:
            for runs in chunks(lists, BLOCK_RUNS):
                block = pack_runs(runs)
                yield _LENGTH.pack(len(block)) + block
        for at in range(0, len(self._identifiers), BLOCK_IDENTIFIERS):
            part = self._identifiers[at : at + BLOCK_IDENTIFIERS]
            block = _ENCODER.encode([_Identifier(key, *known) for key, known in part])
            yield _LENGTH.pack(len(block)) + block


def snapshot(machine: QuorumMachine) -> bytes:
    """Encode the state of a machine."""
    return b"".join(QueueSnapshot(machine).pieces())


def restore(data: bytes) -> QuorumMachine:
    """The machine with the state of a snapshot. Raises SnapshotError."""
    return next(machine for machine in restored_in_steps(data) if machine is not None)


def restored_in_steps(data: bytes) -> Iterator[QuorumMachine | None]:
    """Make the machine with the state of a snapshot, in steps that take less than a millisecond.

    Yields None after each step, and the machine after the last one. Raises SnapshotError.
    """
    try:
        version, length = _START.unpack_from(data)
        if version not in {VERSION, _ONE_BLOCK_EACH, _WITH_IDENTIFIERS}:
            raise SnapshotError(
                f"a snapshot of a quorum queue is of version {version}; this node reads "
                f"{_WITH_IDENTIFIERS}: update it"
            )
        head = _DECODER.decode(memoryview(data)[_START.size : _START.size + length])
        blocks = iter(_blocks_of(data, _START.size + length))
        machine = QuorumMachine(head.options)
        for _ in _restore_messages(machine, head, blocks):
            yield None
        for block in _next(blocks, head.identifiers):
            _restore_identifiers(machine, block)
            yield None
        if next(blocks, None) is not None:
            raise SnapshotError("a snapshot of a quorum queue has more than the queue")
        _restore_consumers(machine, head)
        yield machine
    except (
        StructError, msgspec.MsgspecError, UnicodeDecodeError, PackedRunsError, LookupError,
    ) as error:  # fmt: skip
        raise SnapshotError(f"a snapshot of a quorum queue is damaged: {error}") from error


def _blocks_of(data: bytes, at: int) -> list[bytes]:
    blocks: list[bytes] = []
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        blocks.append(data[at : at + length])
        if len(blocks[-1]) < length:
            raise SnapshotError("a snapshot of a quorum queue is cut off")
        at += length
    return blocks


def _head_of(machine: QuorumMachine, queues: list[int], others: list[int]) -> _Head:
    messages, consumers = machine.messages, machine.messages.consumers
    active = [consumers.active] if consumers.active is not None else []
    return _Head(
        machine.applied, messages.options, messages.now_ms, machine.used_ms, machine.checked_ms,
        messages.position, messages.is_refusing, messages.ready.taken, messages.letters.died,
        sorted(machine.senders.ended.items()),
        [_sender_of(sender) for sender in machine.senders.known.values()],
        _names(consumers.subscribed), _names(consumers.in_service()), _names(active),
        [level.level for level in messages.ready.levels], queues, others,
    )  # fmt: skip


def _names(consumers: list[ConsumerState]) -> list[int]:
    return [number for consumer in consumers for number in (consumer.sender, consumer.number)]


def _sender_of(sender: Sender) -> _Sender:
    return _Sender(
        sender.sender, sender.node, sender.incarnation, sender.applied, sender.is_away,
        sender.has_ended,
        [
            _KeptResult(one.number, one.outcome, one.value, list(one.refused))
            for one in sender.results
        ],
        [
            _Consumer(
                one.number, one.tag, one.credit, one.priority, one.no_ack, one.timeout_ms,
                one.details, one.is_once, one.is_cancelled, one.is_away, one.delivered,
                one.timed_out,
            )
            for one in sender.consumers.values()
        ],
    )  # fmt: skip


def _runs_beside_ready(machine: QuorumMachine) -> Iterator[list[list[Run]]]:
    """Delayed messages, dead letters and held messages. The runs are not changed (QM11), so copies
    of the lists suffice; very many delayed ones are not copied either.
    """
    yield machine.messages.delayed.shared()
    for held in machine.messages.letters.by_reason:
        yield [held.runs.copy()]
    for sender in machine.senders.known.values():
        for consumer in sender.consumers.values():
            yield [consumer.held.runs.copy()]


def _restore_messages(
    machine: QuorumMachine, head: _Head, blocks: Iterator[bytes]
) -> Iterator[None]:
    machine.applied, machine.used_ms, machine.checked_ms = (
        head.applied, head.used_ms, head.checked_ms,
    )  # fmt: skip
    messages = machine.messages
    messages.now_ms, messages.position = head.now_ms, head.position
    messages.is_refusing = head.is_refusing
    yield from _restore_ready(machine, head, blocks)
    messages.letters.died = head.died
    machine.senders.known = {stored.sender: _restored_sender(stored) for stored in head.senders}
    machine.senders.ended = dict(head.ended)
    holders = [
        consumer.held
        for sender in machine.senders.known.values()
        for consumer in sender.consumers.values()
    ]
    parts: list[DelayedRuns | OrderedRuns] = [messages.delayed, *messages.letters.by_reason]
    parts += holders
    counts = [1] * len(parts) if head.others is None else head.others
    for part, count in _counted(parts, counts):
        for block in _next(blocks, count):
            for run in unpack_runs(block):
                part.add(run)
            yield
    for held in holders:
        messages.held_count += held.count
        messages.held_bytes += held.bytes


def _restore_identifiers(machine: QuorumMachine, block: bytes) -> None:
    known = machine.messages.identifiers
    if known is None:
        raise SnapshotError("a snapshot of a quorum queue that takes duplicates has identifiers")
    known.restore([
        (one.key, Known(one.expires_at_ms, one.is_present, one.position))
        for one in _IDENTIFIERS.decode(block)
    ])  # fmt: skip


def _restore_ready(machine: QuorumMachine, head: _Head, blocks: Iterator[bytes]) -> Iterator[None]:
    ready = machine.messages.ready
    ready.levels = [Level(level) for level in head.levels]
    ready.taken = head.taken
    for queue, count in _counted(ready.queues(), head.queues):
        yield from queue.restore(_next(blocks, count))
        ready.count += queue.count
        ready.bytes += queue.bytes
        ready.expiring += queue.expiring


def _counted(parts: list[Part], counts: list[int]) -> Iterator[tuple[Part, int]]:
    if len(parts) != len(counts):
        raise SnapshotError("a snapshot of a quorum queue does not have all of its messages")
    return zip(parts, counts, strict=True)


def _next(blocks: Iterator[bytes], count: int) -> list[bytes]:
    taken = list(islice(blocks, max(0, count)))
    if len(taken) != count:
        raise SnapshotError("a snapshot of a quorum queue is cut off")
    return taken


def _restored_sender(stored: _Sender) -> Sender:
    sender = Sender(stored.sender, stored.node, stored.incarnation)
    sender.applied, sender.is_away = stored.applied, stored.is_away
    sender.has_ended = stored.has_ended
    sender.results = [
        Result(stored.sender, one.number, one.outcome, one.value, tuple(one.refused))
        for one in stored.results
    ]
    for one in stored.consumers:
        consumer = ConsumerState(
            stored.sender, one.number, one.tag, one.credit, one.priority, one.no_ack,
            one.timeout_ms, one.details, one.is_once,
        )  # fmt: skip
        consumer.is_cancelled, consumer.is_away = one.is_cancelled, one.is_away
        consumer.delivered, consumer.timed_out = one.delivered, one.timed_out
        sender.consumers[one.number] = consumer
    return sender


def _restore_consumers(machine: QuorumMachine, head: _Head) -> None:
    def named(names: list[int]) -> list[ConsumerState]:
        known = machine.senders.known
        return [
            known[names[at]].consumers[names[at + 1]] for at in range(0, len(names), 2)
        ]  # fmt: skip

    consumers = machine.messages.consumers
    consumers.subscribed = named(head.subscribed)
    active = named(head.active)
    consumers.active = active[0] if active else None
    consumers.restore_service(named(head.in_service))
    machine.find_timeout()


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[_Head] = msgspec.msgpack.Decoder(_Head)
_IDENTIFIERS: msgspec.msgpack.Decoder[list[_Identifier]] = msgspec.msgpack.Decoder(
    list[_Identifier]
)
