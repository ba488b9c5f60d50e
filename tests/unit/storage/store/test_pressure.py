"""When publishers are held back, and when the disk counts as full."""

from types import SimpleNamespace

import pytest

from leveret.storage.disk.disk import StoreError
from leveret.storage.disk.reserve import FULL_BYTES
from leveret.storage.store.pressure import FILES_HIGH, Pressure


class FakeReserve:
    """A reserve that is taken if there is room."""

    def __init__(self):
        self.is_held, self.has_room = True, True

    def take(self):
        self.is_held = self.has_room
        return self.is_held

    def give_up(self):
        was_held, self.is_held = self.is_held, False
        return was_held


class ThisThread:
    """A worker that does its jobs at once."""

    async def run(self, job):
        return job()


@pytest.fixture
def rig():
    rig = SimpleNamespace(
        log=SimpleNamespace(is_congested=False),
        files=SimpleNamespace(files=[]),
        pager=SimpleNamespace(is_overfull=False, is_disk_full=False),
        streams=SimpleNamespace(),
        reserve=FakeReserve(),
        changes=[],
        filled=[],
    )
    rig.pressure = Pressure(rig.log, rig.files, rig.pager, rig.streams, rig.reserve)
    rig.pressure.congestion_changed = lambda: rig.changes.append(
        (rig.pressure.is_congested, rig.pressure.is_memory_short)
    )
    rig.pressure.disk_filled = rig.filled.append
    return rig


def test_publishers_wait_while_the_log_or_the_pager_is_behind(rig):
    rig.log.is_congested = True
    rig.log.congestion_changed()
    rig.pager.is_overfull = True
    rig.pager.overfull_changed()
    rig.log.is_congested = False
    rig.log.congestion_changed()
    assert rig.changes == [(True, False), (True, True)]
    rig.pager.is_overfull = False
    rig.pager.overfull_changed()
    assert rig.changes == [(True, False), (True, True), (False, False)]


def test_publishers_wait_while_too_many_log_files_are_left(rig):
    rig.files.files = [None] * FILES_HIGH
    rig.pressure.look()
    assert not rig.pressure.is_congested
    rig.files.files.append(None)
    rig.pressure.look()
    assert rig.pressure.is_congested


async def test_the_disk_is_full_until_all_can_write_and_the_reserve_is_held(rig):
    rig.log.disk_filled(True)
    rig.pager.disk_filled(True)
    rig.streams.disk_filled(True)
    assert not rig.reserve.is_held
    assert rig.pager.is_disk_full
    rig.log.disk_filled(False)
    rig.pager.disk_filled(False)
    rig.streams.disk_filled(False)
    assert rig.filled == [True]
    rig.reserve.has_room = False
    await rig.pressure.take_reserve(ThisThread())
    assert rig.filled == [True]
    rig.reserve.has_room = True
    await rig.pressure.take_reserve(ThisThread())
    assert rig.filled == [True, False]
    assert not rig.pager.is_disk_full


async def test_the_reserve_is_given_up_before_a_write_fails(rig):
    rig.pressure.note_free_bytes(FULL_BYTES)
    assert rig.reserve.is_held
    rig.pressure.note_free_bytes(FULL_BYTES - 1)
    rig.pressure.note_free_bytes(FULL_BYTES - 2)
    assert rig.filled == [True]
    assert not rig.reserve.is_held


async def test_without_room_for_the_reserve_publishers_wait_from_the_start(rig, caplog):
    rig.reserve.is_held = rig.reserve.has_room = False
    await rig.pressure.take_reserve(ThisThread())
    await rig.pressure.take_reserve(ThisThread())
    assert rig.filled == [True]
    warnings = [record.message for record in caplog.records if record.name == "leveret.store"]
    assert len(warnings) == 1
    assert "no room for the reserve" in warnings[0]


async def test_a_disk_without_a_reserve_is_used_all_the_same(rig, caplog):
    def fail():
        raise StoreError("cannot allocate")

    rig.reserve.is_held, rig.reserve.take = False, fail
    await rig.pressure.take_reserve(ThisThread())
    assert rig.filled == []
    assert "cannot allocate" in caplog.text
    rig.pressure.note_free_bytes(0)
    assert rig.filled == []
