"""Charts as inline SVG: lines over time, heat maps and bars. Pure.

Colours are CSS classes, so that the style sheet defines them for light and dark. A heat map uses
one colour in several strengths, which prints well and does not depend on colour vision. Every chart
has a title and a description for screen readers, and the page repeats its data as a table. All text
from outside goes through `escaped`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

from leveret.analytics.formatting import SECOND_US, duration, shown
from leveret.analytics.report.aggregates import Aggregates

WIDTH, HEIGHT = 900, 220
LEFT, RIGHT, TOP, BOTTOM = 84, 12, 12, 28
POINTS_MAX = 300
TIME_TICKS_MAX = 8

Label = Callable[[float], str]


class Measured(NamedTuple):
    """A cell of a table that is sorted by a number."""

    text: str
    value: float


class Line(NamedTuple):
    """A line of a chart. values: by step. missing: value of other steps; None breaks the line."""

    label: str
    values: Mapping[int, int]
    missing: int | None = 0


def escaped(text: object) -> str:
    """Escape text for HTML elements and attributes."""
    return escape(shown(text), quote=True)


def framed(title: str, description: str, content: str, height: int = HEIGHT) -> str:
    """Return the SVG element around a chart's content."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escaped(title)}. {escaped(description)}">'
        f"<title>{escaped(title)}</title>{content}</svg>"
    )


# Scales


def ticks(highest: float, count: int = 4) -> list[float]:
    """Return round numbers from 0 up to at least the highest value."""
    if highest <= 0:
        return [0, 1]
    raw = highest / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw)
    return [step * index for index in range(math.ceil(highest / step) + 1)]


def short_number(value: float) -> str:
    """Format a number: 1.2 k, 3 M."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def _x(step: float, steps: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * step / max(1, steps)


def _y(value: float, highest: float, height: int) -> float:
    return TOP + (height - TOP - BOTTOM) * (1 - value / highest)


TICKS_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
    86_400, 172_800, 604_800, 1_209_600, 2_592_000, 7_776_000, 31_536_000,
)  # fmt: skip
"""Times between marks of the time axis, seconds."""


def time_ticks(begins_us: int, ends_us: int) -> list[tuple[int, str]]:
    """Return round times of a trace and their labels; its length decides whether days are shown."""
    length_s = max(1, (ends_us - begins_us) / SECOND_US)
    every_s = next((one for one in TICKS_S if length_s / one <= TIME_TICKS_MAX), TICKS_S[-1])
    every_us = every_s * SECOND_US
    form = "%H:%M:%S" if every_s < 60 else "%H:%M" if every_s < 86_400 else "%Y-%m-%d"
    found, day = [], ""
    for time_us in range(-(-begins_us // every_us) * every_us, ends_us, every_us):
        moment = datetime.fromtimestamp(time_us / SECOND_US, UTC)
        label, new_day = f"{moment:{form}}", f"{moment:%m-%d}"
        # A new day is shown once, unless the labels contain it anyway.
        is_told = day and new_day != day and every_s < 86_400
        found.append((time_us, f"{new_day} {label}" if is_told else label))
        day = new_day
    return found


def _x_of_time(data: Aggregates, time_us: int) -> float:
    return _x(min(max((time_us - data.begins_us) / data.step_us, 0), data.steps), data.steps)


def _time_axis(data: Aggregates, height: int) -> str:
    marks = []
    for time_us, label in time_ticks(data.begins_us, data.time_of(data.steps)):
        x = _x_of_time(data, time_us)
        anchor = "end" if x > WIDTH - RIGHT - 30 else "middle"
        marks.append(
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{height - BOTTOM}"'
            f' y2="{height - BOTTOM + 5}"/><text class="axis" x="{x:.1f}" y="{height - 8}"'
            f' text-anchor="{anchor}">{escaped(label)}</text>'
        )
    begins_s, ends_s = data.begins_us / SECOND_US, data.time_of(data.steps) / SECOND_US
    return (
        f'<g class="times" data-begins="{begins_s}" data-ends="{ends_s}"'
        f' data-bottom="{height - BOTTOM}">{"".join(marks)}</g>'
    )


def _plot(drawn: str, height: int) -> str:
    """Return what is drawn over time as a picture of its own, of which the page can show a part."""
    width = WIDTH - LEFT - RIGHT
    return (
        f'<svg class="plot" x="{LEFT}" y="0" width="{width}" height="{height}"'
        f' viewBox="{LEFT} 0 {width} {height}" preserveAspectRatio="none">{drawn}</svg>'
    )


def _value_axis(levels: Sequence[float], height: int, label: Label) -> str:
    marks = []
    for level in levels:
        y = _y(level, levels[-1], height)
        marks.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="axis" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{escaped(label(level))}</text>"
        )
    return "".join(marks)


# Lines


def line_chart(
    data: Aggregates, title: str, lines: Sequence[Line], label: Label = short_number,
    height: int = HEIGHT,
) -> str:  # fmt: skip
    """Draw lines over the time of the trace, with a legend."""
    highest = max((max(line.values.values(), default=0) for line in lines), default=0)
    levels = ticks(highest)
    drawn = "".join(
        f'<path class="line s{number}" d="{_path(data, line, levels[-1], height)}">'
        f"<title>{escaped(line.label)}</title></path>"
        for number, line in enumerate(lines, 1)
    )
    content = _value_axis(levels, height, label) + _time_axis(data, height) + _plot(drawn, height)
    peaks = ", ".join(
        f"{line.label} up to {label(max(line.values.values(), default=0))}" for line in lines
    )
    legend = "".join(
        f'<span class="key k{number}">{escaped(line.label)}</span>'
        for number, line in enumerate(lines, 1)
    )
    svg = framed(title, peaks, content, height)
    return f'<div class="chart">{svg}<p class="legend" aria-hidden="true">{legend}</p></div>'


def _path(data: Aggregates, line: Line, highest: float, height: int) -> str:
    if data.steps == 1:
        # A single point would hardly be visible.
        return f"M{LEFT} {_y(line.values.get(0, 0), highest, height):.1f}H{WIDTH - RIGHT}"
    group = max(1, math.ceil(data.steps / POINTS_MAX))
    parts, has_pen = [], False
    for start in range(0, data.steps, group):
        there = [line.values[step] for step in range(start, start + group) if step in line.values]
        if not there and line.missing is None:
            has_pen = False
            continue
        x, y = _x(start + group / 2, data.steps), _y(max(there, default=0), highest, height)
        # A move without a line shows as a dot, since line ends are round.
        parts.append(f"L{x:.1f} {y:.1f}" if has_pen else f"M{x:.1f} {y:.1f}h0")
        has_pen = True
    return "".join(parts)


# Heat maps


def heat_map(data: Aggregates, title: str, cells: Mapping[tuple[int, int], int]) -> str:
    """Draw message counts by column and upper bound of the wait, a power of two in microseconds."""
    if not cells:
        return ""
    bounds = _bounds([up_to for _, up_to in cells])
    row_height = 14
    height = TOP + BOTTOM + row_height * len(bounds)
    most = max(cells.values())
    rows = {bound: TOP + row_height * index for index, bound in enumerate(reversed(bounds))}
    drawn = [
        _heat_cell(data, column, rows[bound], row_height, _strength(count, most),
                   _cell(data, column, bound, count))
        for (column, bound), count in sorted(cells.items())
    ]  # fmt: skip
    labels = [
        f'<text class="axis" x="{LEFT - 6}" y="{y + 11}" text-anchor="end">'
        f"{escaped(duration(bound))}</text>"
        for index, (bound, y) in enumerate(rows.items())
        if index % max(1, len(rows) // 10) == 0
    ]
    longest = duration(bounds[-1])
    content = "".join([*labels, _time_axis(data, height), _plot("".join(drawn), height)])
    description = f"Waiting times of messages, up to {longest}"
    svg = framed(title, description, content, height)
    return f'<div class="chart">{svg}{_heat_scale(most)}</div>'


def _heat_cell(
    data: Aggregates, column: int, y: float, height: int, strength: str, words: str
) -> str:
    begins_us = data.heat_begins_us + column * data.column_us
    x, end = _x_of_time(data, begins_us), _x_of_time(data, begins_us + data.column_us)
    return (
        f'<rect class="heat" x="{x:.1f}" y="{y}" width="{max(1.0, end - x) + 0.1:.1f}"'
        f' height="{height}" fill-opacity="{strength}"><title>{words}</title></rect>'
    )


def _heat_scale(most: int) -> str:
    """Return the meaning of the strengths: 1, 10, 100, ... messages, and the most."""
    counts = [10**power for power in range(len(str(most))) if 10**power < most] + [most]
    keys = "".join(
        f'<span class="heat-key"><svg viewBox="0 0 24 12"><rect class="heat" width="24" height="12"'
        f' fill-opacity="{_strength(count, most)}"/></svg>{count:,}</span>'
        for count in counts
    )
    return f'<p class="legend" aria-hidden="true">messages in a cell: {keys}</p>'


def _bounds(found: Sequence[int]) -> list[int]:
    """Return all bounds from the lowest to the highest, including empty ones."""
    bounds, bound, highest = [], max(1, min(found)), max(found)
    while bound < highest:
        bounds.append(bound)
        bound *= 2
    return sorted({*bounds, highest, *found})


def _strength(count: int, most: int) -> str:
    """Return the opacity on a logarithmic scale, which keeps a few slow messages visible."""
    return f"{0.15 + 0.85 * math.log1p(count) / math.log1p(most):.2f}"


def _cell(data: Aggregates, column: int, bound: int, count: int) -> str:
    when = data.clock(data.heat_begins_us + column * data.column_us)
    return escaped(f"{when}: {count:,} waited up to {duration(bound)}")


# Bars


def bar_chart(title: str, bars: Sequence[tuple[str, int]]) -> str:
    """Draw one bar for each label."""
    if not bars:
        return ""
    height = HEIGHT
    levels = ticks(max(value for _, value in bars))
    width = (WIDTH - LEFT - RIGHT) / len(bars)
    drawn = []
    for index, (label, value) in enumerate(bars):
        x, y = LEFT + width * index, _y(value, levels[-1], height)
        drawn.append(
            f'<rect class="bar" x="{x + 2:.1f}" y="{y:.1f}" width="{max(1, width - 4):.1f}"'
            f' height="{height - BOTTOM - y:.1f}"><title>{escaped(label)}: {value:,}</title></rect>'
            f'<text class="axis" x="{x + width / 2:.1f}" y="{height - 8}" text-anchor="middle">'
            f"{escaped(label)}</text>"
        )
    content = _value_axis(levels, height, short_number) + "".join(drawn)
    top = max(bars, key=lambda bar: bar[1])
    svg = framed(title, f"Most, {top[1]:,}, in {top[0]}", content)
    return f'<div class="chart">{svg}</div>'


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return an HTML table. Numbers are right-aligned."""
    head = "".join(f'<th scope="col">{escaped(name)}</th>' for name in heads)
    body = "".join(f"<tr>{''.join(map(_cell_of_table, row))}</tr>" for row in rows)
    return (
        f'<div class="table"><table><caption>{escaped(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell_of_table(value: object) -> str:
    if isinstance(value, int):
        return f'<td class="number">{value:,}</td>'
    if isinstance(value, Measured):
        return f'<td data-value="{value.value}">{escaped(value.text)}</td>'
    return f"<td>{escaped('' if value is None else value)}</td>"
