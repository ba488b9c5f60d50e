"""`leveret analyze`: reads the options, runs the job and prints a summary.

spark-submit takes the same file. Exit codes: 0 on success, even if lines were rejected; 1 if there
are no logs, or tables cannot be written; 2 for invalid options or if a package or Java is missing;
130 after Ctrl-C.
"""

import argparse
import importlib
import os
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext

from leveret.analytics.job.costs import COSTS
from leveret.analytics.job.engines import (
    AUTO,
    DUCKDB,
    ENGINES,
    EVENTS_MAX,
    SHARED_PATHS,
    SPARK,
    Choice,
    EngineError,
    choose,
    opened,
    why,
)
from leveret.analytics.job.estimate import Estimate
from leveret.analytics.job.java import JavaMissingError
from leveret.analytics.job.job import JobOptions, analyze
from leveret.analytics.job.progress import JobProgress, shown_seconds
from leveret.analytics.report.report_file import report_path
from leveret.analytics.tables.engine import ReadCounts
from leveret.analytics.tables.versions import only_writer
from leveret.analytics.traces.local_files import is_local
from leveret.analytics.traces.trace_files import TraceWindow, read_moment

EXIT_NOTHING, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


def read_days(text: str) -> int:
    """Return a number of days. Raises ArgumentTypeError."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days, such as 7")
    return int(text)


def read_options(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="leveret analyze", description="Make tables of trace logs (docs/operate/analytics.md)."
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
    parser.add_argument(
        "--engine", choices=ENGINES, default=AUTO,
        help=f"auto (the default): duckdb, and spark for more than {EVENTS_MAX:,} events",
    )  # fmt: skip
    parser.add_argument("--master", help="Spark master; local[*] by default")
    parser.add_argument("--shared-paths", action="store_true", help=SHARED_PATHS)
    parser.add_argument(
        "--poison-above", type=int, default=5, metavar="N",
        help="messages delivered more than N times are poison (%(default)s)",
    )  # fmt: skip
    parser.add_argument("--follow", action="store_true", help="keep running and add new records")
    parser.add_argument(
        "--every", type=float, default=20.0, metavar="SECONDS",
        help="with --follow: seconds between updates of the tables (20)",
    )  # fmt: skip
    parser.add_argument(
        "--keep-days", type=read_days, default=7, metavar="N",
        help="with --follow: number of days that can still change (7)",
    )  # fmt: skip
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the job and return the exit code."""
    options = read_options(sys.argv[1:] if arguments is None else arguments)
    window = TraceWindow(options.from_us, options.to_us, options.vhost)
    what = JobOptions(options.directory, options.out, window, options.poison_above)
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    wants_spark = "--master" if options.master else ""
    engine = SPARK if is_submitted else options.engine
    if options.follow and engine == AUTO and not wants_spark and _are_local(what):
        engine = DUCKDB
    master = options.master or (None if is_submitted else "local[*]")
    paths = () if options.shared_paths else (what.directory, what.out)
    try:
        choice = choose(engine, what.directory, what.out, window, wants_spark)
        with only_writer(what.out) if is_local(what.out) else nullcontext():
            if not options.follow:
                return _analyze(choice, what, paths, master)
            if choice.engine == DUCKDB:
                importlib.import_module("leveret.analytics.job.follow_quickly").follow_quickly(
                    what, options.every, options.keep_days
                )
            importlib.import_module("leveret.analytics.job.follow").run_follow(
                what, paths, master, options.every, options.keep_days
            )
            return 0
    except (EngineError, JavaMissingError) as error:
        sys.stderr.write(f"leveret analyze: {error}\n")
        return EXIT_USAGE
    except OSError as error:
        sys.stderr.write(f"leveret analyze: {why(error)}\n")
        return EXIT_NOTHING
    except MemoryError as error:
        sys.stderr.write(
            f"leveret analyze: more memory is needed ({error}): choose a shorter time\n"
        )
        return EXIT_NOTHING
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _are_local(options: JobOptions) -> bool:
    return is_local(options.directory) and is_local(options.out)


def _analyze(choice: Choice, options: JobOptions, paths: Sequence[str], master: str | None) -> int:
    started = time.monotonic()
    costs = COSTS[choice.engine]
    if choice.files:
        files = "file" if choice.files == 1 else "files"
        expected = shown_seconds(Estimate(costs, choice.events, choice.blocks).left())
        sys.stderr.write(
            f"about {choice.events:,} events in {choice.files:,} {files}, with {choice.engine}:"
            f" about {expected}\n"
        )
    with opened(choice.engine, paths, options.work, master) as engine:
        progress = JobProgress(engine.parts, costs, choice.events, blocks=choice.blocks)
        reading = analyze(engine, options, progress)
    sys.stdout.write(_summary(reading, options.out, time.monotonic() - started))
    return 0 if reading.files else EXIT_NOTHING


def _summary(reading: ReadCounts, out: str, seconds: float) -> str:
    made = report_path(out) if is_local(out) else f"'leveret report {out}' makes it"
    rejected = (
        f"; {reading.rejected:,} rejected, see the table rejected" if reading.rejected else ""
    )
    return (
        f"{reading.events:,} records of {reading.files:,} files in {seconds:.0f} s{rejected}\n"
        f"tables: {out}\nreport: {made}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
