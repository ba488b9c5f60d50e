"""The confirms that a queue on another node owes to publishers of this one.

Each message that is sent with confirms has a sequence number, which counts up for the queue and is
never reused. The number of its first message identifies a run. The home node reports the numbers
that are safe, in ranges of whole runs, and single messages that are refused.

Invariants:
OW1. A run is confirmed once, or refused by `die`.
OW2. Confirms owed before `die` are not given afterwards.
"""

from collections.abc import Iterable

from leveret.broker.queues.contract.publication import Publisher


class OwedConfirms:
    """The holder of the runs that wait for the home node (`Publisher.hold`)."""

    __slots__ = ("_next", "_runs", "name")

    def __init__(self, name: str) -> None:
        """name: the queue's name, for texts."""
        self.name = name
        self._next = 1
        self._runs: dict[int, tuple[Publisher, int, int]] = {}

    def __repr__(self) -> str:
        return f"<OwedConfirms of {self.name!r}>"

    def __bool__(self) -> bool:
        return bool(self._runs)

    def hold(self, publisher: Publisher, first: int, count: int) -> int:
        """Note a run that is about to be sent; return the sequence number of its first message."""
        publisher.hold(first, count, self)
        sequence = self._next
        self._next += count
        self._runs[sequence] = publisher, first, count
        return sequence

    def skip(self, count: int) -> int:
        """Note a run without confirms that is about to be sent; return its first number."""
        sequence = self._next
        self._next += count
        return sequence

    def take_over(self, sequence: int, publisher: Publisher, first: int, count: int) -> None:
        """Owe a run that was sent with `skip`."""
        last = next(reversed(self._runs), 0)
        assert last < sequence < self._next, "runs are in the order of their numbers"
        self._runs[sequence] = publisher, first, count

    @property
    def next(self) -> int:
        """The sequence number of the next message."""
        return self._next

    @property
    def settled(self) -> int:
        """All messages below this sequence number are settled."""
        for sequence in self._runs:
            return sequence
        return self._next

    @property
    def runs(self) -> list[tuple[int, int]]:
        """The owed runs: the sequence number and the length of each, in order."""
        return [(sequence, count) for sequence, (_, _, count) in self._runs.items()]

    def confirm(self, start: int, end: int) -> None:
        """Confirm the runs from `start` up to, not including, `end`. Raises ValueError if they are
        not owed.
        """
        while start < end:
            run = self._runs.pop(start, None)
            if run is None:
                raise ValueError(f"a confirm of message {start}, with which no run begins")
            publisher, first, count = run
            publisher.confirm(first, self)
            start += count
        if start != end:
            raise ValueError(f"a confirm up to message {end}, which is inside a run")

    def confirm_owed(self, start: int, end: int) -> None:
        """Confirm those of the runs from `start` up to, not including, `end` that are owed."""
        runs = self._runs
        while start < end:
            run = runs.pop(start, None)
            if run is None:
                start = next((sequence for sequence in runs if sequence > start), end)
                continue
            publisher, first, count = run
            publisher.confirm(first, self)
            start += count

    def owes(self, sequence: int) -> bool:
        """Whether a run that begins with this message is owed."""
        return sequence in self._runs

    def refuse(self, refused: Iterable[tuple[int, int]]) -> None:
        """Refuse messages: pairs of the sequence number of a run, and that of a message in it.

        Raises ValueError if there is no such run.
        """
        for start, number in refused:
            run = self._runs.get(start)
            if run is None or not 0 <= number - start < run[2]:
                raise ValueError(f"a refusal of message {number} in run {start}, which is not owed")
            publisher, first, _ = run
            publisher.refuse(first + number - start)

    def die(self, is_settled: bool) -> None:
        """Give up all owed runs: none will be confirmed (`Publisher.holder_died`)."""
        runs, self._runs = self._runs, {}
        for publisher in dict.fromkeys(publisher for publisher, _, _ in runs.values()):
            publisher.holder_died(self, is_settled)
