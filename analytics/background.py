"""What a node analyses beside its work: `python -m leveret.analytics.background TASK`.

TASK is a BackgroundTask as JSON. The process has the lowest priority and one processor, so that the
node comes first; no more memory than the task says; and it ends when its standard input does, whose
other end the node has, which may be killed at any time. On standard output it tells the node how
far it is, a JSON object on each line, with one of these keys:

    progress   the step that runs (StepProgress)
    findings   those of the last hour (FollowedFindings)
    done       the numbers of records, rejected lines and files
    failed     why it cannot go on

It uses DuckDB, in this process.
"""

import json
import os
import resource
import sys
import threading
import time
from typing import Any, NamedTuple

import duckdb

from leveret.analytics.findings.collect_evidence import collect_evidence
from leveret.analytics.findings.finding import Finding
from leveret.analytics.findings.findings import findings
from leveret.analytics.job.costs import COSTS
from leveret.analytics.job.duckdb_engine import DuckDBEngine
from leveret.analytics.job.engines import DUCKDB, why
from leveret.analytics.job.follow_quickly import Following
from leveret.analytics.job.job import JobOptions, analyze
from leveret.analytics.job.progress import JobProgress, StepProgress
from leveret.analytics.tables.tables import BY_NAME
from leveret.analytics.tables.versions import MissingTablesError, only_writer, published
from leveret.analytics.traces.local_files import list_local_files
from leveret.analytics.traces.log_size import estimated_size
from leveret.analytics.traces.trace_files import HOUR_US, TraceWindow

ANALYSIS, FINDINGS = "analysis", "findings"
NICENESS = 19
EVERY_SECONDS = 20.0
"""Time between updates of the findings."""
HOURS_MAX = 6
"""After this time the logs of the last hour are read again, and the older tables forgotten."""
UPDATES_MAX = round(HOURS_MAX * 3600 / EVERY_SECONDS)
PROGRAM_BYTES = 1 << 30
"""Memory that may be written, beside that of data: most of it never is."""
FAILED = 1
STANDARD_INPUT, READ_BYTES = 0, 4096


class BackgroundTask(NamedTuple):
    """What to do. kind: ANALYSIS of the logs of a window, or FINDINGS of the last hour, until the
    process is ended.

    directory: of the logs. out: of the tables. memory_bytes: for data; the program needs some more.
    """

    kind: str
    directory: str
    out: str
    memory_bytes: int
    from_us: int | None = None
    to_us: int | None = None
    vhost: str | None = None


class FollowedFindings(NamedTuple):
    """Findings of the last hour. until_us: when they were made. events: the records read so far."""

    until_us: int
    events: int
    findings: list[dict[str, Any]]


class ToldProgress(JobProgress):
    """Progress that the node is told."""

    is_watched = True

    def show(self, step: StepProgress) -> None:
        """Tell the node."""
        tell(progress=step._asdict())


def main(arguments: list[str] | None = None) -> int:
    """Do the task, and return the exit code."""
    [text] = sys.argv[1:] if arguments is None else arguments
    task = BackgroundTask(**json.loads(text))
    be_modest(task.memory_bytes)
    threading.Thread(target=_end_with_node, daemon=True).start()
    try:
        with only_writer(task.out):
            (_analyze if task.kind == ANALYSIS else _follow)(task)
    except OSError as error:
        tell(failed=why(error))
    except MissingTablesError as error:
        tell(failed=str(error))
    except (MemoryError, duckdb.OutOfMemoryException):
        megabytes = task.memory_bytes >> 20
        tell(failed=f"it needs more than {megabytes} MB of memory: choose a shorter time")
    except duckdb.Error as error:
        tell(failed=f"DuckDB cannot go on: {error}")
    else:
        return 0
    return FAILED


def be_modest(memory_bytes: int) -> None:
    """Let the node come first, and end this process if it needs much more memory than it may."""
    os.nice(NICENESS)
    # Logs are read by as many threads as there are processors, each of which needs memory.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    allowed = memory_bytes + PROGRAM_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))


def tell(**told: Any) -> None:
    """Write a line."""
    sys.stdout.write(f"{json.dumps(told)}\n")
    sys.stdout.flush()


def _end_with_node() -> None:
    # Not sys.stdin: a thread that holds its lock makes the end of the program an abort.
    while os.read(STANDARD_INPUT, READ_BYTES):
        continue
    os._exit(FAILED)


def _analyze(task: BackgroundTask) -> None:
    """Make the tables and the report of a window. Raises OSError and DuckDB's errors."""
    window = TraceWindow(task.from_us, task.to_us, task.vhost)
    files = list_local_files(task.directory, window)
    if not files:
        raise FileNotFoundError("there are no logs of this time and virtual host")
    options = JobOptions(task.directory, task.out, window)
    size = estimated_size(files)
    with DuckDBEngine(options.work, task.memory_bytes) as engine:
        progress = ToldProgress(engine.parts, COSTS[DUCKDB], size.events, blocks=size.blocks)
        reading = analyze(engine, options, progress)
    tell(done={
        "events": reading.events, "rejected": reading.rejected, "files": reading.files,
    })  # fmt: skip


def _follow(task: BackgroundTask) -> None:
    """Make the findings of the last hour, again and again. Raises OSError and DuckDB's errors."""
    while True:
        window = TraceWindow(_now_us() - HOUR_US, None, task.vhost)
        options = JobOptions(task.directory, task.out, window)
        following = Following(options, EVERY_SECONDS, keep_days=1)
        for _ in range(UPDATES_MAX):
            began = time.monotonic()
            if following.update():
                _tell_findings(task, following.state.events)
                time.sleep(max(0.0, EVERY_SECONDS - (time.monotonic() - began)))


def _tell_findings(task: BackgroundTask, events: int) -> None:
    try:
        where = published(task.out)
    except MissingTablesError:
        # No records were read yet.
        found = []
    else:
        with DuckDBEngine(memory_bytes=task.memory_bytes) as engine:
            for name in BY_NAME:
                engine.open_table(where, name)
            found = findings(collect_evidence(engine))
    now_us = _now_us()
    recent = [_as_json(one) for one in found if _is_since(one, now_us - HOUR_US)]
    tell(findings=FollowedFindings(now_us, events, recent)._asdict())


def _is_since(finding: Finding, since_us: int) -> bool:
    return finding.until_us is None or finding.until_us >= since_us


def _as_json(finding: Finding) -> dict[str, Any]:
    return {**finding._asdict(), "severity": finding.severity.name.lower()}


def _now_us() -> int:
    return time.time_ns() // 1000


if __name__ == "__main__":
    sys.exit(main())
