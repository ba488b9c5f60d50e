"""Shows the progress and the result of a run.

A terminal gets a table that is redrawn each interval; other outputs get lines in PerfTest's format
(lines.py). --json prints one object at the end. --output-file also gets rows. Notices go to
standard error, so that they do not disturb programs that parse the output.
"""

import csv
import json
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console
from rich.live import Live

from leveret import __version__
from leveret.mgmt.perf.counts import PerfCounts
from leveret.mgmt.perf.lines import (
    compact_header,
    compact_line,
    csv_header,
    csv_row,
    line,
    summary_lines,
)
from leveret.mgmt.perf.live import table
from leveret.mgmt.perf.options import PerfOptions
from leveret.mgmt.perf.samples import Sample, Summary

WHOLE_SHARE = 0.8
"""The share of an interval that must have passed for it to be shown."""


class Writer(Protocol):
    """The interface of `csv.writer`'s result."""

    def writerow(self, row: Iterable[Any], /) -> Any:
        """Write a row."""


class PerfReport:
    """Shows a run according to its options. A context manager."""

    def __init__(self, options: PerfOptions) -> None:
        self._options = options
        self._console = Console()
        self._live: Live | None = None
        self._rows: Writer | None = None
        self._samples: list[Sample] = []
        self._whole = PerfCounts()
        self._summary: Summary | None = None
        self._last_notice = ""
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Open the output file. Raises OSError."""
        if self._options.output_file:
            path = Path(self._options.output_file)
            file = self._stack.enter_context(path.open("w", newline="", buffering=1))
            self._rows = csv.writer(file, lineterminator="\n")
            self._rows.writerow(csv_header(self._options))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self._stack.close()

    @property
    def _is_quiet(self) -> bool:
        return self._options.json or self._options.quiet

    def begin(self) -> None:
        """Note the start of the run."""
        if self._is_quiet:
            return
        if self._options.metrics_format == "compact":
            print(compact_header(self._options), flush=True)
        elif self._console.is_terminal:
            self._live = self._stack.enter_context(Live(console=self._console, auto_refresh=False))

    def sample(self, sample: Sample) -> None:
        """Show an interval.

        The rest at the end is too short for meaningful rates: only the counts of --json, which add
        up, include it.
        """
        self._whole.add(sample.counts)
        if self._options.json:
            self._samples.append(sample)
        if sample.seconds < self._options.interval * WHOLE_SHARE:
            return
        if self._rows is not None:
            self._rows.writerow(csv_row(sample, self._options))
        if self._live is not None:
            self._live.update(table(sample, self._whole, self._options), refresh=True)
        elif not self._is_quiet:
            is_compact = self._options.metrics_format == "compact"
            shown = compact_line if is_compact else line
            print(shown(sample, self._options), flush=True)

    def notice(self, text: str) -> None:
        """Print a message for the user; messages that all connections repeat are printed once."""
        if text == self._last_notice:
            return
        self._last_notice = text
        shown = f"leveret perf: {text}"
        if self._live is not None:
            self._live.console.print(shown, markup=False)
        else:
            print(shown, file=sys.stderr, flush=True)

    def end(self, summary: Summary) -> None:
        """Show the summary."""
        if self._live is not None:
            self._live.stop()
        self._summary = summary
        if not self._options.json:
            print("\n".join(summary_lines(summary, self._options)), flush=True)

    def print_json(self, error: str | None) -> None:
        """Print the object of --json. error: the reason if the run was aborted."""
        content = {
            "id": self._options.id,
            "version": __version__,
            "error": error,
            "summary": self._summary.to_json() if self._summary else None,
            "samples": [sample.to_json() for sample in self._samples],
        }
        print(json.dumps(content), flush=True)
