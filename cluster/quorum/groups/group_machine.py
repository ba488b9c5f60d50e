"""What a group runs: a state machine whose members apply the same entries alike.

The service knows no more of it. An *effect* is what a leader has to do after an entry: for a
client, who is named by its sender, or for the node that leads (sender 0).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

Effect: TypeAlias = Any
FOR_THE_LEADER = 0


class GroupMachine(Protocol):
    """The machine of one member. Times are of the wall clock."""

    def apply(self, index: int, entry: bytes, collects: bool) -> None:
        """Apply an entry. collects: this member leads, and effects are taken next.

        Raises ValueError if the entry cannot be applied by this version.
        """

    def take_effects(self) -> list[tuple[int, Effect]]:
        """The effects since the last call, in order, with their senders. Few entries each."""

    def entry(self, command: bytes, wall_ms: int) -> bytes:
        """The entry of a client's command. Raises ValueError if it is damaged."""

    def attach(self, sender: int, seen: int, received: Mapping[int, int]) -> list[Effect]:
        """What a client lacks."""

    def snapshot(self) -> Iterator[bytes]:
        """The state as of now, in pieces that take little time each: the machine may go on."""

    def live(self) -> Sequence[tuple[int, int]]:
        """Runs of the entries that the state refers to: the first and the last one of each."""

    def tick_at_ms(self) -> int:
        """When the leader has to propose a tick; 0 if time changes nothing."""

    def tick(self, wall_ms: int) -> bytes:
        """The entry of a tick."""

    def answer(self, question: bytes) -> bytes:
        """The answer to a client's question that needs no entry. Raises ValueError."""


class MachineKind(Protocol):
    """Makes machines, and carries their effects to other nodes."""

    def new(self) -> GroupMachine:
        """The machine of a group without entries."""

    def restore(self, state: bytes) -> GroupMachine:
        """The machine with this state. Raises ValueError."""

    def entries_of(self, effect: Effect) -> Sequence[int]:
        """The indexes of the entries that a client needs with an effect."""

    def without_entry(self, effect: Effect, index: int) -> Effect | None:
        """An effect without what refers to an entry; None if there is nothing else in it."""

    def needed_parts(
        self, effects: list[Effect], entries: Mapping[int, bytes]
    ) -> tuple[list[Effect], dict[int, bytes]]:
        """What a client on another node needs of these entries, and effects that fit."""

    def encode(self, effects: list[Effect]) -> bytes:
        """Effects as bytes."""

    def decode(self, data: bytes) -> list[Effect]:
        """The inverse of `encode`. Raises ValueError."""


class GroupUser(Protocol):
    """A client of a group on this node, such as that of a queue."""

    def leader_found(self) -> None:
        """A leader is known: attach to it."""

    def leader_lost(self) -> None:
        """The leader is lost, and with it what was on its way to it and from it."""

    def told(self, session: int, effects: list[Effect], entries: Mapping[int, bytes]) -> None:
        """Effects for this client, with the entries that they need."""
