"""Restoring one queue from what the log says and the segments on disk (rules C1 to C3)."""

import pytest

from leveret.broker.amqp.content_header import read_header
from leveret.storage.messages.formats import (
    StateRecord,
    encode_file_header,
    encode_state,
    read_record,
)
from leveret.storage.messages.intervals import Intervals
from leveret.storage.messages.message import Entry, Message
from leveret.storage.metadata.metadata import NoMetadata
from leveret.storage.queue.queue_recovery import FoundQueue, QueueRecovery
from leveret.storage.queue.tiered_queue import TieredQueue
from leveret.storage.segments import segments
from leveret.storage.segments.segments import SegmentWriter, segment_path
from leveret.storage.store.restoring import Restorer
from leveret.storage.store.store import Store
from tests.storage.reading import ready_entries
from tests.unit.storage.fakes import ADDRESS, PERSISTENT_HEADER, persistent, write_out

KEY = 256


pytestmark = pytest.mark.usefixtures("tiny_segments")


@pytest.fixture
async def store(tmp_path):
    store = Store(tmp_path, NoMetadata(), read_header)
    # Readers wait for the disk.
    store.reads.worker = None
    store.open()
    yield store
    await store.close()


@pytest.fixture
def writer(tmp_path):
    return SegmentWriter(tmp_path / "queues" / str(KEY))


def write(store, writer, start, end, header=PERSISTENT_HEADER):
    entries = [
        Entry(Message(ADDRESS, header, b"segment %d" % position), position)
        for position in range(start, end)
    ]
    write_out(store.disk, writer.plan(entries, [0] * len(entries), KEY))


def found_with(entries=(), state=None, gone=()):
    found = FoundQueue()
    if state is not None:
        found.set_state(state)
    for start, end in gone:
        found.gone.add_range(start, end)
    for position in entries:
        (message,) = persistent(b"log %d" % position)
        found.entries.append(Entry(message, position))
    return found


def state_of(writer, flushed_to, gone=(), transient=()):
    size = sum(len(b"segment %d" % position) for position in range(flushed_to))
    return StateRecord(
        KEY, flushed_to, 0, size, writer.number, writer.tail_bytes, False, list(transient),
        Intervals(gone),
    )  # fmt: skip


def restored(store, tmp_path, found):
    restorer = Restorer(store, tmp_path / "queues", {} if found is None else {KEY: found})
    assert restorer.has_found(KEY)
    queue = TieredQueue(store, KEY, tmp_path / "queues" / str(KEY), "q", True, False)
    restorer.restore(queue)
    assert not restorer.has_found(KEY)
    return queue


def bodies(queue):
    return [entry.message.body for entry in ready_entries(queue)]


async def test_c1_segments_and_log_add_up(store, writer, tmp_path):
    write(store, writer, 0, 3)
    found = found_with(entries=[1, 2, 3, 4], state=state_of(writer, 3), gone=[(1, 2), (4, 5)])
    queue = restored(store, tmp_path, found)
    assert bodies(queue) == [b"segment 0", b"segment 2", b"log 3"]
    assert queue.next_position == 5


async def test_c2_what_a_state_does_not_count_is_removed(store, writer, tmp_path):
    write(store, writer, 0, 3)
    state = state_of(writer, 3)
    write(store, writer, 3, 12)
    queue = restored(store, tmp_path, found_with(entries=[3, 4], state=state))
    assert bodies(queue) == [b"segment 0", b"segment 1", b"segment 2", b"log 3", b"log 4"]
    assert not writer.path(1).exists()
    assert writer.path(0).stat().st_size == state.tail_bytes


async def test_a_segment_in_which_nothing_is_needed_is_removed(store, writer, tmp_path):
    write(store, writer, 0, 10)
    queue = restored(store, tmp_path, found_with(state=state_of(writer, 10, gone=[(0, 9)])))
    assert bodies(queue) == [b"segment 9"]
    assert not writer.path(0).exists()


async def test_segments_without_a_state_are_dropped_if_the_log_has_their_messages(
    store, writer, tmp_path
):
    write(store, writer, 0, 3)
    queue = restored(store, tmp_path, found_with(entries=[0, 1, 2]))
    assert bodies(queue) == [b"log 0", b"log 1", b"log 2"]
    assert not writer.path(0).exists()


async def test_segments_that_the_log_has_lost_come_back(store, writer, tmp_path, caplog):
    write(store, writer, 0, 3)
    queue = restored(store, tmp_path, None)
    assert bodies(queue) == [b"segment 0", b"segment 1", b"segment 2"]
    assert "the log has lost the removals of messages" in caplog.text


async def test_messages_that_are_not_persistent_are_left_out(store, writer, tmp_path):
    write(store, writer, 0, 2)
    write(store, writer, 2, 4, header=read_header(b"\0\0"))
    queue = restored(store, tmp_path, found_with(state=state_of(writer, 4, transient=[0])))
    assert bodies(queue) == [b"segment 0", b"segment 1"]
    assert queue.ready_count == 2


async def test_messages_of_a_missing_segment_are_lost(store, writer, tmp_path, caplog):
    write(store, writer, 0, 10)
    writer.path(0).unlink()
    queue = restored(store, tmp_path, found_with(state=state_of(writer, 10)))
    assert bodies(queue) == [b"segment 8", b"segment 9"]
    assert "8 messages of q are lost" in caplog.text


async def test_a_last_segment_without_a_whole_header_is_begun_again(store, writer, tmp_path):
    write(store, writer, 0, 3)
    state = state_of(writer, 3)
    writer.path(0).write_bytes(b"short")
    queue = restored(store, tmp_path, found_with(state=state))
    assert queue.writer.tail_bytes == 0


async def test_a_segment_of_another_version_is_not_removed(store, writer, tmp_path, monkeypatch):
    path = segment_path(tmp_path / "queues" / str(KEY), 5)
    path.parent.mkdir(parents=True)
    monkeypatch.setattr("leveret.storage.messages.formats.FORMAT_VERSION", 99)
    path.write_bytes(encode_file_header(segments.SEGMENT_MAGIC, 5))
    monkeypatch.undo()
    restored(store, tmp_path, found_with())
    assert path.exists()


async def test_what_no_queue_asks_for_is_removed(store, writer, tmp_path):
    write(store, writer, 0, 1)
    restorer = Restorer(store, tmp_path / "queues", {512: found_with(entries=[0])})
    assert restorer.keys() == [256, 512]
    restorer.remove_rest()
    assert restorer.keys() == []
    assert not writer.directory.exists()


def test_a_state_survives_its_encoding():
    state = StateRecord(KEY, 10, 5, 100, 1, 60, True, [1], Intervals([(0, 3)]))
    recovery = QueueRecovery(lambda run, bodies: [])
    recovery.take(read_record(encode_state(state), 0))
    assert recovery.found[KEY].state == state


@pytest.mark.parametrize(("queues", "syncs"), [(0, 0), (1, 1), (30, 1)])
async def test_one_sync_is_enough_for_all_queues_of_which_segments_were_removed(
    store, tmp_path, queues, syncs
):
    keys = range(KEY, KEY + queues)
    found = {key: found_with(range(8)) for key in keys}
    for key in keys:
        write(store, SegmentWriter(tmp_path / "queues" / str(key)), 0, 8)
    restorer = Restorer(store, tmp_path / "queues", found)
    before = store.disk.counts.syncs
    for key in keys:
        restorer.restore(TieredQueue(store, key, tmp_path / "queues" / str(key), "q", True, False))
        assert not list((tmp_path / "queues" / str(key)).iterdir())
    assert store.disk.counts.syncs == before
    restorer.sync()
    assert store.disk.counts.syncs == before + syncs


class TestAForgedState:
    """Its checksum is right, and its numbers are not: a restart neither takes long nor fails."""

    FAR = 1 << 46

    async def test_messages_without_segments_are_lost_with_one_line(
        self, store, writer, tmp_path, caplog
    ):
        write(store, writer, 0, 3)
        state = state_of(writer, 3)._replace(flushed_to=self.FAR)
        queue = restored(store, tmp_path, found_with(state=state))
        (line,) = [record.getMessage() for record in caplog.records if "lost" in record.message]
        last = segment_path(writer.directory, self.FAR // 8 - 1)
        assert f"from {writer.path(1)} to {last}: the files are missing" in line
        assert bodies(queue) == [b"segment 0", b"segment 1", b"segment 2"]
        assert queue.next_position == self.FAR

    async def test_a_last_segment_above_all_messages_is_not_believed(
        self, store, writer, tmp_path, caplog
    ):
        write(store, writer, 0, 3)
        state = state_of(writer, 3)._replace(tail_number=1 << 62)
        queue = restored(store, tmp_path, found_with(state=state))
        assert str(segment_path(writer.directory, 1 << 62)) in caplog.text
        assert bodies(queue) == [b"segment 0", b"segment 1", b"segment 2"]
        assert queue.writer.number == 0
