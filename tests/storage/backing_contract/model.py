"""The contract as a model: messages in two dicts, by their positions."""

from dataclasses import dataclass

from leveret.storage.messages.message import ENTRY_BYTES, Entry


@dataclass
class Held:
    """One message that the queue holds.

    was_taken: it was taken out of the middle, so that it may be marked as redelivered after one
    behind it was fetched.
    """

    priority: int
    position: int
    body: bytes
    number: int
    is_persistent: bool
    expires_at_ms: int
    redelivered: bool = False
    was_taken: bool = False


class Model:
    """What the queue must hold. Keys are positions in the whole queue (`position_of`)."""

    def __init__(self) -> None:
        self.ready: dict[int, Held] = {}
        self.unacked: dict[int, Held] = {}
        self.fetched_to: dict[int, int] = {}

    def in_order(self, position: int = 0) -> list[int]:
        return [place for place in sorted(self.ready) if place >= position]

    def take_first(self, count: int) -> dict[int, Held]:
        """The messages that a fetch returns."""
        taken = {place: self.ready.pop(place) for place in self.in_order()[:count]}
        for held in taken.values():
            before = self.fetched_to.get(held.priority, 0)
            self.fetched_to[held.priority] = max(before, held.position + 1)
        return taken

    def requeue(self, places: list[int], redelivered: bool) -> None:
        for place in places:
            held = self.ready[place] = self.unacked.pop(place)
            held.redelivered |= redelivered

    def restart(self) -> None:
        """What is not persistent is lost; what was fetched and not acked comes back."""
        every = {**self.ready, **self.unacked}
        self.unacked.clear()
        self.ready = {place: held for place, held in every.items() if held.is_persistent}
        for held in self.ready.values():
            held.redelivered = held.position < self.fetched_to.get(held.priority, 0)

    def check(self, entry: Entry, place: int, held: Held) -> None:
        """An entry is the one that the model has at this place."""
        assert entry.message.body == held.body, place
        assert entry.position == held.position
        assert entry.message.number == held.number
        assert entry.message.header.is_persistent == held.is_persistent
        assert entry.expires_at_ms == held.expires_at_ms
        if entry.redelivered != held.redelivered:
            assert entry.redelivered
            assert held.was_taken
            assert held.position < self.fetched_to[held.priority]


def bytes_of(held: dict[int, Held]) -> int:
    return sum(len(one.body) for one in held.values())


def memory_bytes(entries: list[Entry]) -> int:
    return sum(len(entry.message.body) + ENTRY_BYTES for entry in entries)
