"""The table that a terminal shows during a run. Pure."""

from rich.table import Table

from leveret.mgmt.perf.counts import PerfCounts
from leveret.mgmt.perf.histogram import LatencyHistogram
from leveret.mgmt.perf.lines import latency, shown_rates, unit
from leveret.mgmt.perf.options import PerfOptions
from leveret.mgmt.perf.samples import Sample

_PERCENTILES = {
    "min": "min", "median": "median", "p75": "75th", "p95": "95th", "p99": "99th",
    "p999": "99.9th", "max": "max",
}  # fmt: skip


def table(sample: Sample, whole: PerfCounts, options: PerfOptions) -> Table:
    """Show the last interval, and the run so far."""
    shown = Table.grid(padding=(1, 0))
    title = f"{options.id}, {sample.elapsed_s:.0f} s"
    if options.time:
        title += f" of {options.time:g} s"
    shown.add_row(_rates(title, sample, whole, options))
    if sample.counts.latency.total or sample.counts.confirm_latency.total:
        shown.add_row(_latencies(sample, options))
    return shown


def _rates(title: str, sample: Sample, whole: PerfCounts, options: PerfOptions) -> Table:
    shown = Table(title=title, title_justify="left")
    for heading in ("messages", "per second", "average", "total"):
        shown.add_column(heading, justify="left" if heading == "messages" else "right")
    for name in shown_rates(options):
        total = getattr(whole, name)
        average = total / max(sample.elapsed_s, 1e-9)
        shown.add_row(name, f"{sample.rate(name):,.0f}", f"{average:,.0f}", f"{total:,}")
    busy = sample.counts.cpu_s / max(sample.seconds, 1e-9)
    shown.caption = f"processors used by this tool: {busy:.2f}"
    return shown


def _latencies(sample: Sample, options: PerfOptions) -> Table:
    shown = Table()
    shown.add_column(f"latency, {unit(options)}")
    for heading in _PERCENTILES.values():
        shown.add_column(heading, justify="right")
    for kind, histogram in (
        ("consumer", sample.counts.latency), ("confirm", sample.counts.confirm_latency),
    ):  # fmt: skip
        if histogram.total:
            shown.add_row(kind, *_row(histogram, options))
    return shown


def _row(histogram: LatencyHistogram, options: PerfOptions) -> list[str]:
    summary = histogram.summary()
    return [f"{int(latency(summary[name], options)):,}" for name in _PERCENTILES]
