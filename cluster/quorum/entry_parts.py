"""Cuts out the parts of entries that a client on another node needs for deliveries.

A consumer with a small prefetch limit takes only a few messages at a time, from an entry that may
have a thousand. A part is an entry without a head; the deliveries have their places in the part.
"""

from collections.abc import Mapping

from leveret.cluster.quorum.machine.commands import Enqueue, TakeOver, decode_entry, entry_with
from leveret.cluster.quorum.machine.effects import Deliver, Effect
from leveret.cluster.quorum.machine.runs import Run
from leveret.cluster.remote_queues.run_parts import part_of_run

WHOLE_BYTES_MAX = 4 * 1024
"""Entries up to this size are sent whole."""


def needed_parts(
    effects: list[Effect], entries: Mapping[int, bytes]
) -> tuple[list[Effect], dict[int, bytes]]:
    """The effects, and the parts of entries that their deliveries need. Raises RunError.

    entries: those that deliveries refer to, by index.
    """
    spans = _spans(effects)
    parts: dict[int, bytes] = {}
    firsts: dict[int, int] = {}
    for index, (first, end) in spans.items():
        entry = entries[index]
        parts[index] = entry
        if len(entry) > WHOLE_BYTES_MAX:
            read = decode_entry(entry)
            command = read.command
            assert isinstance(command, Enqueue | TakeOver), "other commands have no messages"
            if end - first < sum(command.runs[::4]):
                messages = part_of_run(entry, read.messages_at, first, end - first)
                parts[index] = entry_with(messages)
                firsts[index] = first
    return [_moved(effect, firsts) for effect in effects], parts


def _spans(effects: list[Effect]) -> dict[int, tuple[int, int]]:
    """The range of places that deliveries need of each entry: the first, and the last plus one."""
    spans: dict[int, tuple[int, int]] = {}
    for effect in effects:
        if isinstance(effect, Deliver):
            for run in effect.runs:
                first, end = spans.get(run.index, (run.place, 0))
                spans[run.index] = min(first, run.place), max(end, run.place + run.count)
    return spans


def _moved(effect: Effect, firsts: dict[int, int]) -> Effect:
    """The effect with the places of its deliveries in the parts."""
    if not firsts or not isinstance(effect, Deliver):
        return effect
    runs = [_placed(run, run.place - firsts.get(run.index, 0)) for run in effect.runs]
    return Deliver(effect.sender, effect.consumer, runs)


def _placed(run: Run, place: int) -> Run:
    moved = run.part(0, run.count)
    moved.place = place
    return moved
