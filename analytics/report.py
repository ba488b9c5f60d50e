"""`leveret report`: writes one HTML file with findings and charts from the tables of the job.

Exit codes: 0 if the file was written; 1 if there are no tables or the file cannot be written; 2 for
invalid options or if Java is missing.
"""

import argparse
import os
import sys

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from leveret.analytics.collect import collect
from leveret.analytics.files import write_file
from leveret.analytics.java import JavaMissingError
from leveret.analytics.report_page import page
from leveret.analytics.session import start_session

EXIT_FAILED, EXIT_USAGE = 1, 2


def write_report(session: SparkSession, out: str, path: str) -> None:
    """Write a report of the tables below `out`. Raises OSError, and Spark's AnalysisException.

    path: a local path or a Hadoop URL.
    """
    write_file(session, path, page(collect(session, out)).encode("utf-8", "replace"))


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="leveret report", description="Write an HTML report of `leveret analyze`'s tables."
    )
    parser.add_argument("out", metavar="DIR", help="the tables' directory: analyze's --out")
    parser.add_argument("--html", metavar="FILE", help="the file to write (DIR/report.html)")
    parser.add_argument("--master", help="Spark master; local[*] by default")
    options = parser.parse_args(arguments)
    path = options.html or report_path(options.out)
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    try:
        # Only sums are shuffled: two tasks are enough.
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
    print(f"report: {path}")
    return 0


def report_path(out: str) -> str:
    """Return the default path of the report."""
    return f"{out.rstrip('/')}/report.html"


if __name__ == "__main__":
    sys.exit(main())
