"""The HTML page of a report: findings first, then charts, in one self-contained file. Pure.

It has no script, and its content security policy allows no request. Colours follow the reader's
light or dark setting; the print style is light, with all tables open.
"""

from collections.abc import Iterator
from html import escape
from pathlib import Path

from leveret.analytics.formatting import duration, listed, moment, plural
from leveret.analytics.report.aggregates import MINUTE_US, Aggregates, Queue, QueueSeries
from leveret.analytics.report.charts import Line, bar_chart, escaped, heat_map, line_chart, table
from leveret.analytics.report.findings import Finding, Severity, findings, queue_shown
from leveret.analytics.report.topology_chart import topology_chart

QUEUES_SHOWN = 12
HEAT_MAPS = 6
TABLE_ROWS_MAX = 100
STYLE = Path(__file__).with_name("report.css")
_WORDS = {Severity.BAD: "Act", Severity.WARNING: "Look", Severity.NOTE: "Note"}


def page(data: Aggregates) -> str:
    """Return the whole page."""
    # A short trace can begin and end in the same minute, so seconds are shown.
    length = 16 if data.ends_us - data.begins_us > 2 * MINUTE_US else 19
    begins, ends = moment(data.begins_us)[:length], moment(data.ends_us)[:length]
    title = f"Trace report, {begins} to {ends} UTC"
    found = findings(data)
    sections = [
        _section("findings", "Findings", _findings(found)),
        _section("traffic", "Traffic", "".join(_traffic(data))),
        _section("latency", "How long messages waited", "".join(_latency(data))),
        _section("depth", "Queue depth", "".join(_depth(data))),
        _section("topology", "Topology", "".join(_topology(data))),
        _section("consumers", "Consumers", _consumers(data)),
        _section("outcomes", "Outcomes", _outcomes(data)),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
        " style-src 'unsafe-inline'; img-src data:\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{escaped(title)}</title><style>{STYLE.read_text('utf-8')}</style></head><body>"
        f"<header><h1>{escaped(title)}</h1>{_facts(data)}{_contents()}</header>"
        f"<main>{''.join(sections)}</main></body></html>\n"
    )


_CONTENTS = {
    "findings": "Findings", "traffic": "Traffic", "latency": "Waits", "depth": "Depth",
    "topology": "Topology", "consumers": "Consumers", "outcomes": "Outcomes",
}  # fmt: skip


def _contents() -> str:
    links = "".join(f'<a href="#{name}">{words}</a>' for name, words in _CONTENTS.items())
    return f'<nav aria-label="Contents">{links}</nav>'


def _section(name: str, title: str, content: str) -> str:
    return f'<section id="{name}"><h2>{title}</h2>{content}</section>'


def _facts(data: Aggregates) -> str:
    events = sum(data.events.values())
    words = (
        f"{plural(events, 'event')} of {plural(len(data.nodes), 'node')} in"
        f" {plural(len(data.vhosts), 'vhost')}; {sum(data.published.values()):,} messages"
        f" published, {sum(data.delivered.values()):,} delivered,"
        f" {sum(data.acknowledged.values()):,} acknowledged. Times are UTC."
    )
    if data.sample > 1:
        words += f" The trace is a sample of one message in {data.sample}; counts are estimates."
    return f"<p>{escaped(words)}</p>"


# Findings


def _findings(found: list[Finding]) -> str:
    if not found:
        return "<p>The trace shows no problem.</p>"
    return f'<ol class="findings">{"".join(map(_finding, found))}</ol>'


def _finding(finding: Finding) -> str:
    advice = f'<p class="advice">{escaped_long(finding.advice)}</p>' if finding.advice else ""
    kind = finding.severity.name.lower()
    return (
        f'<li class="{kind}"><strong class="severity">{_WORDS[finding.severity]}</strong>'
        f"<div><p>{escaped_long(finding.sentence)}</p>{advice}</div></li>"
    )


def escaped_long(text: str) -> str:
    """Escape a sentence, in which names are already printable and short."""
    return escape(text, quote=False)


# Charts


def _traffic(data: Aggregates) -> Iterator[str]:
    lines = [
        Line("published", data.published), Line("delivered", data.delivered),
        Line("acknowledged", data.acknowledged),
    ]  # fmt: skip
    every = duration(data.step_us)
    yield f"<p>Messages, in steps of {escaped(every)}.</p>"
    yield line_chart(data, "Messages published, delivered and acknowledged", lines)
    rows = [
        (queue_shown(data, one.queue), sum(one.came.values()), sum(one.delivered.values()),
         sum(one.acknowledged.values()))
        for one in data.queues[:TABLE_ROWS_MAX]
    ]  # fmt: skip
    heads = ("queue", "came", "delivered", "acknowledged")
    yield _details("Queues by traffic", table("The busiest queues", heads, rows))
    if data.queues_total > len(data.queues):
        yield f"<p>There are {data.queues_total:,} queues; these are the busiest.</p>"
    if data.churn:
        yield line_chart(data, "Connections opened", [Line("connections opened", data.churn)],
                         height=140)  # fmt: skip
    if data.sizes:
        bars = [(_size(one.up_to_bytes), one.messages) for one in data.sizes]
        yield "<h3>Message sizes</h3>" + bar_chart("Messages by size, up to", bars)


def _size(count: int) -> str:
    for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


def _latency(data: Aggregates) -> Iterator[str]:
    if not data.heat:
        yield "<p>The trace has no delivery together with its publish.</p>"
        return
    yield "<p>From publish to first delivery. A stronger colour means more messages.</p>"
    for queue, cells in list(data.heat.items())[: HEAT_MAPS + 1]:
        name = "all queues" if queue is None else queue_shown(data, queue)
        yield f"<h3>{escaped(name[0].upper() + name[1:])}</h3>"
        yield heat_map(data, f"Waits of {name}", cells)
    rows = [
        (queue_shown(data, one.queue), _worst(data, one.wait_p99_us), _worst(data, one.ack_p99_us))
        for one in data.queues[:TABLE_ROWS_MAX]
    ]
    heads = ("queue", "worst p99 wait", "worst p99 until acknowledged")
    yield _details("The worst minutes", table("The worst minutes", heads, rows))


def _worst(data: Aggregates, values: dict[int, int]) -> str:
    if not values:
        return ""
    step = max(values, key=lambda one: values[one])
    return f"{duration(values[step])} at {data.clock(data.time_of(step))}"


def _depth(data: Aggregates) -> Iterator[str]:
    deepest = sorted(data.queues, key=lambda one: -_deepest(one))[:QUEUES_SHOWN]
    deepest = [one for one in deepest if _deepest(one)]
    if not deepest:
        yield "<p>No message was ready at the end of any second.</p>"
    for one in deepest:
        name = queue_shown(data, one.queue)
        lines = [Line("ready", carried(data, one.ready)),
                 Line("unacknowledged", carried(data, one.unacked))]  # fmt: skip
        yield f"<h3>{escaped(name[0].upper() + name[1:])}</h3>"
        yield line_chart(data, f"Depth of {name}", lines, height=150)
    rows = [
        (queue_shown(data, one.queue), max(one.ready.values(), default=0),
         max(one.unacked.values(), default=0), one.ready_at_end)
        for one in data.queues[:TABLE_ROWS_MAX]
    ]  # fmt: skip
    heads = ("queue", "most ready", "most unacknowledged", "ready at the end")
    yield _details("All queues", table("Queue depth", heads, rows))


def _deepest(series: QueueSeries) -> int:
    return max(*series.ready.values(), *series.unacked.values(), 0, 0)


def carried(data: Aggregates, values: dict[int, int]) -> dict[int, int]:
    """Fill in the steps without events, in which the depth does not change."""
    whole, depth = {}, 0
    for step in range(data.steps):
        depth = values.get(step, depth)
        whole[step] = depth
    return whole


def _topology(data: Aggregates) -> Iterator[str]:
    if not data.topology:
        yield "<p>No messages.</p>"
        return
    yield "<p>Wider lines mean more messages; dashed lines are dead letters.</p>"
    yield topology_chart(data.topology)
    seconds = max(1.0, (data.ends_us - data.begins_us) / 1e6)
    rows = [
        (one.vhost, f"{one.source_kind} {one.source}", f"{one.target_kind} {one.target}",
         one.dead_letters, one.messages, f"{one.messages / seconds:,.2f}")
        for one in data.topology[:TABLE_ROWS_MAX]
    ]  # fmt: skip
    heads = ("vhost", "from", "to", "dead letters", "messages", "per second")
    yield _details("As a table", table("The busiest edges", heads, rows))


def _consumers(data: Aggregates) -> str:
    rows = [
        (queue_shown(data, one.queue), one.tag if one.tag is not None else "basic.get",
         one.connection, one.delivered, one.acknowledged, one.unacknowledged,
         "" if one.ack_p50_us is None else duration(one.ack_p50_us))
        for one in data.consumers[:TABLE_ROWS_MAX]
    ]  # fmt: skip
    if not rows:
        return "<p>No consumers.</p>"
    heads = (
        "queue", "consumer", "connection", "delivered", "acknowledged", "unacknowledged",
        "median until acknowledged",
    )  # fmt: skip
    return _details("All consumers", table("Consumers", heads, rows), is_open=len(rows) <= 20)


def _outcomes(data: Aggregates) -> str:
    by_queue: dict[Queue, list[str]] = {}
    for (queue, fate), count in sorted(data.outcomes.items(), key=lambda item: -item[1]):
        by_queue.setdefault(queue, []).append(f"{count:,} {fate.replace('_', ' ')}")
    rows = [
        (queue_shown(data, queue), listed(fates))
        for queue, fates in list(by_queue.items())[:TABLE_ROWS_MAX]
    ]
    if not rows:
        return "<p>No message entered a queue.</p>"
    return table("Outcomes of the messages of each queue", ("queue", "messages"), rows)


def _details(summary: str, content: str, is_open: bool = False) -> str:
    state = " open" if is_open else ""
    return f"<details{state}><summary>{escaped(summary)}</summary>{content}</details>"
