"""The loads as a table in Markdown, one line each, for docs/reference/performance.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .samples import LoadSample, Results, median
from .verdicts import RABBITMQ, Ratios, limit_verdict, verdict

BOUND = "relay"
HEADINGS = (
    "load", "", "published/s", "messages/s", "CPU µs", "p50/p95/p99 µs", "p99 at full speed",
    "RSS MiB", "CPU ratio", "rate ratio", "p99 ratio", "times the bound's CPU", "to reach",
)  # fmt: skip


def _latencies(samples: Sequence[LoadSample]) -> str:
    return "/".join(f"{median(samples, name):,.0f}" for name in ("p50_us", "p95_us", "p99_us"))


def _values(samples: Sequence[LoadSample]) -> list[str]:
    share = median(samples, "delivered")
    delivered = f" ({share:.0%})" if share else ""
    return [
        f"{median(samples, 'publish_rate'):,.0f}",
        f"{median(samples, 'rate'):,.0f}{delivered}",
        f"{median(samples, 'cpu_us'):,.2f}",
        _latencies(samples),
        f"{median(samples, 'full_p99_us'):,.0f}",
        f"{median(samples, 'peak_mib'):,.0f}",
    ]


def _comparison(results: Results, title: str, name: str) -> list[str]:
    by_broker, first = results.loads[title], results.brokers[0]
    if name == first or first not in by_broker:
        return [""] * 5
    ratios = Ratios(by_broker[first], by_broker[name])
    cells = [f"{ratios.ratio(attribute):.2f}" for attribute in ("cpu_us", "rate", "p99_us")]
    if name != RABBITMQ:
        return [*cells, "", ""]
    bound = ""
    if BOUND in by_broker:
        bound = f"{Ratios(by_broker[first], by_broker[BOUND]).ratio('cpu_us'):.1f}"
    said = verdict(results.targets[title], by_broker[first], by_broker[name]).text
    return [*cells, bound, said]


def table(results: Results) -> str:
    """Return the table; a load has a line for each broker."""
    lines = [HEADINGS, ["---"] * len(HEADINGS)]
    for title, by_broker in results.loads.items():
        for number, (name, samples) in enumerate(by_broker.items()):
            compared = _comparison(results, title, name)
            lines.append(["" if number else title, name, *_values(samples), *compared])
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
    return text + "\n" + "".join(_single_lines(results))


def _single_lines(results: Results) -> Iterator[str]:
    for title, by_broker in results.singles.items():
        values = "; ".join(
            f"{name} {sample.value:,.2f} {sample.unit}" for name, sample in by_broker.items()
        )
        said = limit_verdict(results.limits.get(title), by_broker.get(results.brokers[0]))
        yield f"- {title}: {values}" + (f" (at most {said})" if said else "") + "\n"
