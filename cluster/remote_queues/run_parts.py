"""A part of a run of messages, as a run of its own, which nothing is decoded for.

Records leave out what is equal in the record before them (message_runs.py). So the first record of
a part gets the address and the properties of the last records that have them.
"""

from librt.strings import read_i16_le, read_i32_le
from mypy_extensions import i64

from leveret.cluster.remote_queues.message_runs import (
    AS_STORED,
    KEPT,
    NUMBERED,
    REDELIVERED,
    SAME_ADDRESS,
    SAME_HEADER,
    RunError,
)


def part_of_run(data: bytes, position: int, first: int, count: int) -> bytes:
    """The records of some messages of a run, as a run of their own.

    position: where the run begins in `data`. first: how many messages come before these. Raises
    RunError.
    """
    records = _Records(data, position)
    try:
        records.skip(first)
        return records.take(count)
    except (IndexError, ValueError) as error:
        raise RunError(f"messages {first} to {first + count} of a run: {error}") from None


class _Records:
    """The records of a run, which are not decoded.

    The positions of the last address and properties are kept, for records that refer to them.
    """

    __slots__ = (
        "_address_at", "_data", "_header_at", "_header_flags", "_number_at", "_position",
    )  # fmt: skip

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position: i64 = position
        self._address_at: i64 = 0
        self._number_at: i64 = 0
        self._header_at: i64 = 0
        self._header_flags: i64 = 0

    def skip(self, count: int) -> None:
        """Leave out the next records."""
        for _ in range(count):
            self._next()

    def take(self, count: int) -> bytes:
        """The next records; the first one refers to none before it."""
        data = self._data
        flags: i64 = data[self._position]
        body_at = self._next()
        if not self._address_at or not self._header_at:
            raise RunError("the first record refers to one before it")
        address = data[self._address_at : self._address_at + self._address_bytes()]
        number = data[self._number_at : self._number_at + 8] if flags & NUMBERED else b""
        header = data[self._header_at : self._header_at + 4 + self._size(self._header_at)]
        flags &= NUMBERED | REDELIVERED
        flags |= self._header_flags & (KEPT | AS_STORED)
        self.skip(count - 1)
        rest = data[body_at : self._position]
        return b"".join((bytes((flags,)), address, number, header, rest))

    def _next(self) -> int:
        """Pass a record; returns where its body begins, with its size."""
        data = self._data
        position = self._position
        flags: i64 = data[position]
        position += 1
        if not flags & SAME_ADDRESS:
            self._address_at = position
            position += self._address_bytes()
        self._number_at = position
        if flags & NUMBERED:
            position += 8
        if not flags & SAME_HEADER:
            self._header_at, self._header_flags = position, flags
            position += 4 + self._size(position)
        self._position = position + 4 + self._size(position)
        if self._position > len(data):
            raise RunError(f"{self._position - len(data)} bytes are missing")
        return position

    def _address_bytes(self) -> i64:
        return 2 + i64(read_i16_le(self._data, self._address_at))

    def _size(self, position: i64) -> i64:
        """The size of properties or of a body. Raises RunError."""
        size: i64 = i64(read_i32_le(self._data, position))
        if size < 0:
            raise RunError(f"a size of {size} bytes")
        return size
