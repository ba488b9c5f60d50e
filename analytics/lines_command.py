"""`leveret trace-lines`: prints the records of trace logs as lines, a JSON object for each record.

For programs that read lines, such as jq: the broker writes its logs in blocks
(broker/tracing/block_format.py). Of each file the first line is its header.

Exit codes: 0 if everything was read; 1 if something could not be read, which is said on standard
error; 2 for invalid options; 130 after Ctrl-C.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from leveret.analytics.traces.log_blocks import Problem, read_blocks
from leveret.analytics.traces.trace_files import (
    EVERYTHING,
    TraceFile,
    described,
    trace_files,
)

EXIT_READ, EXIT_NOT_READ, EXIT_INTERRUPTED = 0, 1, 130


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="leveret trace-lines", description="Print the records of trace logs as JSON lines."
    )
    parser.add_argument("paths", type=Path, nargs="+", metavar="PATH",
                        help="a file of a trace log, or a directory of them")  # fmt: skip
    options = parser.parse_args(arguments)
    problems: list[Problem] = []
    try:
        for path in options.paths:
            for file in _files(path):
                _print(file, problems)
    except BrokenPipeError:
        # The reader of the lines has closed the pipe. Python must not flush the rest when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        sys.stderr.write(f"leveret trace-lines: {error}\n")
        return EXIT_NOT_READ
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return EXIT_NOT_READ if problems else EXIT_READ


def _files(path: Path) -> Iterator[TraceFile]:
    if path.is_dir():
        yield from trace_files(path, EVERYTHING)
    else:
        yield described(str(path), path.stat().st_size)


def _print(file: TraceFile, problems: list[Problem]) -> None:
    known = len(problems)
    for block in read_blocks(file, problems):
        sys.stdout.buffer.write(block.data)
    sys.stdout.buffer.flush()
    for problem in problems[known:]:
        sys.stderr.write(f"not read: {problem}\n")
