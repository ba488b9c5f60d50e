"""Log records with large bodies: the thread that writes them encodes them.

The checksum of a body of 100 MB takes 45 ms, and joining it with other records as long. `zlib` and
the system's write release the interpreter's lock, so that the event loop keeps running.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

LARGE_BODIES_BYTES = 1024 * 1024
"""A record with at least this many bytes of bodies is large."""


class LargeRecord:
    """A record that is encoded later.

    size: in bytes, including its bodies. encode: returns the record without its bodies.
    """

    __slots__ = ("_bodies", "_encode", "_size")

    def __init__(self, size: int, encode: Callable[[], bytes], bodies: list[bytes]) -> None:
        self._size = size
        self._encode = encode
        self._bodies = bodies

    def __len__(self) -> int:
        return self._size

    def pieces(self) -> list[bytes]:
        """The record in pieces, to be written in this order. For a worker's thread."""
        pieces = [self._encode(), *self._bodies]
        assert sum(map(len, pieces)) == self._size, "the size of the record was announced"
        return pieces


LogRecord = bytes | LargeRecord


def joined(records: list[LogRecord]) -> list[LogRecord]:
    """The records, with consecutive small ones joined into one piece."""
    try:
        # Nearly all batches have small records only: looking for a large one doubles the cost.
        return [b"".join(records)]  # type: ignore[arg-type]
    except TypeError:
        groups = groupby(records, lambda record: isinstance(record, bytes))
        return [
            piece
            for is_small, group in groups
            for piece in ([b"".join(group)] if is_small else group)  # type: ignore[arg-type]
        ]


def pieces_of(records: Iterable[LogRecord]) -> Iterator[bytes]:
    """The bytes of the records, in pieces. For a worker's thread."""
    for record in records:
        if isinstance(record, bytes):
            yield record
        else:
            yield from record.pieces()
