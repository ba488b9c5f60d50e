"""Runs pytest, and then each test that failed once more, alone in a process of its own.

    python -m tests.run --flaky build/flaky.txt -n 4 tests
    python -m tests.run --flaky build/flaky.txt --parts tests/parts.toml

The second one runs several parts of the tests at the same time (tests/parts.py).

A test that fails beside others, and passes alone, says little about the change that CI judges. So
it does not fail the run: it is flaky, and both of its outputs are added to the file and shown at
the end. A test that fails again fails the run.

Tests are run again only if the first run was whole. A run that was interrupted, that ended early,
or that could not import a file of tests ends with pytest's exit code, and so does one in which more
than `AGAIN_MAX` tests failed, or a part of which was not whole.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.failed_tests import Failure, Outcome, run_pytest
from tests.parts import read_parts, run_parts

AGAIN_MAX = 80
"""Each takes seconds to be run again. A fixture that fails fails up to fifty tests."""
ALONE = ("-p", "no:xdist", "-rA", "--no-header")
"""No test runs beside it, and its output is shown if it passes, too."""
PASSED = re.compile(r"^=+ 1 passed\b.*=\s*\Z", re.MULTILINE)
"""The last line of such an output."""
SECONDS_MAX = 2400
"""More than the limit of any test: what takes so long does not end after its test."""
LINE = "=" * 100


def run_alone(name: str, environment: Mapping[str, str]) -> tuple[bool, str]:
    """Run one test; return whether it passes, and the output."""
    command = [sys.executable, "-m", "pytest", *ALONE, name]
    # A file and not a pipe: what the test started, and forgot, may keep it open.
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            code = process.wait(SECONDS_MAX)
        finally:
            process.kill()
        output.seek(0)
        text = output.read()
    # The code alone says nothing: a process that ends in the middle of a test may end with 0.
    return code == pytest.ExitCode.OK and PASSED.search(text) is not None, text


def described(failure: Failure, verdict: str, output: str) -> str:
    """What is shown of a test that was run twice."""
    place = f"after {failure.before}" if failure.before else "first in its process"
    load = ", ".join(f"{figure:.1f}" for figure in os.getloadavg())
    head = f"{verdict}: {failure.name}\n{place}; {time.ctime()}, load {load}"
    first = "\n".join(failure.outputs)
    return f"{LINE}\n{head}\n\n--- In the run\n{first}\n\n--- Alone\n{output}\n"


def run_again(
    failures: Sequence[Failure], environment: Mapping[str, str], flaky_file: Path
) -> pytest.ExitCode:
    """Run each failed test alone, and say which of them are flaky."""
    flaky, broken = [], []
    for number, failure in enumerate(failures, 1):
        count = f"{number} of {len(failures)}"
        print(f"{failure.name} failed; it is run again alone ({count})", flush=True)
        is_flaky, output = run_alone(failure.name, environment)
        (flaky if is_flaky else broken).append(failure.name)
        if not is_flaky:
            print(described(failure, "FAILED", output))
            continue
        flaky_file.parent.mkdir(parents=True, exist_ok=True)
        with flaky_file.open("a") as file:
            file.write(described(failure, "FLAKY", output))
    for name in flaky:
        print(f"FLAKY {name}: failed in the run, passed alone; {flaky_file} has both outputs")
    for name in broken:
        print(f"FAILED {name}: in the run and alone")
    return pytest.ExitCode.TESTS_FAILED if broken else pytest.ExitCode.OK


def combined(outcomes: Sequence[Outcome]) -> tuple[int, list[Failure]]:
    """Return the exit code of all parts of a run, and the failures if the whole of it has run."""
    codes = {outcome.code for outcome in outcomes}
    # Options may leave a part without tests.
    if len(codes) > 1:
        codes.discard(pytest.ExitCode.NO_TESTS_COLLECTED)
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    code = max(codes)
    is_whole = all(outcome.is_whole for outcome in outcomes)
    return code, failures if code == pytest.ExitCode.TESTS_FAILED and is_whole else []


def main() -> int:
    """Run pytest with the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.run", allow_abbrev=False)
    parser.add_argument("--flaky", type=Path, required=True, help="the file for flaky tests")
    parser.add_argument("--parts", type=Path, help="a file of parts, which run at the same time")
    chosen, arguments = parser.parse_known_args()
    environment = dict(os.environ)
    try:
        if chosen.parts:
            outputs = chosen.flaky.parent / "tests"
            outcomes = run_parts(read_parts(chosen.parts), arguments, outputs)
        else:
            outcomes = [run_pytest(arguments)]
        code, failures = combined(outcomes)
        if not 0 < len(failures) <= AGAIN_MAX:
            return code
        return run_again(failures, environment, chosen.flaky)
    except KeyboardInterrupt:
        return pytest.ExitCode.INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
