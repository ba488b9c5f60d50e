"""Reads the tables that the job has written, whatever engine made them."""

import re
from pathlib import Path

import pyarrow.parquet as pq

from leveret.analytics.tables.tables import TABLES
from leveret.analytics.tables.versions import CURRENT, SLOTS


class Row(dict):
    """A row, or a struct in it. Its columns are attributes, too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def tables_of(out):
    """The directory of the published tables. On another file system there is no link."""
    current = Path(out) / CURRENT
    return current if current.exists() else Path(out) / SLOTS[0]


def read_rows(out, name):
    """Return the rows of a table, without an order; `date` is the text of its directory."""
    directory = tables_of(out) / name
    assert directory.is_dir()
    return [
        Row({key: _value(value) for key, value in row.items()}, date=path.parent.name[5:])
        for path in directory.glob("date=*/*.parquet")
        for row in pq.ParquetFile(path).read().to_pylist()
    ]


def _value(value):
    if isinstance(value, dict):
        return Row(value)
    return [_value(one) for one in value] if isinstance(value, list) else value


def everything(out, names=tuple(table.name for table in TABLES)):
    """Return all rows of tables as sorted texts, by table."""
    return {name: sorted(map(repr, read_rows(out, name))) for name in names}


def without_directories(tables):
    """The tables with the names of files: they are the same in another directory."""
    directory = re.compile(r"(?<='file': ')[^']*/|(?<= in )(?:\w+:)?/[^' ]*/")
    return {name: [directory.sub("", row) for row in rows] for name, rows in tables.items()}
