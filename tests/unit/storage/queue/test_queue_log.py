"""The tiered queues as a client of the log (rules QL2 and QL3)."""

import asyncio
from functools import partial

import pytest

from leveret.storage.log.large_records import LARGE_BODIES_BYTES, LargeRecord
from leveret.storage.log.log import PENDING_BYTES_HIGH
from leveret.storage.log.recovery import LogReader
from leveret.storage.messages.formats import (
    OLDEST,
    PROGRESS,
    RUN,
    STATE,
    ScannedRecord,
    StateRecord,
    decode_run,
    encode_progress,
    encode_state,
    read_records,
)
from leveret.storage.messages.intervals import Intervals
from leveret.storage.messages.message import ENTRY_BYTES, Message
from leveret.storage.queue.queue_log import UNENCODED_MAX, QueueLog
from leveret.storage.queue.queue_recovery import QueueRecovery
from tests.unit.storage.fakes import ADDRESS, PERSISTENT_HEADER, LogUnderTest, persistent


class FakeQueue:
    """A queue whose messages are gone when the test says so."""

    def __init__(self, key):
        self.key = key
        self.gone = Intervals()
        self.fresh = Intervals()
        self.has_state = True

    def are_gone(self, start, end):
        return self.gone.covers(start, end)

    def take_progress(self):
        if not self.fresh:
            return None
        self.gone.update(self.fresh)
        record = encode_progress(self.key, 0, 0, self.fresh)
        self.fresh = Intervals()
        return record

    def encode_state(self):
        state = StateRecord(self.key, 100, 0, 0, 0, 0, False, [], self.gone)
        return encode_state(state) if self.has_state else None


class FakeMover:
    def __init__(self, steps):
        self.queues = {}
        self.lock = asyncio.Lock()
        self.steps = steps

    async def move_out(self, wanted):
        await asyncio.sleep(0)
        self.steps.append(("moved", [(queue.key, end) for queue, end in wanted]))


@pytest.fixture
async def rig(tmp_path):
    rig = LogUnderTest(tmp_path, file_bytes_max=100)
    rig.steps = []
    rig.mover = FakeMover(rig.steps)

    async def sync_segments():
        rig.steps.append("synced")

    recovery = QueueRecovery(
        lambda run, bodies: [Message(ADDRESS, PERSISTENT_HEADER, body) for body in bodies]
    )
    rig.queue_log = QueueLog(rig.log, rig.mover, sync_segments, recovery)
    rig.log.register(rig.queue_log)
    rig.queues = [FakeQueue(256), FakeQueue(512)]
    rig.mover.queues = {queue.key: queue for queue in rig.queues}
    return rig


def append(rig, queue, position, messages):
    body_bytes = sum(len(message.body) for message in messages)
    rig.queue_log.append_run(queue, position, messages, body_bytes, 0)


def records_of(rig, number=0):
    data = rig.files.files[number].path.read_bytes()
    records = [record for record in read_records(data, 40) if isinstance(record, ScannedRecord)]
    return [record for record in records if record.kind != OLDEST]


async def test_a_run_in_several_queues_is_one_record(rig):
    messages = persistent(b"a", b"b")
    for queue in rig.queues:
        append(rig, queue, 10, messages)
    await rig.write()
    (record,) = records_of(rig)
    assert decode_run(record.head).targets == [(256, 10), (512, 10)]


class WatchedHeader:
    """Properties of a persistent message; reports when they are encoded."""

    is_persistent = True

    def __init__(self, report):
        self._report = report

    @property
    def stored(self):
        self._report()
        return b"\0\0"


def watched(report, *bodies):
    """Persistent messages that report when they are encoded."""
    return [Message(ADDRESS, WatchedHeader(report), body) for body in bodies]


async def test_a_large_body_is_encoded_when_it_is_written(rig):
    large = persistent(bytes(LARGE_BODIES_BYTES), b"c")
    for messages in (persistent(b"a", b"b"), large, persistent(b"d")):
        append(rig, rig.queues[0], 0, messages)
    file = rig.files.files[0]
    records = rig.queue_log.take_records(file, file.size)
    [is_later] = [place for place, each in enumerate(records) if isinstance(each, LargeRecord)]
    assert b"a" in records[:is_later]
    assert b"d" in records[is_later:]


async def test_a_large_body_is_written_in_its_place(rig):
    large = persistent(bytes(LARGE_BODIES_BYTES), b"c")
    for messages in (persistent(b"a", b"b"), large, persistent(b"d")):
        append(rig, rig.queues[0], 0, messages)
    await rig.write()
    runs = [decode_run(record.head) for record in records_of(rig)]
    assert [run.sizes for run in runs] == [(1, 1), (LARGE_BODIES_BYTES, 1), (1,)]
    assert records_of(rig)[-1].end == rig.files.files[0].size


async def test_a_batch_of_very_many_messages_is_encoded_as_they_come(rig):
    encoded = set()
    count = 3 * UNENCODED_MAX
    for position in range(count):
        messages = watched(partial(encoded.add, position), b"%d" % position)
        append(rig, rig.queues[0], position, messages)
    before = len(encoded)
    await rig.write()
    assert before >= count - UNENCODED_MAX - 1
    runs = [decode_run(record.head) for record in records_of(rig)]
    assert [run.targets for run in runs] == [[(256, position)] for position in range(count)]
    assert rig.files.files[0].messages == rig.files.files[0].records == count


async def test_a_message_of_very_many_queues_is_encoded_as_it_reaches_them(rig):
    looked = []

    class Looked(FakeQueue):
        def are_gone(self, start, end):
            looked.append(self.key)
            return False

    queues = [Looked(256 * number) for number in range(1, 3 * UNENCODED_MAX + 2)]
    messages = persistent(b"body")
    at_once = []
    for queue in queues:
        before = len(looked)
        append(rig, queue, 0, messages)
        at_once.append(len(looked) - before)
    assert max(at_once) <= UNENCODED_MAX
    before = len(looked)
    records = rig.queue_log.take_records(rig.files.to_write()[0], 0)
    assert len(looked) - before <= UNENCODED_MAX
    assert looked == [queue.key for queue in queues]
    assert sum(record == b"body" for record in records) == 4


async def test_messages_that_are_gone_before_their_batch_are_left_out(rig):
    first, second = rig.queues
    messages = persistent(b"a")
    append(rig, first, 0, messages)
    append(rig, second, 5, messages)
    append(rig, second, 6, persistent(b"b"))
    first.fresh.add(0)
    second.fresh.add(6)
    for queue in rig.queues:
        rig.queue_log.note_dirty(queue)
    await rig.write()
    run, *progress = records_of(rig)
    assert decode_run(run.head).targets == [(512, 5)]
    assert [record.kind for record in progress] == [PROGRESS, PROGRESS]


async def test_q3_a_file_is_needed_while_it_speaks_of_a_queue_that_exists(rig):
    assert rig.queue_log.oldest_needed() is None
    append(rig, rig.queues[0], 0, persistent(b"a" * 100))
    await rig.write()
    append(rig, rig.queues[1], 0, persistent(b"b"))
    await rig.write()
    assert rig.queue_log.oldest_needed() == 1
    del rig.mover.queues[256]
    assert rig.queue_log.oldest_needed() == 2
    rig.mover.queues.clear()
    assert rig.queue_log.oldest_needed() is None


async def test_q2_states_are_appended_after_the_segments_are_synced(rig):
    rig.queues[1].has_state = False
    for queue in rig.queues:
        append(rig, queue, 3, persistent(b"a" * 100))
    await rig.write()
    await rig.queue_log.move_on(rig.files.files[0])
    assert rig.steps == [("moved", [(256, 4), (512, 4)]), "synced", "synced"]
    assert rig.queue_log.oldest_needed() is None
    await rig.write()
    assert [record.kind for record in records_of(rig, 1)] == [STATE]


async def test_a_restart_knows_again_what_each_file_speaks_of(rig):
    append(rig, rig.queues[0], 0, persistent(b"a" * 100))
    await rig.write()
    rig.queues[0].fresh.add(0)
    rig.queue_log.note_dirty(rig.queues[0])
    await rig.write()
    recovery = QueueRecovery(lambda run, bodies: persistent(*bodies))
    restarted = QueueLog(rig.log, rig.mover, lambda: None, recovery)
    rig.log.clients[1] = restarted
    reader = LogReader(rig.directory, rig.disk, rig.log.clients)
    reader.read()
    assert restarted.oldest_needed() == 1
    assert reader.files[0].messages == 1
    assert recovery.found[256].gone.covers(0, 1)


def test_kinds_are_those_of_queues():
    assert QueueLog.kinds == {RUN, PROGRESS, STATE}


async def test_messages_without_a_body_wait_for_the_disk_like_others(rig):
    for _ in range(PENDING_BYTES_HIGH // ENTRY_BYTES // 1000):
        append(rig, rig.queues[0], 0, persistent(*[b""] * 1000))
    assert not rig.log.is_congested
    append(rig, rig.queues[0], 0, persistent(*[b""] * 1000))
    assert rig.log.is_congested
