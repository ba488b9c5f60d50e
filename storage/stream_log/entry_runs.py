"""Which entries of a group a log has: runs of consecutive entries of one term and kind.

They are few: an election adds two. So they are in memory, while the chunks are in files.
"""

import msgspec


class EntryRun(msgspec.Struct, array_like=True):
    """Consecutive entries of one term and kind. first: the number of the first one."""

    first: int
    count: int
    term: int
    kind: int

    @property
    def end(self) -> int:
        """The number after the last entry."""
        return self.first + self.count


def add(runs: list[EntryRun], first: int, count: int, term: int, kind: int) -> None:
    """Add entries after the last run."""
    last = runs[-1] if runs else None
    if last is not None and (last.term, last.kind) == (term, kind):
        last.count += count
    elif count:
        runs.append(EntryRun(first, count, term, kind))


def remove_from(runs: list[EntryRun], first: int) -> None:
    """Remove the entries from this one on."""
    while runs and runs[-1].first >= first:
        runs.pop()
    if runs:
        runs[-1].count = min(runs[-1].count, first - runs[-1].first)


def remove_before(runs: list[EntryRun], first: int) -> None:
    """Remove the entries before this one."""
    while runs and runs[0].end <= first:
        runs.pop(0)
    if runs and runs[0].first < first:
        runs[0].count -= first - runs[0].first
        runs[0].first = first


def before(runs: list[EntryRun], first: int) -> list[EntryRun]:
    """A copy of the runs of the entries before this one."""
    copy = [EntryRun(run.first, run.count, run.term, run.kind) for run in runs]
    remove_from(copy, first)
    return copy
