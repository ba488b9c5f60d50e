"""Dead letters that a queue keeps until all of their targets have confirmed them."""

from leveret.cluster.quorum.machine.effects import Effect, PublishDeadLetters, Reason
from leveret.cluster.quorum.machine.held_runs import OrderedRuns
from leveret.cluster.quorum.machine.runs import Run


class RetainedLetters:
    """Unconfirmed letters. by_reason: in the order of reasons. died: the total so far.

    The `delivery` of a letter is its number among all letters, which orders them.
    """

    __slots__ = ("by_reason", "died")

    def __init__(self) -> None:
        self.by_reason = [OrderedRuns() for _ in Reason]
        self.died = 0

    @property
    def count(self) -> int:
        """How many letters there are."""
        return sum([held.count for held in self.by_reason])

    @property
    def bytes(self) -> int:
        """The bytes of their bodies."""
        return sum([held.bytes for held in self.by_reason])

    def add(self, reason: Reason, runs: list[Run]) -> list[Run]:
        """Keep messages that have died. Returns them as letters."""
        letters: list[Run] = []
        for run in runs:
            letter = run.part(0, run.count)
            letter.delivery, letter.time_ms, letter.times = self.died + 1, 0, None
            self.died += run.count
            self.by_reason[reason].add(letter)
            letters.append(letter)
        return letters

    def done(self, positions: list[int]) -> None:
        """Drop letters that were confirmed."""
        for at in range(0, len(positions), 2):
            for held in self.by_reason:
                held.take(positions[at], positions[at + 1])

    def clear(self) -> int:
        """Drop all letters. Returns how many there were."""
        count = self.count
        self.by_reason = [OrderedRuns() for _ in Reason]
        return count

    def effects(self) -> list[Effect]:
        """The effects that publish all letters in the order of their numbers."""
        letters = [
            (run.delivery, reason, run) for reason in Reason for run in self.by_reason[reason].runs
        ]
        letters.sort(key=_number)
        effects: list[Effect] = []
        last: PublishDeadLetters | None = None
        for _, reason, run in letters:
            if last is None or last.reason is not reason:
                last = PublishDeadLetters(reason, [], are_kept=True)
                effects.append(last)
            last.runs.append(run)
        return effects


def _number(letter: tuple[int, Reason, Run]) -> int:
    return letter[0]
