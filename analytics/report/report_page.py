"""The HTML page of a report: findings first, then charts, in one self-contained file. Pure.

Its content security policy allows no request, and no script but its own, which zooms the charts and
sorts the tables (report.js). Colours follow the reader's light or dark setting; the print style is
light, with all tables open.
"""

import base64
import hashlib
from collections.abc import Iterator
from html import escape
from pathlib import Path

from leveret.analytics.findings.finding import Finding, Queue, Severity
from leveret.analytics.formatting import MINUTE_US, SECOND_US, duration, listed, moment, plural
from leveret.analytics.report.aggregates import Aggregates, QueueSeries, ReportedConsumer
from leveret.analytics.report.charts import (
    Line,
    Measured,
    bar_chart,
    escaped,
    heat_map,
    line_chart,
    table,
)
from leveret.analytics.report.topology_chart import party_shown, topology_chart

QUEUES_SHOWN = 12
HEAT_MAPS = 6
TABLE_ROWS_MAX = 100
STYLE = Path(__file__).with_name("report.css")
SCRIPT = Path(__file__).with_name("report.js")
ACK_CHARTS, USERS_DRAWN = 4, 5
ACKNOWLEDGED = "acknowledged"
_REASONS = {
    "maxlen": "the queue was full", "purge": "the queue was purged",
    "queue_deleted": "the queue was deleted", "delivery_limit": "delivered too often",
    "discarded": "an operator discarded them", "duplicate": "the queue had them already",
}  # fmt: skip
_WORDS = {Severity.BAD: "Act", Severity.WARNING: "Look", Severity.NOTE: "Note"}


def page(data: Aggregates, found: list[Finding]) -> str:
    """Return the whole page. found: the findings, in their order."""
    # A short trace can begin and end in the same minute, so seconds are shown.
    length = 16 if data.ends_us - data.begins_us > 2 * MINUTE_US else 19
    begins, ends = moment(data.begins_us)[:length], moment(data.ends_us)[:length]
    title = f"Trace report, {begins} to {ends} UTC"
    sections = [
        _section("findings", "Findings", _findings(found)),
        _section("traffic", "Traffic", "".join(_traffic(data))),
        _section("latency", "How long messages waited", "".join(_latency(data))),
        _section("acknowledgements", "How long consumers took", "".join(_acks(data))),
        _section("unusual", "Unusual minutes", _unusual(data)),
        _section("depth", "Queue depth", "".join(_depth(data))),
        _section("topology", "Topology", "".join(_topology(data))),
        _section("consumers", "Consumers", _consumers(data)),
        _section("outcomes", "Outcomes", _outcomes(data)),
    ]
    script = f'"use strict";\n{SCRIPT.read_text("utf-8")}'
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
        f" style-src 'unsafe-inline'; script-src 'sha256-{allowed}'; img-src data:\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{escaped(title)}</title><style>{STYLE.read_text('utf-8')}</style></head><body>"
        f"<header><h1>{escaped(title)}</h1>{_facts(data)}{_faults(data)}{_contents()}</header>"
        f"<main>{''.join(sections)}</main><script>{script}</script></body></html>\n"
    )


_CONTENTS = {
    "findings": "Findings", "traffic": "Traffic", "latency": "Waits",
    "acknowledgements": "Acknowledgements", "unusual": "Unusual minutes", "depth": "Depth",
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
        f" {plural(len(data.vhosts), 'vhost')}; {data.published:,} messages"
        f" published, {sum(data.delivered.values()):,} delivered,"
        f" {sum(data.acknowledged.values()):,} acknowledged{_without_acks(data)}. Times are UTC."
    )
    if data.sample > 1:
        words += f" The trace is a sample of one message in {data.sample}; counts are estimates."
    return f"<p>{escaped(words)}</p>"


def _without_acks(data: Aggregates) -> str:
    count = sum(data.no_ack.values())
    return f"; {count:,} deliveries needed no acknowledgement" if count else ""


def _faults(data: Aggregates) -> str:
    """Say how far to trust the trace: one line if nothing was found."""
    if len(data.faults) < 2:
        return "".join(f"<p>{escaped_long(one)}</p>" for one in data.faults)
    items = "".join(f"<li>{escaped_long(one)}</li>" for one in data.faults)
    return f'<p>How far to trust this trace:</p><ul class="faults">{items}</ul>'


# Findings


def _findings(found: list[Finding]) -> str:
    if not found:
        return "<p>The trace shows no problem.</p>"
    return f'<ol class="findings">{"".join(map(_finding, found))}</ol>'


def _finding(finding: Finding) -> str:
    more = "".join(
        f'<p class="{name}">{escaped_long(text)}</p>'
        for name, text in (
            ("hurts", finding.hurts), ("advice", finding.advice), ("evidence", finding.evidence),
        )
        if text
    )  # fmt: skip
    kind = finding.severity.name.lower()
    return (
        f'<li class="{kind}"><strong class="severity">{_WORDS[finding.severity]}</strong>'
        f"<div><p>{escaped_long(finding.sentence)}</p>{more}</div></li>"
    )


def escaped_long(text: str) -> str:
    """Escape a sentence, in which names are already printable and short."""
    return escape(text, quote=False)


# Charts


def _traffic(data: Aggregates) -> Iterator[str]:
    lines = [
        Line("came to queues", data.came), Line("delivered", data.delivered),
        Line("acknowledged", data.acknowledged),
    ]  # fmt: skip
    every = duration(data.step_us)
    yield f"<p>Messages, in steps of {escaped(every)}.</p>"
    yield line_chart(data, "Messages that came to queues, were delivered and acknowledged", lines)
    rows = [
        (data.named(one.queue), sum(one.came.values()), sum(one.delivered.values()),
         sum(one.acknowledged.values()))
        for one in data.queues[:TABLE_ROWS_MAX]
    ]  # fmt: skip
    heads = ("queue", "came", "delivered", "acknowledged")
    yield _details("Queues by traffic", table("The busiest queues", heads, rows))
    if data.queues_total > len(data.queues):
        yield f"<p>There are {data.queues_total:,} queues; these are the busiest.</p>"
    yield from _publishers(data)
    if data.churn:
        yield line_chart(data, "Connections opened", [Line("connections opened", data.churn)],
                         height=140)  # fmt: skip
    if data.sizes:
        bars = [(_size(one.up_to_bytes), one.messages) for one in data.sizes]
        if len(bars) > 1:
            yield "<h3>Message sizes</h3>" + bar_chart("Messages by size, up to", bars)
        else:
            yield f"<p>All messages have up to {bars[0][0]}.</p>"


def _publishers(data: Aggregates) -> Iterator[str]:
    if not data.publishers:
        return
    busiest = list(data.publishers)[:USERS_DRAWN]
    lines = [Line(_user(user), data.publishers[user]) for user in busiest]
    yield "<h3>Messages by publisher</h3>"
    yield line_chart(data, "Messages to queues by publishing user", lines, height=160)
    seconds = data.step_us / SECOND_US
    length = max(1.0, (data.ends_us - data.begins_us) / SECOND_US)
    rows = [
        (_user(user), total, f"{total / length:,.2f}",
         f"{max(data.publishers[user].values(), default=0) / seconds:,.2f}")
        for user, total in data.publishers_total.items()
    ]  # fmt: skip
    heads = ("user", "messages to queues", "per second", "per second in its busiest step")
    yield _details("Rates by publisher", table("Publishers", heads, rows))


def _user(user: str) -> str:
    return user or "(no user)"


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
        name = "all queues" if queue is None else data.named(queue)
        yield f"<h3>{escaped(name[0].upper() + name[1:])}</h3>"
        yield heat_map(data, f"Waits of {name}", cells)
    slowest = sorted(data.queues, key=lambda one: -_time_of(one.worst_wait))
    rows = [
        (data.named(one.queue), _worst(data, one.worst_wait), _worst(data, one.worst_ack))
        for one in slowest[:TABLE_ROWS_MAX]
    ]
    heads = ("queue", "worst p99 wait", "worst p99 until acknowledged")
    yield _details("The worst minutes", table("The worst minutes", heads, rows))


def _worst(data: Aggregates, worst: tuple[int, int] | None) -> Measured:
    text = "" if worst is None else f"{duration(worst[0])} at {data.clock(worst[1])}"
    return Measured(text, _time_of(worst))


def _time_of(worst: tuple[int, int] | None) -> int:
    return -1 if worst is None else worst[0]


def _acks(data: Aggregates) -> Iterator[str]:
    slowest = sorted(data.queues, key=lambda one: -max(one.hold_max_us.values(), default=0))
    slowest = [one for one in slowest if one.hold_max_us][:ACK_CHARTS]
    if not slowest:
        yield "<p>No consumer acknowledged a message.</p>"
        return
    yield "<p>From delivery to acknowledgement, reject or requeue.</p>"
    for one in slowest:
        name = data.named(one.queue)
        lines = [Line("longest", one.hold_max_us, None), Line("median", one.hold_p50_us, None)]
        yield f"<h3>{escaped(name[0].upper() + name[1:])}</h3>"
        yield line_chart(data, f"How long consumers of {name} held messages", lines, _duration,
                         height=150)  # fmt: skip


def _duration(value: float) -> str:
    return duration(int(value))


def _unusual(data: Aggregates) -> str:
    if not data.anomalies:
        return "<p>No minute differs strongly from others of the same weekday and hour.</p>"
    rows = [(data.clock(one.time_us), one.reason, f"{one.score:+.0f}") for one in data.anomalies]
    heads = ("at", "what", "robust standard deviations")
    return _details("Minutes unlike others of the same weekday and hour",
                    table("The most unusual minutes", heads, rows))  # fmt: skip


def _depth(data: Aggregates) -> Iterator[str]:
    deepest = sorted(data.queues, key=lambda one: -_deepest(one))[:QUEUES_SHOWN]
    deepest = [one for one in deepest if _deepest(one)]
    if not deepest:
        yield "<p>No message was ready at the end of any second.</p>"
    for one in deepest:
        name = data.named(one.queue)
        lines = [Line("ready", carried(data, one.ready)),
                 Line("unacknowledged", carried(data, one.unacked))]  # fmt: skip
        yield f"<h3>{escaped(name[0].upper() + name[1:])}</h3>"
        yield line_chart(data, f"Depth of {name}", lines, height=150)
    rows = [
        (data.named(one.queue), max(one.ready.values(), default=0),
         max(one.unacked.values(), default=0), one.ready_at_end)
        for one in sorted(data.queues, key=lambda one: -_deepest(one))[:TABLE_ROWS_MAX]
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
        (one.vhost, party_shown(one.source_kind, one.source),
         party_shown(one.target_kind, one.target), one.dead_letters, one.messages,
         f"{one.messages / seconds:,.2f}")
        for one in data.topology[:TABLE_ROWS_MAX]
    ]  # fmt: skip
    heads = ("vhost", "from", "to", "dead letters", "messages", "per second")
    yield _details("As a table", table("The busiest edges", heads, rows))


def _consumers(data: Aggregates) -> str:
    # The consumers that hold messages come first, and of the others the slowest.
    slowest = sorted(data.consumers, key=lambda one: (-one.unacknowledged, -(one.ack_p50_us or 0)))
    rows = [
        (data.named(one.queue), one.tag if one.tag is not None else "basic.get",
         one.connection, one.delivered, _acknowledged(one), one.unacknowledged,
         Measured("", -1) if one.ack_p50_us is None
         else Measured(duration(one.ack_p50_us), one.ack_p50_us))
        for one in slowest[:TABLE_ROWS_MAX]
    ]  # fmt: skip
    if not rows:
        return "<p>No consumers.</p>"
    heads = (
        "queue", "consumer", "connection", "delivered", "acknowledged", "unacknowledged",
        "median until acknowledged",
    )  # fmt: skip
    return _details("All consumers", table("Consumers", heads, rows), is_open=len(rows) <= 20)


def _acknowledged(one: ReportedConsumer) -> object:
    if not one.no_ack:
        return one.acknowledged
    return "none needed" if one.no_ack == one.delivered else f"{one.acknowledged:,} of those needed"


def _outcomes(data: Aggregates) -> str:
    by_queue: dict[Queue, list[str]] = {}
    for (queue, fate, reason), count in sorted(
        data.outcomes.items(), key=lambda item: (-item[1], item[0][1], item[0][2] or "")
    ):
        words = by_queue.setdefault(queue, [])
        if fate == ACKNOWLEDGED:
            # The table counts a delivery that needs no acknowledgement as acknowledged.
            without = min(count, data.no_ack.get(queue, 0))
            words += [f"{number:,} {name}" for number, name in (
                (count - without, "acknowledged"), (without, "delivered without acknowledgement"),
            ) if number]  # fmt: skip
        else:
            why = f" ({_REASONS.get(reason, reason)})" if reason else ""
            words.append(f"{count:,} {fate.replace('_', ' ')}{why}")
    rows = [
        (data.named(queue), listed(fates))
        for queue, fates in list(by_queue.items())[:TABLE_ROWS_MAX]
    ]
    if not rows:
        return "<p>No message entered a queue.</p>"
    return table("Outcomes of the messages of each queue", ("queue", "messages"), rows)


def _details(summary: str, content: str, is_open: bool = False) -> str:
    state = " open" if is_open else ""
    return f"<details{state}><summary>{escaped(summary)}</summary>{content}</details>"
