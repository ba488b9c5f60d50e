"""`leveret perf`: reads the options, executes the run and reports errors.

Exit codes: 0 on success, also after Ctrl-C; 1 if the broker cannot be reached, refused something or
closed a connection; 2 for invalid options.
"""

import asyncio
import sys

from leveret.mgmt.perf.arguments import read_options
from leveret.mgmt.perf.connection import PerfError
from leveret.mgmt.perf.options import PerfOptions
from leveret.mgmt.perf.report import PerfReport
from leveret.mgmt.perf.run import PerfRun

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return the exit code."""
    options = read_options(sys.argv[1:] if arguments is None else arguments)
    try:
        with PerfReport(options) as report:
            error = _run(options, report)
    except OSError as failure:
        sys.stderr.write(f"leveret perf: {failure.filename}: {failure.strerror}\n")
        return EXIT_USAGE
    except (KeyboardInterrupt, asyncio.CancelledError):
        return EXIT_INTERRUPTED
    if error is not None:
        sys.stderr.write(f"leveret perf: {error}\n")
    return EXIT_FAILED if error is not None else 0


def _run(options: PerfOptions, report: PerfReport) -> str | None:
    """Execute the run, and return the reason if it was aborted."""
    error = None
    try:
        asyncio.run(PerfRun(options, report).run())
    except PerfError as failure:
        error = str(failure)
    if options.json:
        report.print_json(error)
    return error


if __name__ == "__main__":
    sys.exit(main())
