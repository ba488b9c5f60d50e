"""The input of a port's HTTP clients, read in turns of the event loop.

aiohttp parses all input at once. In one turn the event loop reads each socket that has input, up to
32 times in a row and 256 KB at a time. A client that has not logged in may send blank lines, or a
body in chunks of one byte, and so keep the loop busy for seconds: a byte of that takes up to 400
nanoseconds. So all clients of a port share `BYTES_A_TURN`. The rest waits, and is read
`SLICE_BYTES` of each client at a time. Sockets of clients that wait are not read.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

BYTES_A_TURN = 16 * 1024
"""Parsed in up to 7 milliseconds."""
SLICE_BYTES = 4 * 1024
"""A short request does not wait for the long bodies of others."""


class WaitingClient(Protocol):
    """A client with bytes that wait."""

    def read_on(self, size: int) -> bool:
        """Read up to this many of the waiting bytes. Returns whether there are more."""


class ReadTurns:
    """The turns of the clients of one port."""

    def __init__(self, call_soon: Callable[[Callable[[], object]], object]) -> None:
        """call_soon: calls back in the next turn of the event loop."""
        self._call_soon = call_soon
        self._left = BYTES_A_TURN
        self._waiting: deque[WaitingClient] = deque()
        self._is_next_turn_due = False

    def take(self, size: int) -> bool:
        """Whether a client may read this many bytes now. Otherwise it has to `wait`."""
        self._await_next_turn()
        if self._waiting or size > self._left:
            return False
        self._left -= size
        return True

    def wait(self, client: WaitingClient) -> None:
        """Call the client's `read_on` in later turns, until it has read everything."""
        self._waiting.append(client)
        self._await_next_turn()

    def _await_next_turn(self) -> None:
        if not self._is_next_turn_due:
            self._is_next_turn_due = True
            self._call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_next_turn_due = False
        self._left = BYTES_A_TURN
        try:
            while self._waiting and self._left > 0:
                self._left -= SLICE_BYTES
                client = self._waiting.popleft()
                if client.read_on(SLICE_BYTES):
                    self._waiting.append(client)
        finally:
            if self._waiting:
                self._await_next_turn()
