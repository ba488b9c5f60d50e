"""How long the steps of the job take: a model that was measured, corrected by the running job.

A step takes some seconds for any log (Spark compiles its queries) and some more for each million
events, and reading also for each block of events. The constants were measured on two processors
with the logs of generate.py. The job compares the time that its steps have taken with the model,
and multiplies the rest by the same factor.
"""

from typing import NamedTuple

TRUST_SECONDS = 2.0
"""The model counts as if its first seconds had been confirmed: single short steps say little."""


class Cost(NamedTuple):
    """The time of a step. seconds: for any log. per_million: seconds for each million events.

    per_million_blocks: seconds for each million blocks of events.
    """

    seconds: float
    per_million: float
    per_million_blocks: float = 0.0


class Estimate:
    """The steps of one run. events: how many are expected; corrected when they are known.

    blocks: how many blocks these are in.
    """

    def __init__(self, costs: dict[str, Cost], events: int, blocks: int = 0) -> None:
        self.events = events
        self._blocks = blocks
        self._costs = costs
        self._done: set[str] = set()
        self._elapsed = 0.0

    def done(self, step: str, seconds: float) -> None:
        """Record that a step has ended, after this number of seconds."""
        self._done.add(step)
        self._elapsed += seconds

    def left(self, step: str | None = None, part: float = 0.0, seconds: float = 0.0) -> float:
        """Return the seconds until the last step ends.

        step: the one that is running, of which a part (0 to 1) was done in this number of seconds.
        """
        done = sum(self._seconds(one) for one in self._done)
        done += 0.0 if step is None else part * self._seconds(step)
        total = sum(map(self._seconds, self._costs))
        elapsed = self._elapsed + (seconds if part else 0.0)
        return (total - done) * (elapsed + TRUST_SECONDS) / (done + TRUST_SECONDS)

    def _seconds(self, step: str) -> float:
        cost = self._costs.get(step, Cost(0.0, 0.0))
        of_records = cost.per_million * self.events + cost.per_million_blocks * self._blocks
        return cost.seconds + of_records / 1_000_000
