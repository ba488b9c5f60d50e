"""The end of the ordered log, and the views that it went through.

Entries are applied to the registry and then dropped. The node keeps the last entries, for nodes
that return soon, and the index at which each of the last views began. A view's coordinator orders
entries one after the other, and no other node orders any under the view's name, so two logs that
have the same entry at an index are equal up to it (V2). So a position, which names a view and an
index, shows whether one log is a part of another one, long after the entries are dropped.

    index      1   2   3   4   5   6   7   8
    view       v1  v1  v1  v1  v4  v4  v6  v6      v5 began at 7, and ordered nothing
    starts     (v1, 1) (v4, 5) (v5, 7) (v6, 7)
    kept                           6   7   8       entries_max is 3
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence

from leveret.cluster.metadata.messages import NO_VIEW, LogEntry, MetadataPosition, ViewId, ViewStart

STARTS_MAX = 1000
"""Views whose beginnings are kept. A node that missed more views fetches everything."""


class OrderedLog:
    """The end of one node's log.

    entries_max: how many entries are kept. last: the index of the last entry; 0 if there is none.
    """

    def __init__(
        self,
        entries_max: int,
        starts: Iterable[ViewStart] = (),
        last: int = 0,
        entries: Iterable[LogEntry] = (),
    ) -> None:
        self._entries: deque[LogEntry] = deque(entries, entries_max)
        self._starts = list(starts)
        self.last = last

    @property
    def position(self) -> MetadataPosition:
        """The end of the log."""
        return MetadataPosition(self.view_at(self.last) or NO_VIEW, self.last)

    @property
    def starts(self) -> tuple[ViewStart, ...]:
        """The last views, the oldest first."""
        return tuple(self._starts)

    @property
    def kept(self) -> Sequence[LogEntry]:
        """The entries that are kept."""
        return self._entries

    def view_at(self, index: int) -> ViewId | None:
        """The view that ordered the entry at an index; None if it is no longer known."""
        return view_at(self._starts, index)

    def contains(self, position: MetadataPosition) -> bool:
        """Whether the log that ends at this position is a part of this one."""
        if position.index == 0:
            return True
        return position.index <= self.last and self.view_at(position.index) == position.view

    def went_through(self, view: ViewId) -> bool:
        """Whether this log's node, or the node that it took the log from, was in the view."""
        return any(start.view == view for start in self._starts)

    def after(self, index: int) -> tuple[LogEntry, ...] | None:
        """The entries after an index, or None if some of them are no longer kept."""
        wanted = self.last - index
        if wanted > len(self._entries):
            return None
        return tuple(self._entries)[len(self._entries) - wanted :] if wanted > 0 else ()

    def would_keep(self, index: int, more: int) -> bool:
        """Whether the entries after an index would still be kept with `more` entries appended."""
        kept = min(len(self._entries) + more, self._entries.maxlen or 0)
        return self.last + more - index <= kept

    def append(self, entry: LogEntry) -> None:
        """Append the next entry."""
        assert entry.index == self.last + 1, f"V3: {entry.index} follows {self.last}"
        if not self._starts or self._starts[-1].view != entry.view:
            self._starts.append(ViewStart(entry.view, entry.index))
        self._entries.append(entry)
        self.last = entry.index

    def begin(self, view: ViewId) -> None:
        """Begin a view after the last entry."""
        self._starts.append(ViewStart(view, self.last + 1))
        del self._starts[:-STARTS_MAX]

    def follow(self, starts: Iterable[ViewStart]) -> None:
        """Take over the views of the coordinator's log, whose end this log now equals."""
        self._starts = list(starts)

    def replace(self, starts: Iterable[ViewStart], last: int) -> None:
        """Replace the log by a snapshot."""
        self._entries.clear()
        self._starts = list(starts)
        self.last = last

    def last_common(self, starts: Sequence[ViewStart], last: int) -> int:
        """The index of the last entry that this log shares with another one."""
        index = min(self.last, last)
        while index > 0:
            own, other = self.view_at(index), view_at(starts, index)
            if own is not None and own == other:
                return index
            begins = (first_of_view_at(self._starts, index), first_of_view_at(starts, index))
            index = max(begins) - 1
        return 0


def view_at(starts: Sequence[ViewStart], index: int) -> ViewId | None:
    """The view that ordered the entry at an index; of views with the same beginning, the last."""
    found = bisect_right(starts, index, key=lambda start: start.first)
    return starts[found - 1].view if found and index > 0 else None


def first_of_view_at(starts: Sequence[ViewStart], index: int) -> int:
    """The index at which the view that ordered an entry began, or 1 if it is not known."""
    found = bisect_right(starts, index, key=lambda start: start.first)
    return starts[found - 1].first if found else 1
