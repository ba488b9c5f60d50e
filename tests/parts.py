"""Runs the parts of a test suite side by side, each with workers of its own.

Each worker of pytest-xdist imports all tests that it may run, and its controller is told of each
test before and after it: that takes as long as thousands of tests do. A part imports its own tests
only, and most parts have no workers: one process runs the tests one after another. What is started
once in each process, such as Spark, is started in those of one part.

No processor is idle at the end: a part whose tests one worker runs one after another has the first
call on the processors, one whose tests wait half of the time has the next, and parts that only
compute take what these leave.

A file lists the parts (tests/parts.toml). A part has the tests below its paths, without those of
another part: the tests of a new directory are in the part that has the directory around it.
"""

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.failed_tests import Outcome, read_outcome


@dataclass(frozen=True)
class Part:
    """Some tests. paths: of files and directories, relative to the one where pytest starts.
    workers: those of pytest-xdist; with 0, the part's own process runs its tests. niceness:
    by how much its processes give way to those of the other parts, as of nice(1).
    """

    name: str
    workers: int
    niceness: int
    paths: tuple[str, ...]


def read_parts(path: Path) -> list[Part]:
    """Return the parts that a file lists."""
    parts = tomllib.loads(path.read_text())
    return [
        Part(name, one["workers"], one.get("niceness", 0), tuple(one["paths"]))
        for name, one in parts.items()
    ]


def options(part: Part, parts: Sequence[Part]) -> list[str]:
    """The arguments of pytest for one of the parts."""
    others = [path for other in parts if other is not part for path in other.paths]
    ignored = [f"--ignore={path}" for path in others if _is_below(path, part)]
    return ["-n", str(part.workers), *ignored, *part.paths]


def _is_below(path: str, part: Part) -> bool:
    return any(Path(own) in Path(path).parents for own in part.paths)


def run_parts(parts: Sequence[Part], arguments: Sequence[str], outputs: Path) -> list[Outcome]:
    """Run all parts at the same time, show each one's output when it has ended, and then the time
    that each took. outputs: the directory where their outputs are written meanwhile.
    """
    outputs.mkdir(parents=True, exist_ok=True)
    print(f"{len(parts)} parts of the tests run; {outputs} has their outputs", flush=True)
    made = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        running = [_start(part, parts, arguments, directory, outputs, stack) for part in parts]
        for part, process in zip(parts, running, strict=True):
            process.wait()
            print(f"\n{part.name}\n{_output(outputs, part).read_text(errors='replace')}")
            made.append(_outcome(directory / part.name, process.returncode))
    for line in _summary(parts, made):
        print(line, flush=True)
    return made


def _output(outputs: Path, part: Part) -> Path:
    return outputs / f"{part.name}.txt"


def _start(
    part: Part, parts: Sequence[Part], arguments: Sequence[str], directory: Path, outputs: Path,
    stack: ExitStack,
) -> subprocess.Popen[bytes]:  # fmt: skip
    """Start a process that writes what comes of it to a file in the directory."""
    command = [
        "nice", "-n", str(part.niceness),
        sys.executable, "-m", "tests.failed_tests", str(directory / part.name),
    ]  # fmt: skip
    with _output(outputs, part).open("w") as output:
        process = subprocess.Popen(
            [*command, *options(part, parts), *arguments], stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    # It has ended before, unless this process is interrupted.
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


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
