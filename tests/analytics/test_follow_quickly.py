"""Following logs that are being written, with DuckDB: the tables are those of a batch."""

import gzip
import random
import signal
import subprocess
import sys
import time

import pytest

from leveret.analytics.job.follow_quickly import Following
from leveret.analytics.job.job import JobOptions
from leveret.analytics.tables.versions import SLOTS
from leveret.analytics.traces.trace_files import TraceWindow
from leveret.broker.tracing.record import LINES_SUFFIX, OPEN_LINES_SUFFIX
from tests.analytics.known_trace import write_known_trace
from tests.analytics.logs import NODE, SECOND_US, START_US, event, header, lines, partition
from tests.analytics.running import analyze_quickly
from tests.analytics.tables import everything, read_rows
from tests.analytics.test_against_reference import random_log

TRIGGER = """
import sys
from leveret.analytics.job.follow_quickly import Following
from leveret.analytics.job.job import JobOptions
Following(JobOptions(sys.argv[1], sys.argv[2])).update()
"""
pytestmark = pytest.mark.usefixtures("without_reports")
LOOK_SECONDS = 0.001
"""A loop that does not wait takes one of two processors from the trigger."""


class RunningLog:
    """A log that a broker is writing: one member for each piece."""

    def __init__(self, directory, number=0):
        self.path = partition(directory) / f"{NODE}-{START_US}-{number}{OPEN_LINES_SUFFIX}"
        self.path.touch()
        self.write([header(time_us=START_US + number)])

    def write(self, records):
        self.write_bytes(gzip.compress(lines(records).encode()))

    def write_bytes(self, data):
        with self.path.open("ab") as file:
            file.write(data)

    def finish(self):
        complete = self.path.with_name(
            self.path.name.removesuffix(OPEN_LINES_SUFFIX) + LINES_SUFFIX
        )
        self.path.rename(complete)
        self.path = complete


def publishes(numbers):
    return [
        event("publish", START_US + one * SECOND_US, message=one, queues=["q"]) for one in numbers
    ]


@pytest.fixture
def trace(tmp_path):
    return tmp_path / "trace"


@pytest.fixture
def following(trace, tmp_path):
    return Following(JobOptions(str(trace), str(tmp_path / "out")))


@pytest.fixture
def counting(trace, tmp_path):
    """A follow for tests that read counts only: each of its updates makes a tenth of the tables."""
    return Following(JobOptions(str(trace), str(tmp_path / "out"), only=("traffic",)))


def published(tmp_path):
    rows = read_rows(tmp_path / "out", "traffic")
    return sum(row.published for row in rows if row.kind == "exchange")


def same_as_a_batch(trace, tmp_path):
    analyze_quickly(trace, tmp_path / "batch")
    at_once = everything(tmp_path / "batch")
    followed = everything(tmp_path / "out")
    for name, rows in at_once.items():
        assert followed[name] == rows, name


def test_a_running_log_is_read_up_to_its_last_whole_member(trace, counting, tmp_path):
    log = RunningLog(trace)
    log.write(publishes([1, 2]))
    member = gzip.compress(lines(publishes([3])).encode())
    log.write_bytes(member[:20])
    counting.update()
    assert published(tmp_path) == 2
    log.write_bytes(member[20:])
    counting.update()
    assert published(tmp_path) == 3
    assert not counting.trigger()


def test_a_file_that_gets_its_final_name_is_the_same(trace, counting, tmp_path):
    log = RunningLog(trace)
    log.write([*publishes([1, 2]), {"event": "unknown"}])
    counting.update()
    log.write([*publishes([3]), {"event": "unknown"}])
    log.finish()
    RunningLog(trace, 1).write(publishes([4]))
    counting.update()
    assert published(tmp_path) == 4
    assert {(row.file, row.line) for row in read_rows(tmp_path / "out", "rejected")} == {
        (str(log.path), 4),
        (str(log.path), 6),
    }


def test_a_damaged_member_is_passed_when_the_file_is_complete(trace, following, tmp_path):
    log = RunningLog(trace)
    damaged = bytearray(gzip.compress(lines(publishes(range(50))).encode()))
    damaged[40:44] = b"\xff\xff\xff\xff"
    log.write_bytes(damaged)
    log.write(publishes([100, 101]))
    following.update()
    log.finish()
    following.update()
    assert published(tmp_path) >= 2
    same_as_a_batch(trace, tmp_path)


def test_a_copy_is_not_followed(trace, counting, tmp_path):
    log = RunningLog(trace)
    log.write(publishes([1, 2]))
    counting.update()
    (trace / f"copy{LINES_SUFFIX}").write_bytes(log.path.read_bytes())
    log.write(publishes([3]))
    counting.update()
    assert published(tmp_path) == 3
    assert {row.kind for row in read_rows(tmp_path / "out", "trust")} == {"copied files"}


def test_a_file_with_more_of_the_same_records_is_read_instead(trace, counting, tmp_path):
    copy = RunningLog(trace)
    copy.write(publishes([1, 2]))
    copy.finish()
    counting.update()
    (trace / f"whole{LINES_SUFFIX}").write_bytes(
        copy.path.read_bytes() + gzip.compress(lines(publishes([3])).encode())
    )
    counting.update()
    assert published(tmp_path) == 3


def test_all_tables_are_those_of_a_batch(trace, following, tmp_path):
    for part in (0, 1):
        write_known_trace(trace, part=part)
        following.update()
    records = random_log("followed", "/", 120)
    log, at = RunningLog(trace, 7), 0
    choice = random.Random(4)
    while at < len(records):
        size = choice.randint(1, 90)
        log.write(records[at : at + size])
        at += size
        following.trigger()
    log.finish()
    following.update()
    same_as_a_batch(trace, tmp_path)


def test_records_that_are_no_longer_plausible_are_taken_back(trace, following, tmp_path):
    log = RunningLog(trace)
    log.write(publishes([1, 2]))
    following.update()
    assert published(tmp_path) == 2
    # After 60 days come enough records that these two are less than 1% of all.
    log.write(publishes(range(60 * 86_400, 60 * 86_400 + 300)))
    following.update()
    assert published(tmp_path) == 300
    log.finish()
    following.update()
    same_as_a_batch(trace, tmp_path)


def test_details_of_a_message_that_was_acknowledged_are_read_again(trace, following, tmp_path):
    def happens(name, second, **fields):
        return event(name, START_US + second * SECOND_US, message=1, queue="q", **fields)

    log = RunningLog(trace)
    log.write([*publishes([1]), happens("deliver", 2), happens("ack", 3)])
    following.update()
    assert not read_rows(tmp_path / "out", "poison")
    log.write([happens("deliver", second) for second in range(4, 10)])
    following.update()
    [poison] = read_rows(tmp_path / "out", "poison")
    assert poison.routing_keys == ["key"]
    log.finish()
    following.update()
    same_as_a_batch(trace, tmp_path)


def test_other_options_have_everything_read_again(trace, counting, tmp_path):
    log = RunningLog(trace)
    log.write(publishes([1, 2, 3]))
    counting.update()
    window = TraceWindow(from_us=START_US + 2 * SECOND_US)
    options = JobOptions(str(trace), str(tmp_path / "out"), window, only=("traffic",))
    Following(options).update()
    assert published(tmp_path) == 2


def run_and_kill(trace, out, is_time):
    """Run a trigger in a process of its own, and kill it when the condition is true."""
    with subprocess.Popen([sys.executable, "-c", TRIGGER, str(trace), str(out)]) as process:
        while process.poll() is None:
            if is_time():
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(LOOK_SECONDS)
    return process.returncode


def test_a_trigger_that_is_killed_is_repeated(trace, tmp_path):
    out = tmp_path / "out"
    log = RunningLog(trace)
    log.write(publishes(range(1, 5)))
    Following(JobOptions(str(trace), str(out))).update()
    log.write(publishes(range(5, 9)))

    # That of its first table: others are written after it.
    written = out / SLOTS[1] / "rejected"
    assert run_and_kill(trace, out, written.exists) == -signal.SIGKILL
    assert published(tmp_path) == 4
    assert published(tmp_path) == 4
    log.write(publishes(range(9, 12)))
    log.finish()
    Following(JobOptions(str(trace), str(out))).update()
    same_as_a_batch(trace, tmp_path)
