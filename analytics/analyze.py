"""`leveret analyze`: reads the options, runs the job and prints a summary.

spark-submit takes the same file. Exit codes: 0 on success, even if lines were rejected; 1 if there
are no logs; 2 for invalid options or if Java is missing; 130 after Ctrl-C.
"""

import argparse
import os
import sys
import time

from leveret.analytics.follow import follow
from leveret.analytics.java import JavaMissingError
from leveret.analytics.job import Options, Outcome, analyze
from leveret.analytics.report import report_path
from leveret.analytics.session import start_session
from leveret.analytics.trace_files import Window, read_moment

EXIT_NOTHING, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


def read_options(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="leveret analyze", description="Make tables of trace logs (docs/analytics.md)."
    )
    parser.add_argument(
        "directory", metavar="TRACE_DIR", help="a local path, hdfs://... or s3a://..."
    )
    parser.add_argument("--out", required=True, help="the directory for the tables")
    parser.add_argument(
        "--from",
        dest="from_us",
        type=read_moment,
        help="start time, for example 2026-01-31T07:00",
    )
    parser.add_argument("--to", dest="to_us", type=read_moment, help="end time (exclusive)")
    parser.add_argument("--vhost", help="only this virtual host")
    parser.add_argument("--master", help="Spark master; local[*] by default")
    parser.add_argument(
        "--poison-above", type=int, default=5, metavar="N",
        help="messages delivered more than N times are poison (%(default)s)",
    )  # fmt: skip
    parser.add_argument("--follow", action="store_true", help="keep running and add new logs")
    parser.add_argument(
        "--every", type=float, default=60.0, metavar="SECONDS",
        help="with --follow: seconds between updates of the tables (60)",
    )  # fmt: skip
    parser.add_argument(
        "--keep-days", type=int, default=7, metavar="N",
        help="with --follow: number of days that can still change (7)",
    )  # fmt: skip
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the job and return the exit code."""
    options = read_options(sys.argv[1:] if arguments is None else arguments)
    window = Window(options.from_us, options.to_us, options.vhost)
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    started = time.monotonic()
    try:
        session = start_session(options.master or (None if is_submitted else "local[*]"))
    except JavaMissingError as error:
        sys.stderr.write(f"leveret analyze: {error}\n")
        return EXIT_USAGE
    try:
        what = Options(options.directory, options.out, window, options.poison_above)
        if options.follow:
            follow(session, what, options.every, options.keep_days)
            return 0
        outcome = analyze(session, what)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except FileNotFoundError as error:
        sys.stderr.write(f"leveret analyze: {error}\n")
        return EXIT_NOTHING
    finally:
        session.stop()
    sys.stdout.write(_summary(outcome, options.out, time.monotonic() - started))
    return 0 if outcome.files else EXIT_NOTHING


def _summary(outcome: Outcome, out: str, seconds: float) -> str:
    rejected = f"; {outcome.rejected:,} rejected, see {out}/rejected" if outcome.rejected else ""
    return (
        f"{outcome.events:,} records of {outcome.files:,} files in {seconds:.0f} s{rejected}\n"
        f"tables: {out}\nreport: {report_path(out)}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
