"""Writes the report of an analysis: one HTML file, beside the tables if these are local."""

from pathlib import Path

from leveret.analytics.findings.collect_evidence import collect_evidence
from leveret.analytics.findings.findings import findings
from leveret.analytics.report.collect import collect
from leveret.analytics.report.report_page import page
from leveret.analytics.tables.engine import Engine
from leveret.analytics.traces.local_files import is_local, local_path, replace_file

NAME = "report.html"


def write_report(engine: Engine, where: str, path: str) -> None:
    """Write a report of the tables below `where` to a local path.

    Raises OSError, MissingTablesError.
    """
    data = collect(engine, where)
    made = page(data, findings(collect_evidence(engine))).encode("utf-8", "replace")
    # The path can be the link to the report of the last run (tables/versions.py).
    replace_file(Path(local_path(path)).resolve(), made)


def report_path(where: str) -> str:
    """Return the default path of the report: beside the tables, or in the current directory."""
    return f"{where.rstrip('/')}/{NAME}" if is_local(where) else NAME
