"""The messages of a durable queue that are not persistent, counted as they come and go."""

from collections.abc import Iterable

from leveret.storage.message import Entry


class TransientMessages:
    """count: how many are ready or unacked. size: the bytes of their bodies."""

    __slots__ = ("count", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0

    def forget(self, entries: Iterable[Entry]) -> None:
        """Entries are gone: subtract those that are not persistent."""
        for entry in entries:
            if not entry.message.header.is_persistent:
                self.count -= 1
                self.size -= len(entry.message.body)

    def keep_only(self, entries: Iterable[Entry]) -> None:
        """All entries but these are gone. It is not known how many of those on disk counted."""
        self.count = self.size = 0
        for entry in entries:
            if not entry.message.header.is_persistent:
                self.count += 1
                self.size += len(entry.message.body)
