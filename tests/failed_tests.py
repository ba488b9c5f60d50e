"""Runs pytest, and keeps what came of it: the exit code, and the tests that failed.

    python -m tests.failed_tests outcome.json -n 4 tests

writes it to a file, for the process that has started several of these (tests/parts.py).
"""

import dataclasses
import json
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass
class Failure:
    """A test that failed. before: the test that the same process ran before it."""

    name: str
    before: str
    outputs: list[str] = field(default_factory=list)


@dataclass
class Outcome:
    """What came of a run of pytest."""

    code: int
    is_whole: bool
    """Whether each test of each file was run."""
    seconds: float
    processor_seconds: float
    """Of this process and of all that it has waited for, such as pytest's workers."""
    failures: list[Failure]


class FailedTests:
    """A plugin of pytest, which keeps the tests that fail."""

    def __init__(self) -> None:
        self.failures: dict[str, Failure] = {}
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
        self.is_whole = self._are_imported and len(self._names) == session.testscollected


def run_pytest(arguments: Sequence[str]) -> Outcome:
    """Run pytest in this process, with the arguments of its command line."""
    failed, begin = FailedTests(), time.monotonic()
    code = pytest.main([*arguments], plugins=[failed])
    seconds = time.monotonic() - begin
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    processor_seconds = sum(one.ru_utime + one.ru_stime for one in used)
    failures = [*failed.failures.values()]
    return Outcome(int(code), failed.is_whole, seconds, processor_seconds, failures)


def read_outcome(path: Path) -> Outcome:
    """Read what another process has written."""
    fields = json.loads(path.read_text())
    failures = [Failure(**one) for one in fields.pop("failures")]
    return Outcome(failures=failures, **fields)


def main() -> int:
    """Run pytest, and write what came of it to the file."""
    path, *arguments = sys.argv[1:]
    outcome = run_pytest(arguments)
    Path(path).write_text(json.dumps(dataclasses.asdict(outcome)))
    return outcome.code


if __name__ == "__main__":
    sys.exit(main())
