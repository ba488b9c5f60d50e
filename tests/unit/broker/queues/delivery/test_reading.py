"""The messages of a queue are read by a thread, whose data exist only while it calls back."""

import pytest

from leveret.broker.queues.delivery.reading import read_all
from leveret.broker.runtime.long_work import LongWork
from leveret.storage.contract.backing_queue import BeingRead, Unreadable
from tests.turns_by_hand import TurnsByHand

READ_BYTES = 1000


class CursorOnDisk:
    """A cursor over pieces, each of which a thread has to read. failures: before the first."""

    def __init__(self, *pieces, failures=0):
        self._pieces = [*pieces, []]
        self._failures = failures
        self._waiting = []
        self._is_there = False

    def read(self, bytes_max):
        assert bytes_max == READ_BYTES
        if not self._is_there:
            raise BeingRead("FILE", self._waiting.append)
        if self._failures:
            self._failures -= 1
            raise Unreadable("FILE")
        return self._pieces.pop(0)

    def is_read(self):
        """The thread has read; returns whether a caller waited for it."""
        waiting, self._waiting = self._waiting, []
        self._is_there = True
        for callback in waiting:
            callback()
        self._is_there = False
        return bool(waiting)


class Reader:
    def __init__(self):
        self.found = []
        self.wants_more = True

    def read(self, entries):
        self.found += entries


def test_all_pieces_are_read():
    cursor, reader, turns = CursorOnDisk("ab", "c"), Reader(), TurnsByHand()
    LongWork(turns, "reading", read_all(reader, cursor, READ_BYTES, 1)).start()
    while cursor.is_read():
        turns.run()
    assert reader.found == ["a", "b", "c"]


def test_a_reader_that_has_ended_is_not_called():
    cursor, reader, turns = CursorOnDisk("ab", "c"), Reader(), TurnsByHand()
    LongWork(turns, "reading", read_all(reader, cursor, READ_BYTES, 1)).start()
    reader.wants_more = False
    assert cursor.is_read()
    turns.run()
    assert reader.found == []
    assert not cursor.is_read()


def test_a_message_that_cannot_be_read_ends_the_reading():
    cursor, reader = CursorOnDisk("ab", failures=1), Reader()
    steps = read_all(reader, cursor, READ_BYTES, 1)
    next(steps)
    cursor.is_read()
    with pytest.raises(Unreadable):
        next(steps)
    # The cursor is where it was.
    again = read_all(reader, cursor, READ_BYTES, 1)
    next(again)
    cursor.is_read()
    assert next(again) == 2
    assert reader.found == ["a", "b"]
