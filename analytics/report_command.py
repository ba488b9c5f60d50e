"""`leveret report`: writes one HTML file with findings and charts from the tables of the job.

Exit codes: 0 if the file was written; 1 if there are no tables or the file cannot be written; 2 for
invalid options or if a package or Java is missing.
"""

import argparse
import os
import sys

from leveret.analytics.job.engines import (
    AUTO,
    ENGINES,
    SHARED_PATHS,
    SPARK,
    EngineError,
    choose_for_tables,
    opened,
)
from leveret.analytics.job.java import JavaMissingError
from leveret.analytics.report.report_file import report_path, write_report
from leveret.analytics.tables.versions import MissingTablesError

EXIT_FAILED, EXIT_USAGE = 1, 2


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="leveret report", description="Write an HTML report of `leveret analyze`'s tables."
    )
    parser.add_argument("out", metavar="DIR", help="the tables' directory: analyze's --out")
    parser.add_argument("--html", metavar="FILE", help="the local file to write (DIR/report.html)")
    parser.add_argument(
        "--engine", choices=ENGINES, default=AUTO,
        help="auto (the default): duckdb, and spark for tables on another file system",
    )  # fmt: skip
    parser.add_argument("--master", help="Spark master; local[*] by default")
    parser.add_argument("--shared-paths", action="store_true", help=SHARED_PATHS)
    options = parser.parse_args(arguments)
    path = options.html or report_path(options.out)
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    asked = SPARK if is_submitted else options.engine
    master = options.master or (None if is_submitted else "local[*]")
    try:
        choice = choose_for_tables(asked, options.out, "--master" if options.master else "")
        # Only sums are shuffled: two tasks are enough.
        paths = () if options.shared_paths else (options.out,)
        with opened(choice.engine, paths, master=master, partitions=2) as engine:
            write_report(engine, engine.published(options.out), path)
    except (EngineError, JavaMissingError) as error:
        sys.stderr.write(f"leveret report: {error}\n")
        return EXIT_USAGE
    except OSError as error:
        about = f"{path}: {error.strerror}" if error.strerror else str(error)
        sys.stderr.write(f"leveret report: {about}\n")
        return EXIT_FAILED
    except MissingTablesError as error:
        sys.stderr.write(f"leveret report: {error}\n")
        return EXIT_FAILED
    print(f"report: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
