"""`leveret analyze`: reads the options, runs the job, and says what it found.

The same file is what spark-submit takes. Exit codes: 0 if all went well, even if lines had to be
set aside; 1 if there are no logs; 2 for options that make no sense, and where there is no Java.
"""

import argparse
import os
import sys
import time

from analytics.follow import follow
from analytics.java import JavaMissingError
from analytics.job import Options, Outcome, analyze
from analytics.report import report_path
from analytics.session import start_session
from analytics.trace_files import MomentError, Window, read_moment

EXIT_NOTHING, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


def read_options(arguments: list[str]) -> argparse.Namespace:
    """The command line's options."""
    parser = argparse.ArgumentParser(
        prog="leveret analyze", description="Make tables of trace logs (docs/analytics.md)."
    )
    parser.add_argument(
        "directory", metavar="TRACE_DIR", help="a local path, hdfs://... or s3a://..."
    )
    parser.add_argument("--out", required=True, help="where the tables are written to")
    parser.add_argument(
        "--from", dest="from_us", type=moment, help="from when on, as 2026-01-31T07:00"
    )
    parser.add_argument("--to", dest="to_us", type=moment, help="up to when")
    parser.add_argument("--vhost", help="one virtual host only")
    parser.add_argument("--master", help="where Spark runs; local[*] if nothing else says so")
    parser.add_argument(
        "--poison-above", type=int, default=5, metavar="N",
        help="messages delivered more than N times are poison (5)",
    )  # fmt: skip
    parser.add_argument("--follow", action="store_true", help="go on as logs are completed")
    parser.add_argument(
        "--every", type=float, default=60.0, metavar="SECONDS",
        help="with --follow: how often the tables are written (60)",
    )  # fmt: skip
    parser.add_argument(
        "--keep-days", type=int, default=7, metavar="N",
        help="with --follow: earlier dates are final (7)",
    )  # fmt: skip
    return parser.parse_args(arguments)


def moment(text: str) -> int:
    """Microseconds since 1970; see `read_moment`."""
    try:
        return read_moment(text)
    except MomentError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def main(arguments: list[str] | None = None) -> int:
    """Run the job; the exit code."""
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
    aside = f"; {outcome.rejected:,} set aside, see {out}/rejected" if outcome.rejected else ""
    return (
        f"{outcome.events:,} records of {outcome.files:,} files in {seconds:.0f} s{aside}\n"
        f"the tables are in {out}, and what is in them in words: {report_path(out)}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
