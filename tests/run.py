"""Runs pytest, and then each test that failed once more, alone in a process of its own.

    python -m tests.run --flaky build/flaky.txt -n 4 tests

A test that fails beside others, and passes alone, says little about the change that CI judges. So
it does not fail the run: it is flaky, and both of its outputs are added to the file and shown at
the end. A test that fails again fails the run.

Tests are run again only if the first run was whole. A run that was interrupted, that ended early,
or that could not import a file of tests ends with pytest's exit code, and so does one in which more
than `AGAIN_MAX` tests failed.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

AGAIN_MAX = 80
"""Each takes seconds to be run again. A fixture that fails fails up to fifty tests."""
ALONE = ("-p", "no:xdist", "-rA", "--no-header")
"""No test runs beside it, and its output is shown if it passes, too."""
PASSED = re.compile(r"^=+ 1 passed\b.*=\s*\Z", re.MULTILINE)
"""The last line of such an output."""
SECONDS_MAX = 2400
"""More than the limit of any test: what takes so long does not end after its test."""
LINE = "=" * 100


@dataclass
class Failure:
    """A test that failed. before: the test that the same process ran before it."""

    name: str
    before: str
    outputs: list[str] = field(default_factory=list)


class FailedTests:
    """A plugin of pytest, which keeps the tests that fail."""

    def __init__(self) -> None:
        self.failures: dict[str, Failure] = {}
        self.directory = Path()
        """What the names of tests are relative to."""
        self.is_whole = False
        """Whether each test of each file was run."""
        self._are_imported = True
        self._names: set[str] = set()
        self._running: dict[str, tuple[str, str]] = {}
        """For each process the test that it runs, and the one before."""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported has tests that are not run."""
        self._are_imported &= not report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what failed: a fixture, a test, or the process that ran it."""
        node = getattr(report, "node", None)
        process = node.gateway.id if node else ""
        running, before = self._running.get(process, ("", ""))
        if report.nodeid != running:
            before = running
            self._running[process] = (report.nodeid, before)
            self._names.add(report.nodeid)
        if report.failed:
            failure = self.failures.setdefault(report.nodeid, Failure(report.nodeid, before))
            sections = [f"--- {title}\n{text}" for title, text in report.sections]
            failure.outputs.append("\n".join([report.longreprtext, *sections]))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Compare what was run with what was found."""
        self.directory = session.config.rootpath
        self.is_whole = self._are_imported and len(self._names) == session.testscollected


def run_alone(name: str, directory: Path, environment: Mapping[str, str]) -> tuple[bool, str]:
    """Run one test; return whether it passes, and the output."""
    command = [sys.executable, "-m", "pytest", *ALONE, name]
    # A file and not a pipe: what the test started, and forgot, may keep it open.
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            command, cwd=directory, env=environment, stdin=subprocess.DEVNULL,
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
    failed: FailedTests, environment: Mapping[str, str], flaky_file: Path
) -> pytest.ExitCode:
    """Run each failed test alone, and say which of them are flaky."""
    count = len(failed.failures)
    flaky, broken = [], []
    for number, failure in enumerate(failed.failures.values(), 1):
        print(f"{failure.name} failed; it is run again alone ({number} of {count})", flush=True)
        is_flaky, output = run_alone(failure.name, failed.directory, environment)
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


def main() -> int:
    """Run pytest with the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.run", allow_abbrev=False)
    parser.add_argument("--flaky", type=Path, required=True, help="the file for flaky tests")
    options, arguments = parser.parse_known_args()
    environment = dict(os.environ)
    failed = FailedTests()
    code = pytest.main(arguments, plugins=[failed])
    if code != pytest.ExitCode.TESTS_FAILED or not failed.is_whole:
        return code
    if not 0 < len(failed.failures) <= AGAIN_MAX:
        return code
    try:
        return run_again(failed, environment, options.flaky)
    except KeyboardInterrupt:
        return pytest.ExitCode.INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
