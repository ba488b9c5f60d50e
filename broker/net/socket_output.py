"""A connection's output: buffered during a round of turns and written at its end.

Small pieces are joined into one write; large ones are not copied. If the client does not read, the
output is congested: its consumers get no messages until the socket's buffer has drained, so the
buffered output is bounded.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from mypy_extensions import mypyc_attr

from leveret.broker.net.progress_watch import ProgressWatch
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.turns import Flushable, Turns

LARGE_PIECE_BYTES: Final = 4 * 1024
"""Output whose pieces are this large on average is not joined: copying costs more than writev."""
OUTPUT_BYTES_MAX: Final = 1024 * 1024
"""Output gathered for one connection in one round; more waits for the next round."""
WRITE_BUFFER_HIGH_BYTES: Final = 256 * 1024
WRITE_BUFFER_LOW_BYTES: Final = 64 * 1024
"""Congestion starts at the high mark and ends at the low one, which keeps the socket busy."""


@mypyc_attr(allow_interpreted_subclasses=True)
class SocketOutput(Flushable):
    """The output of one connection.

    pieces: gathered in this round. bytes_out, writes: totals. is_dirty: a flush is due at the end
    of this round (broker/runtime/turns.py). caught_up: called when the output is no longer
    congested. stuck: called when the client has read nothing for `PROGRESS_MS_MAX`.

    A protocol may append to `pieces` directly, and then call `flush_later`, or `gathered` for
    contents.
    """

    __slots__ = (
        "_is_over", "_is_write_paused", "_transport", "_turns", "_watch", "bytes_out",
        "caught_up", "gathered_bytes", "pieces", "stuck", "writes",
    )  # fmt: skip

    def __init__(self, turns: Turns, clock: Clock) -> None:
        super().__init__()
        self._turns = turns
        self._watch = ProgressWatch(clock)
        self._transport: asyncio.Transport | None = None
        self._is_over = self._is_write_paused = False
        self.pieces: list[bytes | memoryview] = []
        self.gathered_bytes = 0
        self.bytes_out = self.writes = 0
        self.caught_up: Callable[[], object] = _no_listener
        self.stuck: Callable[[], object] = _no_listener

    def connect(self, transport: asyncio.Transport) -> None:
        """Write to this socket."""
        self._transport = transport
        transport.set_write_buffer_limits(WRITE_BUFFER_HIGH_BYTES, WRITE_BUFFER_LOW_BYTES)

    def disconnect(self) -> None:
        """The socket is closed: discard all later output."""
        self._transport = None
        self.pieces = []
        self.caught_up = self.stuck = _no_listener
        self._watch.end()

    @property
    def is_congested(self) -> bool:
        """Whether the client reads too slowly; it gets no deliveries until it has caught up."""
        return self._is_over or self._is_write_paused

    def write(self, piece: bytes | memoryview) -> None:
        """Write this at the end of the round."""
        self.pieces.append(piece)
        self.gathered(len(piece))

    def gathered(self, content_bytes: int) -> None:
        """Contents of about this many bytes were added: flush at the end of the round."""
        self.gathered_bytes += content_bytes
        if self.gathered_bytes > OUTPUT_BYTES_MAX:
            self._is_over = True
        if not self.is_dirty:
            self._turns.flush_later(self)

    def flush_later(self) -> None:
        """Schedule a flush for the end of the round."""
        if not self.is_dirty:
            self._turns.flush_later(self)

    def flush(self) -> None:
        """Write the buffered pieces."""
        pieces, self.pieces = self.pieces, []
        gathered_bytes, self.gathered_bytes = self.gathered_bytes, 0
        transport = self._transport
        if transport is None or not pieces:
            return
        self.writes += 1
        if len(pieces) == 1:
            transport.write(pieces[0])
            self.bytes_out += len(pieces[0])
        elif gathered_bytes > LARGE_PIECE_BYTES * len(pieces):
            transport.writelines(pieces)
            self.bytes_out += sum(map(len, pieces))
        else:
            data = b"".join(pieces)
            transport.write(data)
            self.bytes_out += len(data)
        self.end_round()

    def end_round(self) -> None:
        """Everything that was gathered in this round is written: more may be gathered."""
        if self._is_over and not self._is_write_paused:
            self._is_over = False
            self.caught_up()

    def when_sent(self, callback: Callable[[], object]) -> None:
        """Call back when the transport has all that was flushed."""
        callback()

    # The socket's buffer

    def pause(self) -> None:
        """The socket's buffer is full: the output is congested."""
        self._is_write_paused = True
        self._watch.begin(self)

    def resume(self) -> None:
        """The socket's buffer has drained: the output is no longer congested."""
        self._is_write_paused = self._is_over = False
        self._watch.end()
        self.caught_up()

    def sent_bytes(self) -> int:
        """The bytes that the system has accepted."""
        unsent_bytes = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return self.bytes_out - unsent_bytes


def _no_listener() -> None:
    """The output has no connection yet, or no longer has one."""
