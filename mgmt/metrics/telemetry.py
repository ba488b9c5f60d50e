"""What scrapes cost, told by the metrics themselves: how long they took, and their sizes."""

from collections import defaultdict

from mgmt.metrics import families as names
from mgmt.metrics.text import Exposition, Format, Labels, render_labels

Sums = dict[Labels, list[float]]


class Telemetry:
    """Summaries of all scrapes since the start: how many, and the sum, by registry and format."""

    def __init__(self) -> None:
        self._summaries: dict[names.Family, Sums] = {
            family: defaultdict(lambda: [0, 0.0])
            for family in (names.SCRAPE_DURATION, names.SCRAPE_SIZE, names.SCRAPE_ENCODED_SIZE)
        }

    def note(
        self, registry: str, form: Format, seconds: float, size: int, encoded_size: int,
        encoding: str,
    ) -> None:  # fmt: skip
        """A page was sent. registry: which. encoding: `gzip` or `identity`."""
        labels = (("registry", registry), ("content_type", form.content_type))
        self._add(names.SCRAPE_DURATION, labels, seconds)
        self._add(names.SCRAPE_SIZE, labels, size)
        self._add(names.SCRAPE_ENCODED_SIZE, (*labels, ("encoding", encoding)), encoded_size)

    def _add(self, family: names.Family, labels: Labels, value: float) -> None:
        sums = self._summaries[family][labels]
        sums[0] += 1
        sums[1] += value

    def add_to(self, page: Exposition) -> None:
        """Add them to a page."""
        for family, summary in self._summaries.items():
            for labels, (count, total) in summary.items():
                rendered = render_labels(labels)
                page.add(family, count, rendered, prefix="", suffix="_count")
                page.add(family, total, rendered, prefix="", suffix="_sum")
