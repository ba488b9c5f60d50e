"""Runs the parts of a test suite, a few at a time, each with workers of its own.

Each worker of pytest-xdist imports all tests that it may run, and its controller is told of each
test before and after it: that takes as long as thousands of tests do. A part imports its own tests
only, and most parts have no workers: one process runs the tests one after another. What is started
once in each process, such as Spark, is started in those of one part.

A part starts when there is room for it, and then has its share of the processors. More at a time
would take no less time, and a test that waits for a node would run into its limit.

A file lists the parts in the order of their starts (tests/parts.toml): those that take longest go
first, so that no processor is idle in the end. A part has the tests below its paths, without those
of another part: the tests of a new directory are in the part that has the directory around it.
"""

import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.failed_tests import Outcome, read_outcome

AT_A_TIME = 4
"""Half of the time, tests wait for processes and disks: four parts keep two processors busy."""


@dataclass(frozen=True)
class Part:
    """Some tests. paths: of files and directories, relative to the one where pytest starts.
    workers: those of pytest-xdist; with 0, the part's own process runs its tests.
    """

    name: str
    workers: int
    paths: tuple[str, ...]


def read_parts(path: Path) -> list[Part]:
    """Return the parts that a file lists."""
    parts = tomllib.loads(path.read_text())
    return [Part(name, one["workers"], tuple(one["paths"])) for name, one in parts.items()]


def options(part: Part, parts: Sequence[Part]) -> list[str]:
    """The arguments of pytest for one of the parts."""
    others = [path for other in parts if other is not part for path in other.paths]
    ignored = [f"--ignore={path}" for path in others if _is_below(path, part)]
    return ["-n", str(part.workers), *ignored, *part.paths]


def _is_below(path: str, part: Part) -> bool:
    return any(Path(own) in Path(path).parents for own in part.paths)


def run_parts(parts: Sequence[Part], arguments: Sequence[str], outputs: Path) -> list[Outcome]:
    """Run all parts, show each one's output when it and those before it have ended, and then the
    time that each took. outputs: the directory where their outputs are written meanwhile.
    """
    outputs.mkdir(parents=True, exist_ok=True)
    print(f"{len(parts)} parts of the tests run; {outputs} has their outputs", flush=True)
    made = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        threads = ThreadPoolExecutor(AT_A_TIME)
        running = Running(parts, arguments, directory, outputs)
        # An interrupted run starts no more parts, ends those that run, and waits for their ends.
        stack.callback(threads.shutdown)
        stack.callback(running.terminate)
        stack.callback(threads.shutdown, wait=False, cancel_futures=True)
        for part, outcome in zip(parts, threads.map(running.run, parts), strict=True):
            print(
                f"\n{part.name}\n{_output(outputs, part).read_text(errors='replace')}", flush=True
            )
            made.append(outcome)
    for line in _summary(parts, made):
        print(line, flush=True)
    return made


class Running:
    """The parts of one run. Each thread runs one part at a time."""

    def __init__(
        self, parts: Sequence[Part], arguments: Sequence[str], directory: Path, outputs: Path
    ) -> None:
        self._parts = parts
        self._arguments = arguments
        self._directory = directory
        self._outputs = outputs
        self._processes: list[subprocess.Popen[bytes]] = []

    def run(self, part: Part) -> Outcome:
        """Run a part to its end, in a process that writes its output to a file."""
        outcome = self._directory / part.name
        with _output(self._outputs, part).open("w") as output:
            process = subprocess.Popen(
                [
                    sys.executable, "-m", "tests.failed_tests", str(outcome),
                    *options(part, self._parts), *self._arguments,
                ],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
            self._processes.append(process)
            process.wait()
            if process.returncode < 0:
                name = signal.Signals(-process.returncode).name
                output.write(f"\nthe process of this part was ended by {name}\n")
        return _outcome(outcome, process.returncode)

    def terminate(self) -> None:
        """End the processes that still run."""
        for process in self._processes:
            process.terminate()


def _output(outputs: Path, part: Part) -> Path:
    return outputs / f"{part.name}.txt"


def _outcome(path: Path, code: int) -> Outcome:
    """What came of a part; one that has ended early has written nothing."""
    if path.exists():
        return read_outcome(path)
    # That of a signal is negative: less than that of a part that has passed.
    return Outcome(code if code > 0 else pytest.ExitCode.INTERNAL_ERROR, False, 0, 0, [])


def _summary(parts: Sequence[Part], made: Sequence[Outcome]) -> Iterator[str]:
    yield f"{'part':12}{'workers':>8}{'seconds':>9}{'of processors':>15}{'failed':>8}  ended"
    for part, one in zip(parts, made, strict=True):
        ended = pytest.ExitCode(one.code).name if one.code in [*pytest.ExitCode] else one.code
        seconds = f"{one.seconds:9.0f}{one.processor_seconds:15.0f}"
        yield f"{part.name:12}{part.workers:8}{seconds}{len(one.failures):8}  {ended}"
