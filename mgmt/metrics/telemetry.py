"""The cost of scrapes, as metrics: their durations, and the sizes of their pages."""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client.core import Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from leveret.mgmt.metrics.text import Format

LabelValues = tuple[str, ...]


class _Summary(NamedTuple):
    """How many scrapes there were and the sum of their figures, by the values of the labels."""

    name: str
    help: str
    labels: tuple[str, ...]
    counts: defaultdict[LabelValues, int]
    sums: defaultdict[LabelValues, float]

    def add(self, value: float, *labels: str) -> None:
        self.counts[labels] += 1
        self.sums[labels] += value


def _summary(name: str, text: str, *labels: str) -> _Summary:
    return _Summary(name, text, labels, defaultdict(int), defaultdict(float))


class Telemetry(Collector):
    """Summaries of all scrapes since the start, by registry (`default`, `per-object`, `detailed`)
    and format, with RabbitMQ's names.
    """

    def __init__(self) -> None:
        of_page = ("registry", "content_type")
        self._seconds = _summary("telemetry_scrape_duration_seconds", "Scrape duration", *of_page)
        self._sizes = _summary("telemetry_scrape_size_bytes", "Scrape size, not encoded", *of_page)
        self._encoded_sizes = _summary(
            "telemetry_scrape_encoded_size_bytes", "Scrape size, encoded", *of_page, "encoding"
        )

    def note(
        self, registry: str, form: Format, seconds: float, size: int, encoded_size: int,
        encoding: str,
    ) -> None:  # fmt: skip
        """Count a page that was sent. size: bytes. encoding: `gzip` or `identity`."""
        self._seconds.add(seconds, registry, form.content_type)
        self._sizes.add(size, registry, form.content_type)
        self._encoded_sizes.add(encoded_size, registry, form.content_type, encoding)

    def collect(self) -> Iterator[Metric]:
        """The three families."""
        for summary in (self._seconds, self._sizes, self._encoded_sizes):
            family = SummaryMetricFamily(summary.name, summary.help, labels=summary.labels)
            # A copy: this runs in a thread while the event loop counts further pages.
            for labels, count in tuple(summary.counts.items()):
                family.add_metric(labels, count, summary.sums[labels])
            yield family
