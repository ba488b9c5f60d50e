"""The streams of a node: what they gather is written in batches, one after the other."""

import asyncio
import os

import pytest

from leveret.storage.disk.disk import Disk, DiskFull, StoreError
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.stream_log import stream_store
from leveret.storage.stream_log.chunks import check_chunk, encode_chunk
from leveret.storage.stream_log.segment_heads import SegmentHead
from leveret.storage.stream_log.stream_store import StreamStore
from tests.unit.storage.fakes import ManualWorker, RecordingDisk

HEAD = SegmentHead(1, 0, 1_000, [])


class StoreUnderTest:
    """A store whose threads work when the test says so. done: the callbacks that were called."""

    def __init__(self, directory, disk=None):
        self.disk = disk or Disk()
        self.workers = [ManualWorker(), ManualWorker()]
        self.directory = directory
        self.store = StreamStore(
            directory, self.disk, FileReads(self.disk), self.workers, asyncio.get_running_loop()
        )
        self.done = []

    def publish(self, group, name):
        """Append a chunk, and wait for it."""
        stream = self.store.streams[group]
        log = stream.log
        chunk = encode_chunk(0, log.next_offset, 1, 1_000, 1, 1, [b"\0\0\0\1m"])
        log.append(log.last_entry + 1, 1, 0, [chunk])
        self.store.when_written(stream, lambda: self.done.append(name))

    async def turn(self):
        await asyncio.sleep(0)

    async def work(self):
        """Let turns pass and threads work until there is nothing to do."""
        await self.turn()
        while sum(worker.work() for worker in self.workers):
            await self.turn()

    def offsets(self, group):
        log = self.store.streams[group].log
        chunks = log.read(log.first_entry, log.last_entry, 10_000)
        return [check_chunk(chunk).offset for chunk in chunks]


@pytest.fixture
async def streams(tmp_path):
    streams = StoreUnderTest(tmp_path / "streams")
    streams.store.create(1, HEAD)
    streams.store.create(2, HEAD)
    await streams.work()
    return streams


async def test_a_publish_is_done_when_it_is_on_disk(streams):
    streams.publish(1, "one")
    await streams.turn()
    assert streams.done == []
    await streams.work()
    assert streams.done == ["one"]


async def test_what_is_gathered_while_a_batch_is_written_is_the_next_batch(streams):
    streams.publish(1, "one")
    await streams.turn()
    streams.publish(1, "two")
    streams.publish(1, "three")
    await streams.turn()
    assert [len(worker.jobs) for worker in streams.workers] == [0, 1]
    streams.workers[1].work()
    assert streams.done == ["one"]
    await streams.work()
    assert streams.done == ["one", "two", "three"]


async def test_streams_do_not_wait_for_each_other(streams):
    streams.publish(1, "one")
    streams.publish(2, "two")
    await streams.turn()
    streams.workers[0].work()
    assert streams.done == ["two"]
    await streams.work()
    assert streams.done == ["two", "one"]


async def test_waiting_without_anything_to_write(streams):
    stream = streams.store.streams[1]
    streams.store.when_written(stream, lambda: streams.done.append("nothing"))
    await streams.work()
    assert streams.done == ["nothing"]


async def test_a_restart_finds_the_streams(streams):
    streams.publish(1, "one")
    streams.publish(1, "two")
    await streams.work()
    again = StoreUnderTest(streams.directory)
    again.store.open({1, 2})
    assert again.offsets(1) == [0, 1]
    again.publish(1, "three")
    await again.work()
    assert again.offsets(1) == [0, 1, 2]


async def test_a_removed_stream_leaves_nothing(streams):
    streams.publish(1, "one")
    streams.store.remove(1)
    await streams.work()
    assert os.listdir(streams.directory) == ["2"]
    assert streams.done == []


async def test_files_of_no_stream_are_removed(streams):
    (streams.directory / "other").mkdir()
    again = StoreUnderTest(streams.directory)
    again.store.open({2})
    assert os.listdir(streams.directory) == ["2"]
    assert list(again.store.streams) == [2]


async def test_a_damaged_stream_does_not_keep_the_others_from_starting(streams, caplog):
    streams.store.streams[1].log.segments[0].paths.segment.write_bytes(b"x")
    again = StoreUnderTest(streams.directory)
    again.store.open({1, 2})
    assert list(again.store.streams) == [2]
    assert "the file ends after 1 bytes" in str(again.store.damaged[1])
    assert "the stream of group 1 cannot be used" in caplog.text
    again.store.create(1, HEAD)
    again.publish(1, "one")
    await again.work()
    assert (again.done, again.store.damaged) == (["one"], {})


@pytest.fixture
async def full(tmp_path, monkeypatch):
    """Two streams on a disk that is full while `disk.is_full`. full.filled, full.failures: told."""
    monkeypatch.setattr(stream_store, "RETRY_SECONDS", 0)
    streams = StoreUnderTest(tmp_path / "streams", FullDisk())
    streams.filled, streams.failures = [], []
    streams.store.disk_filled = streams.filled.append
    streams.store.failed = streams.failures.append
    streams.store.create(1, HEAD)
    streams.store.create(2, HEAD)
    await streams.work()
    return streams


class FullDisk(RecordingDisk):
    """A disk without room for writes while it is full."""

    is_full = False

    def write(self, descriptor, path, data, offset):
        if self.is_full:
            raise DiskFull("no space left")
        super().write(descriptor, path, data, offset)


async def test_a_full_disk_is_reported_once_and_all_is_written_when_there_is_room(full, caplog):
    full.disk.is_full = True
    full.publish(1, "one")
    full.publish(2, "two")
    for _ in range(3):
        await full.work()
    full.publish(1, "three")
    await full.work()
    assert (full.filled, full.done, full.failures) == ([True], [], [])
    assert caplog.text.count("publishers are held back until there is room: no space left") == 1
    full.disk.is_full = False
    while len(full.done) < 3:
        await full.work()
    assert (full.filled, sorted(full.done)) == ([True, False], ["one", "three", "two"])
    again = StoreUnderTest(full.directory)
    again.store.open({1, 2})
    assert (again.offsets(1), again.offsets(2)) == ([0, 1], [0])


async def test_a_stream_is_deleted_though_the_disk_is_full(full):
    full.disk.is_full = True
    full.publish(1, "one")
    await full.work()
    full.store.remove(1)
    while len(os.listdir(full.directory)) > 1:
        await full.work()
    assert os.listdir(full.directory) == ["2"]
    await full.work()
    assert (full.filled, full.done) == ([True, False], [])


async def test_retention_makes_room_on_a_full_disk(full):
    log = full.store.streams[1].log
    for name in ("one", "two", "three"):
        full.publish(1, name)
        log.begin_segment(1_000)
    await full.work()
    full.disk.is_full = True
    full.publish(1, "four")
    await full.work()
    log.remove_segments(2)
    while len(list((full.directory / "1").glob("*.segment"))) > 2:
        await full.work()
    full.disk.is_full = False
    while full.done != ["one", "two", "three", "four"]:
        await full.work()
    again = StoreUnderTest(full.directory)
    again.store.open({1, 2})
    found = again.store.streams[1].log
    assert (found.first_offset, found.next_offset) == (2, 4)


async def test_a_segment_that_is_being_ended_is_removed_after_that(full):
    log = full.store.streams[1].log
    full.publish(1, "one")
    await full.work()
    full.disk.is_full = True
    log.begin_segment(1_000)
    full.publish(1, "two")
    await full.work()
    log.remove_segments(1)
    await full.work()
    full.disk.is_full = False
    while full.done != ["one", "two"]:
        await full.work()
    assert full.failures == []
    assert len(list((full.directory / "1").glob("*.segment"))) == 1


@pytest.mark.parametrize(
    ("operation", "error"),
    [("write", StoreError("failed")), ("sync", StoreError("failed")), ("sync", DiskFull("failed"))],
)
async def test_after_another_error_nothing_is_confirmed_and_the_node_has_to_stop(
    full, caplog, operation, error
):
    full.disk.errors[operation] = error
    full.publish(1, "one")
    await full.work()
    full.publish(1, "two")
    for _ in range(3):
        await full.work()
    assert [str(failure) for failure in full.failures] == ["failed"]
    assert (full.filled, full.done) == ([], [])
    assert "unconfirmed messages stay unconfirmed, and the node stops" in caplog.text


@pytest.mark.parametrize(("count", "syncs"), [(1, 2), (20, 0)])
async def test_a_start_syncs_many_streams_at_once(tmp_path, monkeypatch, count, syncs):
    streams = StoreUnderTest(tmp_path / "streams")
    for group in range(count):
        streams.store.create(group, HEAD)
    await streams.work()
    done = []
    monkeypatch.setattr(Disk, "sync", lambda disk, descriptor, path: done.append(path))
    monkeypatch.setattr(Disk, "sync_file_system", lambda disk, descriptor, root: done.append(root))
    again = StoreUnderTest(tmp_path / "streams")
    again.store.open(range(count))
    assert len(again.store.streams) == count
    assert len([path for path in done if path != again.directory]) == syncs
    assert (again.directory in done) == (not syncs)
