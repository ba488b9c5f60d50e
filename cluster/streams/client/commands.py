"""The commands of a node's client of a stream (machine/commands), and what happens on the outcome.

A command's bytes are kept until it is in the log of a majority (numbered_commands.py), so they are
sent again to the next leader. A command of the next sender has the same bytes after its head.
"""

from collections.abc import Callable, Sequence
from typing import Final

from leveret.broker.queues.contract.publication import Publisher
from leveret.cluster.replicated_queues.client.numbered_command import NumberedCommand
from leveret.cluster.replicated_queues.client.sender_numbers import SenderNumbers
from leveret.cluster.replicated_queues.client.unapplied_hold import UnappliedHold
from leveret.cluster.streams.machine import commands

ENTRY_BYTES: Final = 100
"""The approximate memory of an entry, besides its bytes, until it is in the log."""

Confirmed = Callable[[bool], object]


class JoinStream(NumberedCommand):
    """The first command of a sender. node: this one."""

    __slots__ = ("_node",)

    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node

    def encode(self, sender: int, seen: int) -> bytes:
        """Encode the command."""
        return commands.encode_command(commands.Join(sender, self.number, self._node))

    def sender_ended(self) -> bool:
        """The next sender has its own first command."""
        return False


class StreamSenders:
    """The senders of a node's client of a stream."""

    __slots__ = ("_numbers",)

    def __init__(self, numbers: SenderNumbers) -> None:
        self._numbers = numbers

    def next_number(self) -> int:
        """The number of the next sender."""
        return self._numbers.next_number()

    def join(self) -> JoinStream:
        """The first command of a sender."""
        return JoinStream(self._numbers.node)


class KeepOffset(NumberedCommand):
    """Stores the offset of a consumer under a name.

    stored, waiting: called when the offset is in the log.
    """

    __slots__ = ("_stored", "name", "offset", "waiting")

    def __init__(self, name: bytes, offset: int, stored: Callable[["KeepOffset"], object]) -> None:
        super().__init__()
        self.name = name
        self.offset = offset
        self._stored = stored
        self.waiting: list[Callable[[], object]] = []

    def encode(self, sender: int, seen: int) -> bytes:
        """Encode the command."""
        command = commands.StoreOffset(sender, self.number, self.name, self.offset)
        return commands.encode_command(command)

    def applied(self, result: object) -> None:
        """The offset is in the log."""
        self._stored(self)
        for stored in self.waiting:
            stored()


class PublishEntries(NumberedCommand):
    """Appends the entries of one publisher that were gathered in a turn.

    publisher: its name; empty for all publishers without one. size: the approximate memory of the
    command. entry_count, message_count: the numbers of its entries and messages. traced: the
    numbers of messages that are traced, each with the place of the first of them in the command.
    """

    __slots__ = (
        "_confirmed", "_filter_values", "_held", "_hold", "_ids", "_pieces", "entry_count",
        "message_count", "publisher", "size", "traced",
    )  # fmt: skip

    def __init__(self, publisher: bytes, hold: UnappliedHold) -> None:
        super().__init__()
        self.publisher = publisher
        self.entry_count = self.message_count = 0
        self.size = 0
        self._hold = hold
        self._pieces: list[bytes] = []
        self._ids: list[int] = []
        self._filter_values: list[bytes] = []
        self._held: list[tuple[Publisher, int]] = []
        self._confirmed: list[Confirmed] = []
        self.traced: list[tuple[int, list[int]]] = []

    def __repr__(self) -> str:
        return f"<PublishEntries {self.number}>"

    def add(
        self, pieces: Sequence[bytes], size: int, entry_count: int, message_count: int,
        filter_values: Sequence[bytes], ids: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Add entries. pieces: their bytes, `size` in all. filter_values: see `Publish`."""
        if filter_values and not self._filter_values:
            self._filter_values = [b""] * self.entry_count
        if filter_values:
            self._filter_values += filter_values
        elif self._filter_values:
            self._filter_values += [b""] * entry_count
        self._ids += ids
        self._pieces += pieces
        self.entry_count += entry_count
        self.message_count += message_count
        size += ENTRY_BYTES * entry_count
        self.size += size
        self._hold.published(size)

    def hold(self, publisher: Publisher, first: int, count: int) -> None:
        """Confirm the last messages to a publisher. first: its number of the first one."""
        publisher.hold(first, count, self)
        self._held.append((publisher, first))

    def then(self, confirmed: Confirmed) -> None:
        """Call this when the last entries are confirmed, with False if they never will be."""
        self._confirmed.append(confirmed)

    def encode(self, sender: int, seen: int) -> bytes:
        """Encode the command, with its entries once."""
        if self.payload:
            return commands.renumbered(self.payload, sender, self.number)
        pieces, self._pieces = self._pieces, []
        command = commands.Publish(
            sender, self.number, self.publisher, tuple(self._ids), tuple(self._filter_values),
            self.entry_count, self.message_count, pieces,
        )  # fmt: skip
        self._ids, self._filter_values = [], []
        return commands.encode_command(command)

    def applied(self, result: object) -> None:
        """The entries are in the log, or were there before."""
        held, self._held = self._held, []
        for publisher, first in held:
            publisher.confirm(first, self)
        confirmed, self._confirmed = self._confirmed, []
        for confirm in confirmed:
            confirm(True)
        self._hold.applied(self.size)

    def sender_forgotten(self) -> bool:
        """It is unknown whether the entries are in the log: publishers may send them again."""
        self._end(is_settled=False)
        return False

    def queue_ended(self, error: Exception, is_deleted: bool) -> None:
        """Messages to a deleted queue are confirmed; those of a node that stops are refused."""
        self._end(is_deleted)

    def _end(self, is_settled: bool) -> None:
        held, self._held = self._held, []
        for publisher in dict.fromkeys(publisher for publisher, _ in held):
            publisher.holder_died(self, is_settled)
        confirmed, self._confirmed = self._confirmed, []
        for confirm in confirmed:
            confirm(False)
        self._hold.applied(self.size)
