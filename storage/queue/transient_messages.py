"""The count of a durable queue's messages that are not persistent."""

from collections.abc import Iterable

from leveret.storage.messages.message import Entry


class TransientMessages:
    """Messages that are not persistent. count: ready or unacked. size: the bytes of bodies."""

    __slots__ = ("count", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0

    def forget(self, entries: Iterable[Entry]) -> None:
        """Subtract those of gone entries that are not persistent."""
        for entry in entries:
            if not entry.message.header.is_persistent:
                self.count -= 1
                self.size -= len(entry.message.body)

    def keep_only(self, entries: Iterable[Entry]) -> None:
        """Recount from these entries: all others are gone, an unknown number of them on disk."""
        self.count = self.size = 0
        for entry in entries:
            if not entry.message.header.is_persistent:
                self.count += 1
                self.size += len(entry.message.body)
