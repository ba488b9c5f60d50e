"""Prometheus's text format (version 0.0.4).

A library would render all in one go, and hold the node up for a second where there are ten thousand
queues; here samples are added one by one, so that whoever adds them can give way in between.
"""

from collections.abc import Mapping

from mgmt.metrics.families import Family
from mgmt.views.values import text

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[tuple[str, str], ...]


def render_labels(labels: Labels) -> str:
    """`{vhost="/",queue="q"}`, or nothing."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return text(value).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


class Exposition:
    """A page of metrics. prefix: of every name."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._samples: dict[str, list[str]] = {}

    def add(
        self,
        family: Family,
        value: float | None,
        labels: str = "",
        *,
        prefix: str = "",
        suffix: str = "",
    ) -> None:
        """Add a sample. labels: rendered. value: None is not a number."""
        name = (prefix or self._prefix) + family.name
        lines = self._samples.get(name)
        if lines is None:
            lines = self._samples[name] = [
                f"# TYPE {name} {family.kind}\n# HELP {name} {family.help}"
            ]
        shown = "NaN" if value is None else repr(value)
        lines.append(f"{name}{suffix}{labels} {shown}")

    def add_row(
        self, families: tuple[Family, ...], values: tuple[float | None, ...], labels: str = ""
    ) -> None:
        """Add a sample of each family."""
        for family, value in zip(families, values, strict=True):
            self.add(family, value, labels)

    def add_histogram(
        self,
        family: Family,
        counts: Mapping[float, int],
        overflow: int,
        total: float,
        labels: Labels,
    ) -> None:
        """Add a histogram. counts: by upper bound, each without those below it."""
        running = 0
        for bound, count in counts.items():
            running += count
            self.add(
                family, running, render_labels((*labels, ("le", repr(bound)))), suffix="_bucket"
            )
        running += overflow
        self.add(family, running, render_labels((*labels, ("le", "+Inf"))), suffix="_bucket")
        self.add(family, running, render_labels(labels), suffix="_count")
        self.add(family, total, render_labels(labels), suffix="_sum")

    def render(self) -> bytes:
        """The page."""
        lines = [line for lines in self._samples.values() for line in lines]
        return ("\n".join(lines) + "\n").encode()
