"""Large logs on another file system are read by several tasks, and every record once."""

import gzip
import os
from contextlib import contextmanager

import pytest

from leveret.analytics.job.distant_logs import MEMBER_HEADER, WHOLE_BYTES_MAX, read_distant
from leveret.analytics.job.reading import read_trace
from leveret.analytics.traces.log_parts import PART_BYTES, parts_of
from leveret.analytics.traces.log_records import read_log
from leveret.analytics.traces.trace_files import EVERYTHING, described
from tests.analytics.logs import START_US, event, header, lines
from tests.analytics.test_record_blocks import three_blocks, written

TIMES = 12
SPLITS = "spark.sql.files.maxPartitionBytes"


@contextmanager
def splits_of(session, size):
    """Have Spark split files into parts of a given number of bytes."""
    before = session.conf.get(SPLITS)
    session.conf.set(SPLITS, str(size))
    yield
    session.conf.set(SPLITS, before)


@pytest.fixture(scope="module")
def log(far):
    """A log of 36 members, and where they begin."""
    return written(far.directory / "[log] {1}", three_blocks() * TIMES)


def distant(far, path):
    return described(f"{far.url}/{path.name}", path.stat().st_size)


def by_task(far, path):
    """The rows that each task makes of a file, without tasks that make none."""
    [found] = read_distant(far.session, [distant(far, path)], EVERYTHING, part_bytes=1)
    rows = found.selectExpr("spark_partition_id() task", "event", "message", "wrong", "file")
    tasks = {}
    for row in rows.collect():
        tasks.setdefault(row.task, []).append(row)
    return [rows for _, rows in sorted(tasks.items())]


def nearby(path):
    """The events and messages that the file has when it is read here."""
    [part] = parts_of([described(str(path), path.stat().st_size)], 1 << 40)
    batches = read_log(part, EVERYTHING)
    return [(row["event"], row["message"]) for batch in batches for row in batch.to_pylist()]


def of_all(tasks):
    return sorted((row.event or "", row.message or 0) for rows in tasks for row in rows)


def as_sorted(rows):
    return sorted((event or "", message or 0) for event, message in rows)


def test_members_of_the_broker_begin_with_the_header(log):
    path, begins = log
    data = path.read_bytes()
    assert {data[at : at + len(MEMBER_HEADER)] for at in begins[:-1]} == {MEMBER_HEADER}


@pytest.mark.parametrize("size", [101, 650, 3_000, 1 << 30])
def test_every_record_is_read_once(far, log, size):
    path, _ = log
    with splits_of(far.session, size):
        tasks = by_task(far, path)
    assert of_all(tasks) == as_sorted(nearby(path))
    assert not any(row.wrong for rows in tasks for row in rows)
    assert (len(tasks) > 5) == (size < 3_000)


def test_a_damaged_member_is_named_with_its_part(far, log):
    path, begins = log
    data = bytearray(path.read_bytes())
    for number in (1, 20):
        middle = (begins[number] + begins[number + 1]) // 2
        data[middle : middle + 8] = os.urandom(8)
    damaged = far.directory / "damaged.trace.gz"
    damaged.write_bytes(data)
    with splits_of(far.session, 3_000):
        tasks = by_task(far, damaged)
    assert of_all(tasks) == as_sorted(nearby(damaged))
    first, second = sorted(row.file for rows in tasks for row in rows if row.wrong)
    assert first == f"{far.url}/damaged.trace.gz"
    assert second.startswith(f"{far.url}/damaged.trace.gz from byte ")


def test_other_logs_are_read_by_one_task(far):
    text = lines([header(), *(event("publish", START_US, message=one) for one in range(1, 9))])
    files = {"log.jsonl": text.encode(), "log.jsonl.gz": gzip.compress(text.encode())}
    for name, data in files.items():
        (far.directory / name).write_bytes(data)
        with splits_of(far.session, 100):
            [rows] = by_task(far, far.directory / name)
        assert [row.message for row in rows if row.event == "publish"] == list(range(1, 9))


def test_a_file_that_spark_would_hold_in_memory_is_refused(far):
    (far.directory / "large").mkdir()
    path = far.directory / "large" / "log"
    with path.open("wb") as file:
        file.truncate(WHOLE_BYTES_MAX + 1)
    found = read_trace(far.session, f"{far.url}/large").records
    [row] = found.select("wrong", "file").collect()
    assert row.file == f"{far.url}/large/log"
    assert row.wrong.startswith(f"cannot be read: it has {WHOLE_BYTES_MAX + 1} bytes, more than")
    assert WHOLE_BYTES_MAX > PART_BYTES
