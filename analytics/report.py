"""`leveret report`: one HTML file of what the job has found, for people.

Exit codes: 0 if the file is written; 1 if there are no tables, or it cannot be written; 2 for
options that make no sense, and where there is no Java.
"""

import argparse
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from analytics.collect import collect
from analytics.java import JavaMissingError
from analytics.report_page import page
from analytics.session import start_session

EXIT_FAILED, EXIT_USAGE = 1, 2


def write_report(session: SparkSession, out: str, path: Path) -> None:
    """Write a report of the tables below `out`. Raises OSError, and AnalysisException of Spark."""
    text = page(collect(session, out))
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.write_text(text, "utf-8", "replace")
    unfinished.replace(path)


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit code."""
    parser = argparse.ArgumentParser(
        prog="leveret report", description="One HTML file of what `leveret analyze` found."
    )
    parser.add_argument("out", metavar="DIR", help="where the tables are: analyze's --out")
    parser.add_argument("--html", type=Path, metavar="FILE", help="the file (DIR/report.html)")
    parser.add_argument("--master", help="where Spark runs; local[*] if nothing else says so")
    options = parser.parse_args(arguments)
    path = options.html or _default_path(parser, options.out)
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    try:
        # What is shuffled is sums, which a few tasks are enough for.
        master = options.master or (None if is_submitted else "local[*]")
        session = start_session(master, shuffle_partitions=2)
    except JavaMissingError as error:
        sys.stderr.write(f"leveret report: {error}\n")
        return EXIT_USAGE
    try:
        write_report(session, options.out, path)
    except OSError as error:
        sys.stderr.write(f"leveret report: {path}: {error.strerror or error}\n")
        return EXIT_FAILED
    except AnalysisException as error:
        sys.stderr.write(f"leveret report: no tables in {options.out}: {error}\n")
        return EXIT_FAILED
    finally:
        session.stop()
    print(f"the report is in {path}")
    return 0


def _default_path(parser: argparse.ArgumentParser, out: str) -> Path:
    if len(urlsplit(out).scheme) > 1:
        parser.error(f"say with --html where the report of {out} is to be written")
    return Path(out) / "report.html"


if __name__ == "__main__":
    sys.exit(main())
