"""Writes the report of an analysis: one HTML file, beside the tables if these are local."""

from pathlib import Path

from leveret.analytics.report.collect import collect
from leveret.analytics.report.report_page import page
from leveret.analytics.tables.engine import Engine
from leveret.analytics.traces.local_files import is_local, local_path, replace_file

NAME = "report.html"


def write_report(engine: Engine, out: str, path: str) -> None:
    """Write a report of the tables below `out` to a local path.

    Raises OSError, MissingTablesError.
    """
    replace_file(Path(local_path(path)), page(collect(engine, out)).encode("utf-8", "replace"))


def report_path(out: str) -> str:
    """Return the default path of the report: beside the tables, or in the current directory."""
    return f"{out.rstrip('/')}/{NAME}" if is_local(out) else NAME
