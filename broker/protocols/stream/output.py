"""The output of a connection of the stream protocol: gathered in a round, written at its end.

A client that does not read what is sent to it makes the output congested: no chunk is taken for its
subscriptions until the socket's buffer has drained. So it holds the buffer and one turn's chunks,
whatever its credit.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from leveret.broker.net.progress_watch import ProgressWatch
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.turns import Flushable, Turns

OUTPUT_BYTES_MAX: Final = 1024 * 1024
"""Output gathered in one round; more waits for the next one."""
WRITE_BUFFER_HIGH_BYTES: Final = 256 * 1024
WRITE_BUFFER_LOW_BYTES: Final = 64 * 1024
JOINED_PIECE_BYTES: Final = 4 * 1024
"""Pieces that are smaller on average are joined: copying costs less than a long writev."""


class Output(Flushable):
    """The output of one connection.

    bytes_out, writes: totals. before_flush: called before each flush, to add what is due.
    caught_up: called when the output is no longer congested. stuck: called when the client reads
    nothing.
    """

    __slots__ = (
        "_gathered_bytes", "_is_over", "_is_write_paused", "_pieces", "_transport", "_turns",
        "_watch", "before_flush", "bytes_out", "caught_up", "stuck", "writes",
    )  # fmt: skip

    def __init__(self, turns: Turns, clock: Clock) -> None:
        super().__init__()
        self._turns = turns
        self._watch = ProgressWatch(clock)
        self._transport: asyncio.Transport | None = None
        self._pieces: list[bytes] = []
        self._gathered_bytes = 0
        self._is_over = self._is_write_paused = False
        self.bytes_out = self.writes = 0
        self.before_flush: Callable[[], object] = _nothing
        self.caught_up: Callable[[], object] = _nothing
        self.stuck: Callable[[], object] = _nothing

    def connect(self, transport: asyncio.Transport) -> None:
        """Write to this socket."""
        self._transport = transport
        transport.set_write_buffer_limits(WRITE_BUFFER_HIGH_BYTES, WRITE_BUFFER_LOW_BYTES)

    def disconnect(self) -> None:
        """The socket is closed: drop all output."""
        self._transport = None
        self._pieces = []
        self.before_flush = self.caught_up = self.stuck = _nothing
        self._watch.end()

    @property
    def is_congested(self) -> bool:
        """Whether chunks have to wait."""
        return self._is_over or self._is_write_paused

    def send(self, frame: bytes) -> None:
        """Send a frame, or a part of one."""
        self._pieces.append(frame)
        self._gathered_bytes += len(frame)
        if self._gathered_bytes > OUTPUT_BYTES_MAX:
            self._is_over = True
        self.flush_later()

    def flush_later(self) -> None:
        """Flush at the end of the round."""
        if not self.is_dirty:
            self._turns.flush_later(self)

    def flush(self) -> None:
        """Write what was gathered."""
        self.before_flush()
        pieces, self._pieces = self._pieces, []
        gathered_bytes, self._gathered_bytes = self._gathered_bytes, 0
        transport = self._transport
        if transport is None or not pieces:
            return
        self.writes += 1
        self.bytes_out += gathered_bytes
        if gathered_bytes > JOINED_PIECE_BYTES * len(pieces):
            transport.writelines(pieces)
        else:
            transport.write(b"".join(pieces))
        if self._is_over and not self._is_write_paused:
            self._is_over = False
            self.caught_up()

    # The socket's buffer

    def pause(self) -> None:
        """The socket's buffer is full."""
        self._is_write_paused = True
        self._watch.begin(self)

    def resume(self) -> None:
        """The socket's buffer has drained."""
        self._is_write_paused = self._is_over = False
        self._watch.end()
        self.caught_up()

    def sent_bytes(self) -> int:
        """The bytes that the system has accepted."""
        unsent_bytes = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return self.bytes_out - unsent_bytes


def _nothing() -> None:
    """Do nothing: there is no listener."""
