"""Tables, CSV and JSON in the formats of rabbitmqctl."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from leveret.broker.erlang.terms import format_term
from leveret.mgmt.ctl.amqp_tables import AmqpTable, format_table
from leveret.mgmt.ctl.emphasis import bold
from leveret.mgmt.ctl.ip_addresses import IpAddress

FORMATTERS = ("table", "json", "csv", "pretty_table", "string", "report")
FOR_PROGRAMS = ("json", "csv")
"""Formats in which only the result is printed."""


def json_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Format a list as JSON, one object per line."""
    yield "["
    for number, row in enumerate(rows):
        text = json_text(dict(zip(columns, row, strict=True)))
        yield f",{text}" if number else text
    yield "]"


def json_text(value: Any) -> str:
    """Format a value as compact JSON."""
    return json.dumps(_for_json(value), separators=(",", ":"), ensure_ascii=False)


def json_facts(facts: dict[str, Any]) -> str:
    """Format as compact JSON with sorted keys, as RabbitMQ's tools print single objects."""
    return json.dumps(
        _for_json(facts), separators=(",", ":"), ensure_ascii=False, sort_keys=True
    )  # fmt: skip


def _for_json(value: Any) -> Any:
    if isinstance(value, IpAddress):
        return value.numbers()
    if isinstance(value, dict):
        return {key: _for_json(one) for key, one in value.items()}
    return value


def table_lines(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, with_headers: bool = True
) -> Iterator[str]:
    """Format columns separated by tabs; with headers only if there are rows."""
    for number, row in enumerate(rows):
        if not number and with_headers:
            yield "\t".join(columns)
        yield "\t".join(cell(value) for value in row)


def padded_time(text: str) -> str:
    """A time as lists of shovels and links show it, with two digits for the hour."""
    date, _, time = text.partition(" ")
    return f"{date} {time:0>8}"


def cell(value: Any) -> str:
    """Format a value for a table."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _escaped(value)
    if isinstance(value, AmqpTable):
        return _escaped(format_table(value))
    if isinstance(value, tuple):
        return format_term(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "[" + ", ".join(_escaped(item) for item in value) + "]"
    if isinstance(value, dict):
        inner = ", ".join(f"{_escaped(key)} => {cell(one)}" for key, one in value.items())
        return f"#{{{inner}}}"
    return _escaped(json_text(value)) if isinstance(value, list) else str(value)


def _escaped(value: str) -> str:
    """Escape characters that would break the table or control the terminal."""
    if value.isprintable():
        return value
    return "".join(
        one if one.isprintable() else "\\t" if one == "\t" else f"\\{ord(one):03o}" for one in value
    )


def csv_lines(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, with_headers: bool = True
) -> Iterator[str]:
    """Format comma-separated, quoted values; with a header only if there are rows."""
    for number, row in enumerate(rows):
        if not number and with_headers:
            yield ",".join(_in_quotes(name) for name in columns)
        yield ",".join(_in_quotes(_csv_text(value)) for value in row)


def _csv_text(value: Any) -> str:
    return str(value) if isinstance(value, str) else cell(value)


def _in_quotes(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def pretty_lines(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Format a table with borders; nothing if there are no rows."""
    cells = [[_pretty_cell(value) for value in row] for row in rows]
    if not cells:
        return
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    yield _rule("┌┬┐", widths)
    titles = zip(columns, widths, strict=True)
    yield _cells(f"{bold(name)}{' ' * (width - len(name))}" for name, width in titles)
    for row in cells:
        yield _rule("├┼┤", widths)
        yield _cells(value.ljust(width) for value, width in zip(row, widths, strict=True))
    yield _rule("└┴┘", widths)


def _pretty_cell(value: Any) -> str:
    """Format like a plain table, but a list of words without brackets."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(_escaped(item) for item in value)
    return "" if isinstance(value, AmqpTable) and not value else cell(value)


def _rule(ends: str, widths: Sequence[int]) -> str:
    inner = ends[1].join("─" * (width + 2) for width in widths)
    return f"{ends[0]}{inner}{ends[2]}"


def _cells(values: Iterable[str]) -> str:
    return "│ " + " │ ".join(values) + " │"


UNITS = {
    "bytes": 1,
    **dict.fromkeys(("k", "kb", "kilobytes"), 1000),
    **dict.fromkeys(("m", "mb", "megabytes"), 1000**2),
    **dict.fromkeys(("g", "gb", "gigabytes"), 1000**3),
    **dict.fromkeys(("t", "tb", "terabytes"), 1000**4),
    **dict.fromkeys(("p", "pb", "petabytes"), 1000**5),
    **{f"{letter}i{b}": 1024**power for power, letter in enumerate("kmgtp", 1) for b in ("", "b")},
}


def amount(value: float, unit: str) -> str:
    """Format bytes in another unit, as `89.2887 mb`."""
    if unit == "bytes":
        return f"{int(value)} bytes"
    return f"{round(value / UNITS[unit], 4)} {unit}"
