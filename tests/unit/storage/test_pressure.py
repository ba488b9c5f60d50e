"""When publishers are held back, and when the disk counts as full."""

from types import SimpleNamespace

import pytest

from leveret.storage.pressure import FILES_HIGH, Pressure


@pytest.fixture
def rig():
    rig = SimpleNamespace(
        log=SimpleNamespace(is_congested=False),
        files=SimpleNamespace(files=[]),
        pager=SimpleNamespace(is_overfull=False),
        changes=[],
        filled=[],
    )
    rig.pressure = Pressure(rig.log, rig.files, rig.pager)
    rig.pressure.congestion_changed = lambda: rig.changes.append(rig.pressure.is_congested)
    rig.pressure.disk_filled = rig.filled.append
    return rig


def test_publishers_wait_while_the_log_or_the_pager_is_behind(rig):
    rig.log.is_congested = True
    rig.log.congestion_changed()
    rig.pager.is_overfull = True
    rig.pager.overfull_changed()
    rig.log.is_congested = False
    rig.log.congestion_changed()
    assert rig.changes == [True]
    rig.pager.is_overfull = False
    rig.pager.overfull_changed()
    assert rig.changes == [True, False]


def test_publishers_wait_while_too_many_log_files_are_left(rig):
    rig.files.files = [None] * FILES_HIGH
    rig.pressure.look()
    assert not rig.pressure.is_congested
    rig.files.files.append(None)
    rig.pressure.look()
    assert rig.pressure.is_congested


def test_the_disk_is_full_until_everybody_can_write_again(rig):
    rig.log.disk_filled(True)
    rig.pager.disk_filled(True)
    rig.log.disk_filled(False)
    assert rig.filled == [True]
    rig.pager.disk_filled(False)
    assert rig.filled == [True, False]
