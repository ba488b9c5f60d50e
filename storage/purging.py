"""What a purge of a tiered queue records: which positions are gone, and which bytes left segments.

The positions are recorded at once, so that no restart brings a purged message back. The bytes of
the messages that are in memory and in segments are counted in steps, as these messages are freed;
meanwhile the ledger says that it does not know them.
"""

from collections.abc import Callable, Iterator

from leveret.storage.delta import Delta
from leveret.storage.in_memory import InMemory
from leveret.storage.intervals import Intervals
from leveret.storage.ledger import Ledger
from leveret.storage.message import Entry


def note_all_gone(
    ledger: Ledger, memory: InMemory, delta: Delta, unacked: dict[int, Entry], end: int
) -> None:
    """Every position below `end` is gone, but for those that are unacked (TQ1). Empties delta.

    It is put together from what is fewer: requeued messages, between which there may be gaps, or
    unacked ones.
    """
    ledger.segment_bytes -= delta.size
    on_disk = delta.clear()
    if len(unacked) < len(memory.requeued) + on_disk.interval_count:
        held = Intervals((position, position + 1) for position in sorted(unacked))
        ledger.fresh.update(Intervals(held.gaps(0, end)))
    else:
        ledger.fresh.update(on_disk)
        ledger.fresh.update(memory.positions())


def freeing(
    ledger: Ledger, pieces: Iterator[list[Entry]], left_segment: Callable[[int, int], None]
) -> Iterator[int]:
    """The steps of freeing entries that were in memory and are gone.

    left_segment: called with the position and the size of each that is in a segment, too.
    """
    flushed_to = ledger.flushed_to
    if not flushed_to:
        return map(len, pieces)
    ledger.begin_count()
    return _counted(ledger, flushed_to, pieces, left_segment)


def _counted(
    ledger: Ledger,
    flushed_to: int,
    pieces: Iterator[list[Entry]],
    left_segment: Callable[[int, int], None],
) -> Iterator[int]:
    for entries in pieces:
        for entry in entries:
            if entry.position < flushed_to:
                left_segment(entry.position, len(entry.message.body))
        yield len(entries)
    ledger.end_count()
