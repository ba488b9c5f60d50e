"""Disk space that is kept for a full disk: when it is taken, and when it is given up."""

import pytest

from leveret.storage.disk.disk import Disk, Space, StoreError
from leveret.storage.disk.reserve import (
    FULL_BYTES,
    RESERVE_BYTES_MAX,
    RUNNING_FILE,
    STARTING_FILE,
    Reserve,
    make_room_to_start,
)

MEGABYTE = 1024 * 1024


class SmallDisk(Disk):
    """A disk whose free space is set by the test."""

    total_bytes, free_bytes = 1000 * MEGABYTE, 500 * MEGABYTE

    def space(self, directory):
        return Space(self.total_bytes, self.free_bytes)


@pytest.fixture
def disk():
    return SmallDisk()


@pytest.fixture
def reserve(tmp_path, disk):
    return Reserve(tmp_path, disk)


def sizes(directory):
    return {path.name: path.stat().st_blocks * 512 for path in directory.iterdir()}


def test_it_is_taken_if_there_is_room_for_it_twice(reserve, disk, tmp_path):
    disk.free_bytes = 2 * RESERVE_BYTES_MAX - 1
    assert not reserve.take()
    disk.free_bytes += 1
    assert reserve.take()
    assert sizes(tmp_path) == {RUNNING_FILE: 8 * MEGABYTE, STARTING_FILE: MEGABYTE}
    assert Reserve(tmp_path, disk).is_held


def test_of_a_small_disk_it_is_an_eighth(reserve, disk, tmp_path):
    disk.total_bytes, disk.free_bytes = 16 * MEGABYTE, 10 * MEGABYTE
    assert reserve.take()
    assert sizes(tmp_path) == {RUNNING_FILE: 2 * MEGABYTE, STARTING_FILE: 256 * 1024}


def test_a_running_node_gives_up_its_part_only(reserve, tmp_path):
    reserve.take()
    assert reserve.give_up()
    assert not reserve.is_held
    assert sizes(tmp_path) == {STARTING_FILE: MEGABYTE}
    assert not reserve.give_up()
    assert reserve.take()


def test_a_start_gives_up_one_part_after_the_other(reserve, disk, tmp_path):
    reserve.take()
    disk.free_bytes = FULL_BYTES
    reserve.make_room_to_start()
    assert len(sizes(tmp_path)) == 2
    disk.free_bytes -= 1
    reserve.make_room_to_start()
    assert sizes(tmp_path) == {STARTING_FILE: MEGABYTE}
    reserve.make_room_to_start()
    assert sizes(tmp_path) == {}


def test_a_disk_that_fills_meanwhile_leaves_no_file(reserve, disk, tmp_path):
    def allocate(path, size):
        return path.name == STARTING_FILE and Disk.allocate(disk, path, size)

    disk.allocate = allocate
    assert not reserve.take()
    assert not reserve.is_held
    assert sizes(tmp_path) == {STARTING_FILE: MEGABYTE}


def test_a_start_does_not_need_a_directory(tmp_path):
    make_room_to_start(tmp_path / "missing")
    with pytest.raises(StoreError, match="missing"):
        Disk().space(tmp_path / "missing")
