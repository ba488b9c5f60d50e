"""The log of a member: terms, kinds and configurations of its entries, and payloads not yet sent.

Consecutive entries of one term and kind form a run, so a log of a million entries takes a few
numbers. Entries up to and including the base are discarded. A leader keeps a payload from the
moment it accepts it until it has sent it to all members in reach; it has to read older ones from
disk.

    discarded ... base | run | run | run ... last
                                  kept payloads

Invariants:

RF4  Entries are appended directly after the last one, and their terms never decrease.
RF10  Discarded entries are covered by a snapshot of committed entries.
"""

from bisect import bisect_right

from leveret.cluster.raft.configuration import Configuration, decode_configuration
from leveret.cluster.raft.outputs import CONFIGURATION

WINDOW_BYTES = 4 * 1024 * 1024
"""The default limit for entries that are sent without an acknowledgement (progress.py), and for
those that are kept to be sent: it fills a link of 1 Gbit/s with a round trip of 30 ms."""


class StoredRun:
    """A run that a restart found on disk. payloads: only those of configurations."""

    __slots__ = ("count", "first", "kind", "payloads", "term")

    def __init__(self, first: int, count: int, term: int, kind: int, payloads: list[bytes]) -> None:
        self.first = first
        self.count = count
        self.term = term
        self.kind = kind
        self.payloads = payloads


class Stored:
    """The data a restart found. configuration: the snapshot's, or the first of a new group.

    term_before: of the entry before the first one; -1 if it is not known.
    """

    __slots__ = (
        "configuration", "runs", "snapshot_index", "snapshot_term", "term", "term_before", "vote",
    )  # fmt: skip

    def __init__(
        self, configuration: Configuration, term: int = 0, vote: str = "",
        snapshot_index: int = 0, snapshot_term: int = 0, runs: tuple[StoredRun, ...] = (),
        term_before: int = -1,
    ) -> None:  # fmt: skip
        self.configuration = configuration
        self.term = term
        self.vote = vote
        self.snapshot_index = snapshot_index
        self.snapshot_term = snapshot_term
        self.runs = runs
        self.term_before = term_before


class EntryLog:
    """The log of one member."""

    def __init__(self, stored: Stored, kept_bytes_max: int = WINDOW_BYTES) -> None:
        """kept_bytes_max: once more bytes of payloads are kept, all are dropped, and read from disk
        when needed. It is as many as are sent to a member without an acknowledgement.
        """
        self._kept_bytes_max = kept_bytes_max
        self.snapshot_index = stored.snapshot_index
        self._begin(stored.snapshot_index, stored.snapshot_term, stored.configuration)
        self.is_cut_off = bool(stored.runs) and not self._recover(stored)
        """The entries found on disk do not belong to the snapshot, and have to be voided."""
        if self.is_cut_off:
            self._begin(stored.snapshot_index, stored.snapshot_term, stored.configuration)

    def _begin(self, index: int, term: int, configuration: Configuration) -> None:
        self.base_index, self.base_term = index, term
        self.last_index, self.last_term = index, term
        self._starts: list[int] = []
        self._terms: list[int] = []
        self._kinds: list[int] = []
        self._kept: list[bytes] = []
        self._kept_first, self._kept_bytes = index + 1, 0
        self._configurations: list[tuple[int, Configuration]] = [(index, configuration)]

    def _recover(self, stored: Stored) -> bool:
        """Take the entries found on disk; return whether the snapshot belongs to the same log."""
        runs = stored.runs
        snapshot = stored.snapshot_index
        first = runs[0].first
        if first <= snapshot:
            # Unless the term of the entry before it is known, the first entry becomes the base.
            self.base_index, self.base_term = first, runs[0].term
            if stored.term_before >= 0:
                self.base_index, self.base_term = first - 1, stored.term_before
            self.last_index, self.last_term = self.base_index, self.base_term
        elif first != snapshot + 1:
            return False
        for run in runs:
            skipped = max(0, self.last_index + 1 - run.first)
            if run.count > skipped:
                self._extend(run.first + skipped, run.term, run.kind, run.count - skipped)
            if run.kind == CONFIGURATION:
                for place, payload in enumerate(run.payloads):
                    if run.first + place > snapshot:
                        configuration = decode_configuration(payload)
                        self._configurations.append((run.first + place, configuration))
        self._kept_first = self.last_index + 1
        return self.term_of(snapshot) == stored.snapshot_term

    # Questions

    def term_of(self, index: int) -> int:
        """Return the term of an entry or of the base; -1 if it is not known."""
        if index == self.base_index:
            return self.base_term
        if not self.base_index < index <= self.last_index:
            return -1
        return self._terms[bisect_right(self._starts, index) - 1]

    def kind_of(self, index: int) -> int:
        """Return the kind of an entry after the base."""
        return self._kinds[bisect_right(self._starts, index) - 1]

    def end_of_run(self, index: int) -> int:
        """Return the last index of the run to which an entry belongs."""
        place = bisect_right(self._starts, index)
        return self._starts[place] - 1 if place < len(self._starts) else self.last_index

    def last_like(self, index: int, term: int) -> int:
        """Return the index of the last entry up to `index` whose term is at most `term`.

        If all such entries are discarded, it is the index before the base.
        """
        index = min(index, self.last_index)
        place = bisect_right(self._starts, index) - 1
        while place >= 0 and self._terms[place] > term:
            index = self._starts[place] - 1
            place -= 1
        if place < 0 and (index < self.base_index or self.base_term > term):
            return self.base_index - 1
        return index

    @property
    def configuration(self) -> Configuration:
        """The newest configuration."""
        return self._configurations[-1][1]

    @property
    def configuration_index(self) -> int:
        """The index of the newest configuration."""
        return self._configurations[-1][0]

    def configuration_at(self, index: int) -> tuple[int, Configuration]:
        """Return the configuration that is in effect at an index, and before it its own index."""
        found = self._configurations[0]
        for one in self._configurations:
            if one[0] <= index:
                found = one
        return found

    # Changes

    def append(self, first: int, term: int, kind: int, payloads: list[bytes]) -> None:
        """Append entries. Raises ValueError if the payload of a configuration cannot be decoded."""
        configurations = []
        if kind == CONFIGURATION:
            configurations = [decode_configuration(payload) for payload in payloads]
        self._extend(first, term, kind, len(payloads))
        for place, configuration in enumerate(configurations):
            self._configurations.append((first + place, configuration))

    def _extend(self, first: int, term: int, kind: int, count: int) -> None:
        assert first == self.last_index + 1, "RF4: entries have no gap"
        assert term >= self.last_term, "RF4: terms never fall"
        if not self._starts or self._terms[-1] != term or self._kinds[-1] != kind:
            self._starts.append(first)
            self._terms.append(term)
            self._kinds.append(kind)
        self.last_index, self.last_term = self.last_index + count, term

    def truncate(self, first: int) -> None:
        """Remove the entries from an index on."""
        assert first > self.base_index, "RF10: discarded entries are committed"
        while self._starts and self._starts[-1] >= first:
            self._starts.pop()
            self._terms.pop()
            self._kinds.pop()
        while self._configurations[-1][0] >= first:
            self._configurations.pop()
        self.last_index = first - 1
        self.last_term = self._terms[-1] if self._terms else self.base_term
        self.forget_payloads(first)

    def reset(self, index: int, term: int, configuration: Configuration) -> None:
        """Start an empty log after a snapshot."""
        self._begin(index, term, configuration)
        self.snapshot_index = index

    def discard(self, through: int) -> None:
        """Discard the entries up to and including an index."""
        assert through <= self.snapshot_index, "RF10: a snapshot covers discarded entries"
        if through <= self.base_index:
            return
        term = self.term_of(through)
        place = bisect_right(self._starts, through) - 1
        del self._starts[:place], self._terms[:place], self._kinds[:place]
        if through == self.end_of_run(through):
            del self._starts[:1], self._terms[:1], self._kinds[:1]
        else:
            self._starts[0] = through + 1
        configuration = self.configuration_at(through)
        later = [one for one in self._configurations if one[0] > configuration[0]]
        self._configurations = [configuration, *later]
        self.base_index, self.base_term = through, term

    # Payloads

    def keep(self, first: int, payloads: list[bytes], size: int) -> None:
        """Keep the payloads of new entries for sending."""
        if not self._kept:
            self._kept_first = first
        self._kept += payloads
        self._kept_bytes += size
        if self._kept_bytes > self._kept_bytes_max:
            self.forget_payloads(first + len(payloads))

    def payloads(self, first: int, bytes_max: int) -> list[bytes] | None:
        """Return payloads of one run from an index on; None if they are not kept."""
        place = first - self._kept_first
        count = len(self._kept)
        if not 0 <= place < count:
            return None
        end = min(count, self.end_of_run(first) + 1 - self._kept_first)
        if self._kept_bytes <= bytes_max:
            return self._kept[place:end]
        return within(self._kept[place:end], bytes_max)

    def forget_payloads(self, before: int) -> None:
        """Drop the kept payloads of entries before an index."""
        count = before - self._kept_first
        if count >= len(self._kept):
            self._kept = []
            self._kept_first, self._kept_bytes = before, 0
        elif count > 0:
            for payload in self._kept[:count]:
                self._kept_bytes -= len(payload)
            del self._kept[:count]
            self._kept_first = before


def within(payloads: list[bytes], bytes_max: int) -> list[bytes]:
    """Return the leading payloads that fit into `bytes_max` bytes; at least one."""
    for place, payload in enumerate(payloads):
        bytes_max -= len(payload)
        if bytes_max < 0 and place:
            return payloads[:place]
    return payloads
