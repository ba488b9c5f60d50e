"""Freed memory goes back to the system: when there is much, and the node has little to do."""

import pytest

from leveret.mgmt.cli.freed_memory import (
    FREE_BYTES_MAX,
    IDLE_ROUNDS_A_SECOND,
    Allocator,
    FreedMemory,
)
from leveret.mgmt.metrics.allocators import find_mallinfo


class FakeAllocator:
    def __init__(self, free_bytes):
        self._free_bytes, self.trims = free_bytes, 0

    def free_bytes(self):
        return self._free_bytes

    def trim(self):
        self.trims += 1


@pytest.mark.parametrize(("free_bytes", "trims"), [(FREE_BYTES_MAX, 0), (FREE_BYTES_MAX + 1, 1)])
def test_much_freed_memory_is_given_back(free_bytes, trims):
    allocator = FakeAllocator(free_bytes)
    FreedMemory(allocator, lambda: 0).give_back()
    assert allocator.trims == trims


def test_a_node_is_idle_when_there_were_few_rounds_since_the_last_look():
    rounds = [5, 5 + 10 * IDLE_ROUNDS_A_SECOND - 1, 5 + 20 * IDLE_ROUNDS_A_SECOND, 0]
    freed = FreedMemory(FakeAllocator(0), iter(rounds).__next__)
    assert freed.is_idle(10)
    assert not freed.is_idle(10)
    # The broker was stopped.
    assert not freed.is_idle(10)


def test_the_c_library_knows_how_much_is_free():
    info = find_mallinfo()
    if info is None:
        pytest.skip("not glibc")
    allocator = Allocator(info)
    assert allocator.free_bytes() > 0
    allocator.trim()
