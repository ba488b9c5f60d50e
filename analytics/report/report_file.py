"""Writes the report of an analysis: one HTML file beside the tables."""

from leveret.analytics.report.collect import collect
from leveret.analytics.report.report_page import page
from leveret.analytics.tables.engine import Engine


def write_report(engine: Engine, out: str, path: str) -> None:
    """Write a report of the tables below `out`. Raises OSError, MissingTablesError.

    path: a local path or, with Spark, a Hadoop URL.
    """
    engine.write_file(path, page(collect(engine, out)).encode("utf-8", "replace"))


def report_path(out: str) -> str:
    """Return the default path of the report."""
    return f"{out.rstrip('/')}/report.html"
