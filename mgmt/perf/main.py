"""`leveret perf`: reads the options, does the run, and says what went wrong.

Exit codes: 0 if all went well, Ctrl-C included; 1 if the broker cannot be reached, refused
something or closed a connection; 2 for options that make no sense.
"""

import asyncio
import sys

from mgmt.perf.arguments import read_options
from mgmt.perf.connection import PerfError
from mgmt.perf.options import Options
from mgmt.perf.report import Report
from mgmt.perf.run import Run

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit code."""
    options = read_options(sys.argv[1:] if arguments is None else arguments)
    try:
        with Report(options) as report:
            error = _run(options, report)
    except OSError as failure:
        sys.stderr.write(f"leveret perf: {failure.filename}: {failure.strerror}\n")
        return EXIT_USAGE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    if error is not None:
        sys.stderr.write(f"leveret perf: {error}\n")
    return EXIT_FAILED if error is not None else 0


def _run(options: Options, report: Report) -> str | None:
    """Do it; what ended it before its time."""
    error = None
    try:
        asyncio.run(Run(options, report).run())
    except PerfError as failure:
        error = str(failure)
    if options.json:
        report.print_json(error)
    return error


if __name__ == "__main__":
    sys.exit(main())
