"""The log: batches, who is called when, and what happens when the disk fails (rules LG1 to LG4)."""

import asyncio

import pytest

from leveret.storage.disk.disk import DiskFull, StoreError
from leveret.storage.log import log as log_module
from leveret.storage.log.log import CONFIRMED_AT_ONCE
from leveret.storage.messages.formats import (
    FILE_HEADER_BYTES,
    OLDEST,
    ScannedRecord,
    decode_oldest,
    encode_oldest,
    read_records,
)
from tests.unit.storage.fakes import LogUnderTest, NotesClient, Waiter

OLDEST_BYTES = len(encode_oldest(1))
FIRST = FILE_HEADER_BYTES + OLDEST_BYTES
"""The offset of the first client's first record in a file."""


@pytest.fixture(autouse=True)
def _retry_at_once(monkeypatch):
    monkeypatch.setattr(log_module, "RETRY_SECONDS", 0)


@pytest.fixture
async def rig(tmp_path):
    return LogUnderTest(tmp_path)


async def turn():
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_l1_a_batch_is_encoded_after_the_sync_of_the_one_before(rig):
    first, second = Waiter(), Waiter()
    rig.client.append(b"one")
    rig.log.when_safe(first, 1, "a queue")
    await turn()
    rig.client.append(b"two")
    rig.log.when_safe(second, 2, "a queue")
    await turn()
    assert rig.client.offsets == [(1, FIRST)]
    assert len(rig.worker.jobs) == 1
    rig.worker.work()
    await turn()
    assert len(rig.client.offsets) == 2
    rig.worker.work()
    assert (first.confirmed, second.confirmed) == ([1], [2])


async def test_l2_no_callback_is_called_before_the_sync(rig):
    waiter, called = Waiter(), []
    rig.client.append(b"one")
    rig.log.when_safe(waiter, 7, "a queue")
    rig.log.after_sync(lambda: called.append("after"))
    await turn()
    assert waiter.confirmed == called == []
    rig.worker.work()
    assert waiter.confirmed == [7]
    assert called == ["after"]
    assert rig.disk.done == [
        ("write", "0000000001.log"), ("sync", "metadata"), ("sync", "0000000001.log"),
    ]  # fmt: skip


async def test_each_turn_tells_some_of_very_many_waiting_callbacks(rig):
    waiter, called = Waiter(), []
    count = 2 * CONFIRMED_AT_ONCE + 1
    rig.client.append(b"one")
    for number in range(count):
        rig.log.when_safe(waiter, number, "a queue")
    rig.log.after_sync(lambda: called.append("after"))
    await turn()
    rig.worker.work()
    told = [len(waiter.confirmed)]
    rig.log.when_safe(waiter, count, "a queue")
    while not called:
        await asyncio.sleep(0)
        told.append(len(waiter.confirmed))
    assert told == [CONFIRMED_AT_ONCE, 2 * CONFIRMED_AT_ONCE, count]
    await turn()
    rig.worker.work()
    assert waiter.confirmed == list(range(count + 1))


class FailingWaiter:
    """A waiter with a defect."""

    def confirm(self, first, holder):
        raise ValueError("this waiter fails")


async def test_a_waiter_that_fails_is_reported_and_the_log_goes_on(rig, caplog):
    before, after, later = Waiter(), Waiter(), Waiter()
    rig.client.append(b"one")
    for waiter in (before, FailingWaiter(), after):
        rig.log.when_safe(waiter, 1, "a queue")
    await turn()
    rig.worker.work()
    assert (before.confirmed, after.confirmed) == ([1], [1])
    rig.log.when_safe(later, 2, "a queue")
    await turn()
    rig.worker.work()
    assert later.confirmed == [2]
    assert "ValueError: this waiter fails" in caplog.text


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("name", ["file_filled", "congestion_changed", "disk_filled"])
async def test_a_callback_that_fails_is_reported_and_the_log_goes_on(rig, caplog, name, is_full):
    setattr(rig.log, name, lambda *arguments: 1 / 0)
    rig.log.after_sync(lambda: 1 / 0)
    if is_full:
        rig.disk.errors["write"] = DiskFull("cannot write")
    called = []
    for _ in range(2):
        rig.client.append(b"one", log_module.PENDING_BYTES_HIGH + 1)
        rig.files.files[-1].is_finished = True
        rig.log.after_sync(lambda: called.append("after"))
        await rig.write()
    assert called == ["after", "after"]
    assert "ZeroDivisionError" in caplog.text


async def test_l2_callbacks_registered_during_a_batch_wait_for_the_next(rig):
    waiter = Waiter()
    rig.client.append(b"one")
    rig.log.when_safe(Waiter(), 1, "a queue")
    await turn()
    rig.log.when_safe(waiter, 2, "a queue")
    rig.worker.work()
    assert waiter.confirmed == []
    await turn()
    rig.worker.work()
    assert waiter.confirmed == [2]


async def test_l6_each_batch_begins_with_the_oldest_needed_file(rig):
    rig.client.append(b"one")
    await rig.write()
    rig.log.append_oldest(7)
    await rig.write()
    rig.client.append(b"two")
    await rig.write()
    await rig.write()
    found = read_records(rig.files.files[0].path.read_bytes(), FILE_HEADER_BYTES)
    records = [record for record in found if isinstance(record, ScannedRecord)]
    kinds = [record.kind == OLDEST for record in records]
    assert kinds == [True, False, True, True, False]
    assert [decode_oldest(records[place].head) for place in (0, 2, 3)] == [1, 7, 7]


async def test_l3_a_batch_starts_where_the_synced_bytes_end(rig):
    rig.client.append(b"one")
    await rig.write()
    size = rig.files.files[-1].size
    rig.client.append(b"two")
    await rig.write()
    assert rig.client.offsets == [(1, FIRST), (1, size + OLDEST_BYTES)]


async def test_l3_a_full_disk_gets_the_same_batch_again(rig):
    waiter, filled = Waiter(), []
    rig.log.disk_filled = filled.append
    rig.client.append(b"one")
    rig.log.when_safe(waiter, 1, "a queue")
    rig.disk.errors["write"] = DiskFull("cannot write")
    await turn()
    rig.worker.work()
    assert waiter.confirmed == []
    assert filled == [True]
    while not rig.worker.jobs:
        await asyncio.sleep(0)
    rig.worker.work()
    assert waiter.confirmed == [1]
    assert filled == [True, False]
    assert rig.client.offsets == [(1, FIRST)]


@pytest.mark.parametrize("error", [StoreError("cannot sync"), DiskFull("cannot sync")])
async def test_l4_after_a_failed_sync_no_callback_is_called_and_nothing_is_written(rig, error):
    waiter, failures = Waiter(), []
    rig.log.failed = failures.append
    rig.client.append(b"one")
    rig.log.when_safe(waiter, 1, "a queue")
    rig.disk.errors["sync"] = error
    await turn()
    rig.worker.work()
    assert len(failures) == 1
    rig.disk.done.clear()
    rig.client.append(b"two")
    rig.log.when_safe(waiter, 2, "a queue")
    await turn()
    assert rig.worker.work() == 0
    assert waiter.confirmed == rig.disk.done == []
    with pytest.raises(Exception, match="cannot sync"):
        await rig.log.sync()


def fails(*arguments):
    raise DiskFull("cannot write")


async def test_a_batch_is_tried_again_at_once_with_the_space_that_was_given_up(rig, monkeypatch):
    rig.client.append(b"one")
    waiter = Waiter()
    rig.log.when_safe(waiter, 1, "a queue")
    monkeypatch.setattr(rig.disk, "write", fails)
    rig.log.disk_filled = lambda is_full: monkeypatch.undo()
    await turn()
    rig.worker.work()
    assert not waiter.confirmed
    rig.worker.work()
    assert waiter.confirmed


async def test_a_batch_that_waits_for_room_is_not_written_to_a_closed_log(rig, monkeypatch):
    rig.client.append(b"one")
    rig.log.when_safe(Waiter(), 1, "a queue")
    monkeypatch.setattr(rig.disk, "write", fails)
    await turn()
    rig.worker.work()
    monkeypatch.undo()
    rig.log.let_go()
    await turn()
    rig.disk.done.clear()
    rig.worker.work()
    assert rig.disk.done == []


async def test_one_sync_serves_all_clients(rig):
    other = NotesClient(rig.log, "others", 101)
    rig.log.register(other)
    rig.client.append(b"one")
    other.append(b"two")
    await rig.write()
    assert [what for what, name in rig.disk.done if name.endswith(".log")] == ["write", "sync"]
    (_, first), (_, second) = rig.client.offsets[0], other.offsets[0]
    assert second > first


async def test_names_and_kinds_are_taken_once(rig):
    with pytest.raises(ValueError, match="notes"):
        rig.log.register(NotesClient(rig.log, "others"))


async def test_publishers_are_held_back_while_too_much_is_pending(rig):
    changes = []
    rig.log.congestion_changed = lambda: changes.append(rig.log.is_congested)
    rig.client.append(b"one", log_module.PENDING_BYTES_HIGH + 1)
    assert changes == [True]
    await rig.write()
    assert changes == [True, False]
    assert rig.log.pending_bytes == 0


async def test_nothing_is_written_or_synced_in_the_loop(rig):
    for sequence in range(50):
        rig.disk.done.clear()
        rig.client.append(b"one")
        rig.log.when_safe(Waiter(), sequence, "a queue")
        await turn()
        assert rig.disk.done == []
        assert rig.worker.work() == 1


async def test_a_client_that_fails_stops_the_log(rig):
    waiter, failures = Waiter(), []
    rig.log.failed = failures.append
    rig.client.take_records = lambda file, offset: 1 / 0
    rig.log.when_safe(waiter, 1, "a queue")
    await turn()
    assert isinstance(failures[0], ZeroDivisionError)
    assert rig.worker.work() == 0
    assert waiter.confirmed == []


async def test_a_log_that_was_not_begun_can_be_closed(rig):
    rig.files.files.clear()
    await rig.log.close()
    assert rig.worker.jobs == []
