"""Whether a load reached its target, from the medians of the rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .loads import Target
from .samples import LoadSample, SingleSample, median

RABBITMQ = "rabbitmq"


@dataclass(frozen=True)
class Verdict:
    """What was to be reached, and which parts of it were missed."""

    wanted: tuple[str, ...]
    missed: tuple[str, ...]

    @property
    def text(self) -> str:
        """The verdict in a line; empty without a target."""
        if not self.wanted:
            return ""
        result = "missed: " + ", ".join(self.missed) if self.missed else "met"
        return f"{', '.join(self.wanted)}: {result}"


@dataclass(frozen=True)
class _Part:
    words: str
    limit: float
    value: float
    is_least: bool = False
    is_share: bool = False

    @property
    def is_missed(self) -> bool:
        return self.value < self.limit if self.is_least else self.value > self.limit

    @property
    def said(self) -> str:
        return f"{self.value:.0%}" if self.is_share else f"{self.value:.2f}"


@dataclass(frozen=True)
class Ratios:
    """The first broker's samples over another one's."""

    first: Sequence[LoadSample]
    other: Sequence[LoadSample]

    def ratio(self, attribute: str) -> float:
        """Return the ratio of the medians; 0 if the other's is 0."""
        its = median(self.other, attribute)
        return median(self.first, attribute) / its if its else 0


def _parts(target: Target, ours: Ratios) -> Iterator[_Part]:
    if target.cpu is not None:
        words = f"CPU 1/{round(1 / target.cpu, 2):g}"
        yield _Part(words, target.cpu, ours.ratio("cpu_us"))
    if target.rate is not None:
        yield _Part(f"rate {target.rate:g}", target.rate, ours.ratio("rate"), is_least=True)
    if target.p99 is not None:
        attribute = "full_p99_us" if target.is_p99_full else "p99_us"
        yield _Part(f"p99 {target.p99:g}", target.p99, ours.ratio(attribute))
    if target.delivered is not None:
        share = median(ours.first, "delivered")
        words = f"delivered {target.delivered:.0%}"
        yield _Part(words, target.delivered, share, is_least=True, is_share=True)


def verdict(target: Target, first: Sequence[LoadSample], rabbitmq: Sequence[LoadSample]) -> Verdict:
    """Compare the first broker with RabbitMQ."""
    parts = list(_parts(target, Ratios(first, rabbitmq)))
    missed = tuple(f"{part.words.split()[0]} {part.said}" for part in parts if part.is_missed)
    return Verdict(tuple(part.words for part in parts), missed)


def limit_verdict(limit: float | None, sample: SingleSample | None) -> str:
    """Say whether a single measurement is within its limit; empty without one."""
    if limit is None:
        return ""
    if sample is None:
        return f"{limit:g}"
    return f"{limit:g}: {'missed' if sample.value > limit else 'met'}"
