"""Rows of the API as text: tables, lines of names and values, and words for bash."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

FIRST_COLUMNS = (
    "vhost", "name", "type", "source", "destination", "destination_type", "routing_key"
)  # fmt: skip
"""The columns that are shown before the others, which are sorted."""

Row = dict[str, Any]
Cells = list[list[str]]


def place(column: str) -> tuple[int, str]:
    """Return the key by which columns are sorted."""
    is_first = column in FIRST_COLUMNS
    return (FIRST_COLUMNS.index(column), "") if is_first else (len(FIRST_COLUMNS), column)


def flat(row: Row, depth: int, as_json: tuple[str, ...], prefix: str = "") -> dict[str, str]:
    """Return the cells of a row. Those of nested objects are `outer.inner`, down to a depth."""
    cells: dict[str, str] = {}
    for name, value in row.items():
        column = prefix + name
        if isinstance(value, dict) and name in as_json:
            cells[column] = json.dumps(value)
        elif isinstance(value, dict):
            if depth > 1:
                cells.update(flat(value, depth - 1, as_json, f"{column}."))
        elif isinstance(value, list):
            is_words = all(isinstance(one, str) for one in value)
            cells[column] = " ".join(value) if is_words else json.dumps(value)
        else:
            cells[column] = "" if value is None else str(value)
    return cells


def _table(columns: list[str], rows: Cells) -> Iterable[str]:
    widths = [max(map(len, cells)) for cells in zip(columns, *rows)]
    bar = "+" + "".join("-" * (width + 2) + "+" for width in widths)
    titles = "".join(f" {cell:^{width}} |" for cell, width in zip(columns, widths))
    yield from (bar, f"|{titles}", bar)
    for row in rows:
        yield "|" + "".join(f" {cell:<{width}} |" for cell, width in zip(row, widths))
    yield bar


def _long(columns: list[str], rows: Cells) -> Iterable[str]:
    rule = "\n" + "-" * 80 + "\n"
    width = max(map(len, columns))
    yield rule
    for row in rows:
        yield from (f"{name:>{width}}: {cell}" for name, cell in zip(columns, row))
        yield rule


def _tsv(columns: list[str], rows: Cells) -> Iterable[str]:
    return ("\t".join(row) for row in rows)


def _kvp(columns: list[str], rows: Cells) -> Iterable[str]:
    return (" ".join(f'{name}="{cell}"' for name, cell in zip(columns, row)) for row in rows)


def _bash(columns: list[str], rows: Cells) -> Iterable[str]:
    if "name" in columns:
        yield " ".join(row[columns.index("name")] for row in rows)


Format = Callable[[list[str], Cells], Iterable[str]]
FORMATS: dict[str, Format] = {
    "raw_json": _tsv, "pretty_json": _tsv, "tsv": _tsv, "long": _long, "table": _table,
    "kvp": _kvp, "bash": _bash,
}  # fmt: skip
"""The two JSON formats are printed as received."""
