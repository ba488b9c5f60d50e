"""The interface of the state machine that a group runs: all members apply the same entries.

The service knows nothing else about the machine. An *effect* is something that the leader has to do
after an entry, either for a client, identified by its sender, or for the leader's node (sender 0).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

Effect: TypeAlias = Any
FOR_THE_LEADER = 0


class GroupMachine(Protocol):
    """The machine of one member. All times are wall-clock times."""

    def apply(self, index: int, entry: bytes, collects: bool) -> None:
        """Apply an entry. collects: this member is the leader, and `take_effects` is called next.

        Raises ValueError if the entry cannot be applied by this version.
        """

    def take_effects(self) -> list[tuple[int, Effect]]:
        """The effects since the last call, in order, with their senders. Each needs few entries."""

    def accepted(self, commands: list[bytes]) -> list[bytes]:
        """The commands of a client on another node that may be proposed.

        An effect tells the client of refused ones. Raises ValueError if the bytes are
        no commands.
        """

    def entries(self, commands: list[bytes], wall_ms: int, term: int) -> list[bytes]:
        """The entries of a client's commands, which are proposed in this term, at once.

        Raises ValueError if a command is damaged.
        """

    def attach(self, sender: int, seen: int, received: Mapping[int, int]) -> list[Effect]:
        """The effects that a client lacks when it attaches."""

    def took(self, sender: int, consumer: int, octets: int) -> list[Effect]:
        """A client has handed messages of this size to a consumer; returns the effects for it."""

    def snapshot(self) -> Iterator[bytes]:
        """The current state, in small pieces. Entries may be applied between them."""

    def live(self) -> Sequence[tuple[int, int]]:
        """Runs of the entries that the state refers to: the first and the last one of each."""

    def tick_at_ms(self) -> int:
        """The time when the leader has to propose a tick; 0 if time changes nothing."""

    def tick(self, wall_ms: int) -> bytes:
        """The entry of a tick."""

    def needs_current(self, question: bytes) -> bool:
        """Whether the answer has to know all that was confirmed before the question was asked."""

    def answer(self, question: bytes) -> bytes:
        """Answer a client's request that needs no entry. Raises ValueError."""


class MachineKind(Protocol):
    """Makes machines, and encodes their effects for other nodes.

    window_bytes: how much a leader sends to a member without an acknowledgement.
    """

    window_bytes: int

    def new(self) -> GroupMachine:
        """The machine of a group without entries."""

    def restore(self, state: bytes) -> Iterator[GroupMachine | None]:
        """Make the machine with this state, in short steps. Raises ValueError.

        Yields None after each step, and the machine after the last one.
        """

    def entries_of(self, effect: Effect) -> Sequence[int]:
        """The indexes of the entries that a client needs for an effect."""

    def without_entry(self, effect: Effect, index: int) -> Effect | None:
        """An effect without the parts that refer to an entry; None if nothing is left."""

    def needed_parts(
        self, effects: list[Effect], entries: Mapping[int, bytes]
    ) -> tuple[list[Effect], dict[int, bytes]]:
        """The parts of entries that a client on another node needs, and effects that match them."""

    def encode(self, effects: list[Effect]) -> bytes:
        """Effects as bytes."""

    def decode(self, data: bytes) -> list[Effect]:
        """The inverse of `encode`. Raises ValueError."""


class GroupUser(Protocol):
    """A client of a group on this node, such as the client of a queue."""

    def leader_found(self) -> None:
        """Attach to the leader, which is known now."""

    def leader_lost(self) -> None:
        """The leader is lost, and all messages on the way to it and from it."""

    def told(self, session: int, effects: list[Effect], entries: Mapping[int, bytes]) -> None:
        """Take effects for this client, with the entries that they need."""
