"""Output lines and CSV rows in PerfTest's format, for tools that parse it. Pure."""

from datetime import datetime

from leveret.mgmt.perf.histogram import LatencyHistogram
from leveret.mgmt.perf.options import PerfOptions
from leveret.mgmt.perf.samples import Sample, Summary

LATENCY_NAMES = "min/median/75th/95th/99th/max"
_LATENCIES = ("min", "median", "p75", "p95", "p99", "max")
_FILE_LATENCIES = {
    "min": "min", "median": "median", "p75": "75th p.", "p95": "95th p.", "p99": "99th p.",
}  # fmt: skip
_COMPACT_TIME, _COMPACT_RATE, _COMPACT_LATENCY = 19, 13, 27


def unit(options: PerfOptions) -> str:
    """Return the unit of latencies."""
    return "ms" if options.use_millis else "µs"


def latency(value_us: float, options: PerfOptions) -> str:
    """Format a latency."""
    return f"{value_us / (1000 if options.use_millis else 1):.0f}"


def latencies(histogram: LatencyHistogram, options: PerfOptions) -> str:
    """Format a histogram as `1/2/3/4/5/6 µs`."""
    summary = histogram.summary()
    shown = "/".join(latency(summary[name], options) for name in _LATENCIES)
    return f"{shown} {unit(options)}"


def rate(value: float) -> str:
    """Format a rate; small ones with more digits."""
    if value >= 10 or not value:
        return f"{value:.0f}"
    return f"{value:.2f}" if value < 1 else f"{value:.1f}"


def shown_rates(options: PerfOptions) -> list[str]:
    """Return the rates to show for these options, in order."""
    names = ["sent"] if options.producers else []
    names += ["returned"] if options.producers and options.is_mandatory else []
    names += ["confirmed", "nacked"] if options.producers and options.confirm else []
    return names + (["received"] if options.consumers else [])


def line(sample: Sample, options: PerfOptions) -> str:
    """Format the line of an interval."""
    parts = [f"id: {options.id}, time {sample.elapsed_s:.3f} s"]
    parts += [f"{name}: {rate(sample.rate(name))} msg/s" for name in shown_rates(options)]
    shown = [
        f"{kind} latency: {latencies(histogram, options)}"
        for kind, histogram in _histograms(sample, options).items()
    ]
    if shown:
        shown[0] = f"{LATENCY_NAMES} {shown[0]}"
    return ", ".join(parts + shown)


def _histograms(sample: Sample | Summary, options: PerfOptions) -> dict[str, LatencyHistogram]:
    found = {}
    if options.consumers:
        found["consumer"] = sample.counts.latency
    if options.producers and options.confirm:
        found["confirm"] = sample.counts.confirm_latency
    return found


def compact_header(options: PerfOptions) -> str:
    """Return the header of compact lines."""
    shown = "time".ljust(_COMPACT_TIME)
    shown += "".join(name.rjust(_COMPACT_RATE) for name in shown_rates(options))
    kinds = ["consumer"] if options.consumers else []
    kinds += ["confirm"] if options.producers and options.confirm else []
    return shown + "".join(f"{kind} latency".rjust(_COMPACT_LATENCY) for kind in kinds)


def compact_line(sample: Sample, options: PerfOptions) -> str:
    """Format the compact line of an interval."""
    shown = f"{datetime.now():%Y/%m/%d %H:%M:%S}"
    for name in shown_rates(options):
        shown += f"{rate(sample.rate(name))} msg/s".rjust(_COMPACT_RATE)
    for histogram in _histograms(sample, options).values():
        shown += f" {latencies(histogram, options)}".rjust(_COMPACT_LATENCY)
    return shown


def summary_lines(summary: Summary, options: PerfOptions) -> list[str]:
    """Format the summary. The last lines are not in PerfTest's output."""
    start = "" if options.metrics_format == "compact" else f"id: {options.id}, "
    shown = [
        f"{start}sending rate avg: {rate(summary.rate('sent'))} msg/s",
        f"{start}receiving rate avg: {rate(summary.rate('received'))} msg/s",
    ]
    histograms = _histograms(summary, options)
    for kind, histogram in histograms.items():
        text = latencies(histogram, options)
        shown.append(f"{start}{kind} latency {LATENCY_NAMES} {text}")
    for kind, histogram in histograms.items():
        text = latency(histogram.summary()["p999"], options)
        shown.append(f"{start}{kind} latency 99.9th {text} {unit(options)}")
    counts = [f"{name} {getattr(summary.counts, name)}" for name in shown_rates(options)]
    shown.append(f"{start}messages in total: {', '.join(counts)}")
    shown.append(f"{start}processors used by this tool: {summary.cpu_share:.2f}")
    return shown


def csv_header(options: PerfOptions) -> list[str]:
    """Return the header of the CSV file."""
    rates = ("published", "returned", "confirmed", "nacked", "received")
    kinds = ("consumer", "confirm")
    return [
        "id", "time (s)", *(f"{name} (msg/s)" for name in rates),
        *(f"{name} {kind} latency ({unit(options)})"
          for kind in kinds for name in _FILE_LATENCIES.values()),
    ]  # fmt: skip


def csv_row(sample: Sample, options: PerfOptions) -> list[str]:
    """Return the CSV row of an interval; missing values are empty."""
    wanted = shown_rates(options)
    row = [options.id, f"{sample.elapsed_s:.3f}"]
    for name in ("sent", "returned", "confirmed", "nacked", "received"):
        row.append(rate(sample.rate(name)) if name in wanted else "")
    histograms = _histograms(sample, options)
    for kind in ("consumer", "confirm"):
        summary = histograms[kind].summary() if kind in histograms else {}
        row += [latency(summary[name], options) if summary else "" for name in _FILE_LATENCIES]
    return row
