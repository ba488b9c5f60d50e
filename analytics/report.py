"""`leveret report`: one HTML file of what the job has found, for people.

Exit codes: 0 if the file is written; 1 if there are no tables, or it cannot be written; 2 for
options that make no sense, and where there is no Java.
"""

import argparse
import os
import sys

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from analytics.collect import collect
from analytics.files import write_file
from analytics.java import JavaMissingError
from analytics.report_page import page
from analytics.session import start_session

EXIT_FAILED, EXIT_USAGE = 1, 2


def write_report(session: SparkSession, out: str, path: str) -> None:
    """Write a report of the tables below `out`. Raises OSError, and AnalysisException of Spark.

    path: of this machine, or a URL that Hadoop knows.
    """
    write_file(session, path, page(collect(session, out)).encode("utf-8", "replace"))


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit code."""
    parser = argparse.ArgumentParser(
        prog="leveret report", description="One HTML file of what `leveret analyze` found."
    )
    parser.add_argument("out", metavar="DIR", help="where the tables are: analyze's --out")
    parser.add_argument("--html", metavar="FILE", help="the file (DIR/report.html)")
    parser.add_argument("--master", help="where Spark runs; local[*] if nothing else says so")
    options = parser.parse_args(arguments)
    path = options.html or report_path(options.out)
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


def report_path(out: str) -> str:
    """Where the report of tables is if nobody says otherwise."""
    return f"{out.rstrip('/')}/report.html"


if __name__ == "__main__":
    sys.exit(main())
