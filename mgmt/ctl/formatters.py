"""Tables, CSV and JSON, as rabbitmqctl prints them. Pure."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

BOLD, PLAIN = "\x1b[1m", "\x1b[0m"


def json_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """A list, an object a line."""
    if not rows:
        return "[]"
    return "[\n" + "\n,".join(json_text(row) for row in rows) + "\n]"


def json_text(value: Any) -> str:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def table_lines(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, with_headers: bool = True
) -> Iterator[str]:
    """Columns with tabs between them; the headers only if there are rows."""
    for number, row in enumerate(rows):
        if not number and with_headers:
            yield "\t".join(columns)
        yield "\t".join(cell(value) for value in row)


def cell(value: Any) -> str:
    """A value in a table."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _escaped(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "[" + ", ".join(value) + "]"
    if isinstance(value, list | dict):
        return json_text(value) if value else "[]"
    return str(value)


def _escaped(value: str) -> str:
    """Without what would break the table, or the terminal."""
    return "".join(
        character if character.isprintable() else f"\\{ord(character):03o}" for character in value
    ).replace("\t", "\\t")


def csv_lines(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Comma-separated values, with a header."""
    listed = list(rows)
    if not listed:
        return
    for row in (columns, *listed):
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow(
            ["" if value is None else value if isinstance(value, str) else cell(value)
             for value in row]
        )  # fmt: skip
        yield text.getvalue()


def pretty_lines(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """A table with lines around it."""
    shown = [[cell(value) for value in row] for row in rows]
    if not shown:
        return
    cells = [list(columns), *shown]
    widths = [max(len(row[place]) for row in cells) for place in range(len(columns))]
    yield _rule("┌┬┐", widths)
    yield _cells([name.ljust(width) for name, width in zip(columns, widths, strict=True)])
    for row in shown:
        yield _rule("├┼┤", widths)
        yield _cells([value.ljust(width) for value, width in zip(row, widths, strict=True)])
    yield _rule("└┴┘", widths)


def _rule(ends: str, widths: Sequence[int]) -> str:
    inner = ends[1].join("─" * (width + 2) for width in widths)
    return f"{ends[0]}{inner}{ends[2]}"


def _cells(values: Sequence[str]) -> str:
    return "│ " + " │ ".join(values) + " │"


UNITS = {"bytes": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "tb": 1000**4}


def amount(value: float, unit: str) -> str:
    """Bytes in another unit, as `89.2887 mb`."""
    return f"{round(value / UNITS[unit], 4)} {unit}"


def heading(text: str) -> str:
    """A heading in a report."""
    return f"{BOLD}{text}{PLAIN}\n"
