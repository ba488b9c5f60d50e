"""The bytes from one connection's socket: counted, measured as a turn, and handled by the protocol.

The transport calls `SocketInput.receive` directly, as the protocol's `data_received`. A connection
itself cannot be compiled, because it has weak references; its input is compiled, since a program
that sends one message at a time causes a read for each.
"""

from mypy_extensions import mypyc_attr

from leveret.broker.runtime.loop_watch import NOTED_SECONDS
from leveret.broker.runtime.turns import Turns


@mypyc_attr(allow_interpreted_subclasses=True)
class SocketInput:
    """The bytes that one connection receives; a protocol overrides `take`.

    bytes_in, reads: totals.
    """

    __slots__ = ("_cause", "_turns", "bytes_in", "reads")

    def __init__(self, turns: Turns, cause: object) -> None:
        """cause: the connection, named as the cause of a turn that takes long."""
        self._turns = turns
        self._cause = cause
        self.bytes_in = self.reads = 0

    def receive(self, data: bytes) -> None:
        """Process bytes from the socket."""
        turns = self._turns
        started = turns.begin_read()
        size = len(data)
        self.bytes_in += size
        self.reads += 1
        try:
            self.take(data)
        finally:
            elapsed = turns.end_read(started, size)
            if elapsed > NOTED_SECONDS:
                turns.watch.note(elapsed, str(self._cause))

    def take(self, data: bytes) -> None:
        """Handle the bytes of one read."""
        raise NotImplementedError
