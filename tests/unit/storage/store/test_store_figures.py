"""The store's figures: what it has done, as plain data."""

import time

import msgspec

from leveret.storage.disk.disk import DiskCounts
from leveret.storage.store.store_figures import StoreFigures, store_figures


def test_the_figures_are_those_of_the_moment():
    disk = DiskCounts()
    disk.note_read(10, time.perf_counter())
    disk.note_write(20, time.perf_counter())
    figures = store_figures(disk, messages=(1, 2), bodies=(3, 4))
    disk.note_write(20, time.perf_counter())
    assert (figures.messages_read, figures.messages_written) == (1, 2)
    assert (figures.bodies_read, figures.bodies_written) == (3, 4)
    assert (figures.reads, figures.read_bytes) == (1, 10)
    assert (figures.writes, figures.write_bytes) == (1, 20)


def test_they_survive_messagepack():
    figures = store_figures(DiskCounts(reads=5, sync_seconds=0.25), messages=(0, 0), bodies=(0, 0))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(figures), type=StoreFigures) == figures
