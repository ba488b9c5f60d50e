"""Adapts the state machine of a stream to the interface for groups (groups/group_machine.py)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from leveret.cluster.streams.machine.chunk_making import ChunkMaker
from leveret.cluster.streams.machine.commands import (
    CommandError,
    Join,
    Publish,
    decode_command,
)
from leveret.cluster.streams.machine.effects import Applied, Effect, UnknownSender
from leveret.cluster.streams.machine.entry_counts import check_publish
from leveret.cluster.streams.machine.filters import BYTES_MIN
from leveret.cluster.streams.machine.questions import answer, needs_current
from leveret.cluster.streams.machine.stream_machine import StreamMachine, restore
from leveret.cluster.streams.machine.tracking import SENDER, decode_records, sender_of
from leveret.storage.stream_groups.stored_state import decode_state
from leveret.storage.stream_log.chunks import ChunkHead, read_head, tracking_of

WINDOW_BYTES: Final = 16 * 1024 * 1024
"""A member acknowledges what it has synced: with 4 MB, a sync of 20 ms would allow 200 MB a second.
The log has as many bytes in memory anyway (stream_log.py)."""


class EffectError(ValueError):
    """The bytes are not effects of this version."""


class StreamGroupMachine:
    """The `GroupMachine` of a stream. stream: the machine itself, which may be ahead of the member.

    next_offset: the offset after the messages that the member has applied. applied: called with
    the number of an entry that was applied. committed: called with the head of a chunk with
    messages, if this member leads. filter_bytes: the size of the filters of new chunks. refused:
    called with a node, and why a command of its client cannot be stored.
    """

    def __init__(self, stream: StreamMachine, next_offset: int) -> None:
        self.stream = stream
        self.next_offset = next_offset
        self.applied: Callable[[int], object] = _nothing
        self.refused: Callable[[str, str], object] = lambda node, reason: None
        self.committed: Callable[[ChunkHead], object] = _untraced
        self.filter_bytes = BYTES_MIN
        self._effects: list[tuple[int, Effect]] = []
        self._maker: ChunkMaker | None = None
        self._maker_term = 0
        self._refused: set[int] = set()
        """The clients that have to begin again: their commands are refused until then."""

    def apply(self, index: int, entry: bytes, collects: bool) -> None:
        """Apply a chunk. Raises ChunkError, TrackingError."""
        head = read_head(entry)
        self.next_offset = head.next_offset
        if index > self.stream.applied:
            tracking = tracking_of(entry, head)
            self.stream.apply(index, head.next_offset, tracking)
            if collects:
                self._tell(tracking, head)
                if head.message_count:
                    self.committed(head)
        self.applied(index)

    def _tell(self, tracking: bytes, head: ChunkHead) -> None:
        for kind, name, number in decode_records(tracking):
            if kind == SENDER:
                sender = sender_of(name)
                applied = Applied(sender, number, head.next_offset, head.message_count)
                self._effects.append((sender, applied))

    def take_effects(self) -> list[tuple[int, Effect]]:
        """The effects since the last call, in order, with their senders."""
        effects, self._effects = self._effects, []
        return effects

    def accepted(self, commands: list[bytes]) -> list[bytes]:
        """The commands before the first one that is damaged.

        Its client begins again under another number, and its publishers are told that what was not
        confirmed may not be stored. Raises CommandError if the bytes are no commands.
        """
        for place, data in enumerate(commands):
            command = decode_command(data)
            if isinstance(command, Join):
                continue  # With it a client that is refused can begin again.
            try:
                if command.sender in self._refused:
                    raise CommandError("it was refused before")
                if isinstance(command, Publish):
                    check_publish(command)
            except CommandError as error:
                self._refuse(command.sender, str(error))
                return commands[:place]
        return commands

    def _refuse(self, sender: int, reason: str) -> None:
        if sender not in self._refused:
            self._refused.add(sender)
            known = self.stream.senders.get(sender)
            self.refused("another node" if known is None else f"node {known.node}", reason)
        self._effects.append((sender, UnknownSender(sender)))

    def entries(self, commands: list[bytes], wall_ms: int, term: int) -> list[bytes]:
        """The chunks of a client's commands. Raises CommandError.

        All that was made in a term is proposed, so the maker goes on from there.
        """
        maker = self._maker
        if maker is None or self._maker_term != term:
            maker = self._maker = ChunkMaker(self.stream, term, self.filter_bytes)
            self._maker_term = term
        return maker.make([decode_command(command) for command in commands], wall_ms)

    def attach(self, sender: int, seen: int, received: Mapping[int, int]) -> list[Effect]:
        """Tell a client which of its commands are done."""
        known = self.stream.senders.get(sender)
        if known is None:
            return [UnknownSender(sender)]
        # A client that is refused learns first which of its commands are in the log.
        is_refused = sender in self._refused and seen >= known.applied
        return [UnknownSender(sender) if is_refused else Applied(sender, known.applied)]

    def took(self, sender: int, consumer: int, octets: int) -> list[Effect]:
        """The leader of a stream delivers nothing."""
        return []

    def snapshot(self) -> Iterator[bytes]:
        """The current state."""
        yield self.stream.snapshot()

    def live(self) -> Sequence[tuple[int, int]]:
        """The state refers to no entries."""
        return ()

    def tick_at_ms(self) -> int:
        """Time changes nothing."""
        return 0

    def tick(self, wall_ms: int) -> bytes:
        """There is none."""
        raise AssertionError("a stream has no ticks")

    def needs_current(self, question: bytes) -> bool:
        """An old sequence number would let a publisher use the next ones again."""
        return needs_current(question)

    def answer(self, question: bytes) -> bytes:
        """Answer a client's question about the state. Raises QuestionError."""
        return answer(self.stream, question)


class StreamGroupMachines:
    """The `MachineKind` of streams."""

    window_bytes: int = WINDOW_BYTES

    def new(self) -> StreamGroupMachine:
        """The machine of a stream without entries."""
        return StreamGroupMachine(StreamMachine(), 0)

    def restore(self, state: bytes) -> Iterator[StreamGroupMachine | None]:
        """Make the machine with this state. Raises StateError."""
        stored = decode_state(state)
        stream = restore(stored.machine)
        offset = stored.head.first_offset if stored.begins_log else stream.next_offset
        yield StreamGroupMachine(stream, offset)

    def entries_of(self, effect: Effect) -> Sequence[int]:
        """No effect needs entries."""
        return ()

    def without_entry(self, effect: Effect, index: int) -> Effect | None:
        """No effect needs entries."""
        return effect

    def needed_parts(
        self, effects: list[Effect], entries: Mapping[int, bytes]
    ) -> tuple[list[Effect], dict[int, bytes]]:
        """No effect needs entries."""
        return effects, {}

    def encode(self, effects: list[Effect]) -> bytes:
        """Effects for a client on another node."""
        return _ENCODER.encode(
            [one if isinstance(one, Applied) else (one.sender, _UNKNOWN, 0, 0) for one in effects]
        )

    def decode(self, data: bytes) -> list[Effect]:
        """The inverse of `encode`. Raises EffectError."""
        try:
            found = _DECODER.decode(data)
        except msgspec.MsgspecError as error:
            raise EffectError(f"the effects of a stream cannot be read: {error}") from error
        return [UnknownSender(one.sender) if one.through == _UNKNOWN else one for one in found]


def _nothing(entry: int) -> None:
    """No client watches the stream here."""


def _untraced(head: ChunkHead) -> None:
    """No client watches the stream here."""


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[Applied])
_UNKNOWN = -1
"""In place of the number of a command, of a sender that is not known."""
