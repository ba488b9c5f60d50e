"""The bytes from one connection's socket, passed to the handshake and then to the frame scanner."""

from functools import partial
from typing import Final, Protocol

from leveret.broker.amqp.frames import FrameScanner
from leveret.broker.net.reading import BIG_READ_BYTES, Reading
from leveret.broker.net.socket_input import SocketInput
from leveret.broker.protocols.amqp091.connection.incoming import Incoming
from leveret.broker.runtime.turns import Turns

SMALL_READ_BYTES_MAX: Final = 16 * 1024
"""A publisher that sends so little at a time depends on latency. Acks do not count, because
consumers of large publishers send them, too.
"""


class Greeting(Protocol):
    """The handshake, which takes the protocol header."""

    @property
    def is_waiting_for_header(self) -> bool:
        """Whether the protocol header has not been received yet."""

    def read_protocol_header(self, data: bytes) -> bytes:
        """Returns the bytes after the header."""


class ScannerInput(SocketInput):
    """The bytes that one connection receives."""

    __slots__ = ("_greeting", "_id", "_incoming", "_reading", "_scan", "_scanner")

    def __init__(
        self,
        turns: Turns,
        incoming: Incoming,
        scanner: FrameScanner,
        reading: Reading,
        greeting: Greeting,
        connection: object,
    ) -> None:
        """connection: named as the cause of a turn that takes long."""
        super().__init__(turns, connection)
        # A reference would keep a closed connection alive.
        self._id = id(self)
        self._incoming = incoming
        self._scanner = scanner
        self._scan = scanner.scan
        self._reading = reading
        self._greeting: Greeting | None = greeting

    def take(self, data: bytes) -> None:
        """Handle the bytes of one read."""
        size = len(data)
        if self._greeting is not None:
            data = self._greet(self._greeting, data)
        if data:
            self._pass_on(data)
        if size <= SMALL_READ_BYTES_MAX and self._incoming.is_publishing:
            turns = self._turns
            turns.small_publisher, turns.small_publish_at = self._id, turns.rounds

    def _greet(self, greeting: Greeting, data: bytes) -> bytes:
        rest = greeting.read_protocol_header(data)
        if not greeting.is_waiting_for_header:
            self._greeting = None
        return rest

    def _pass_on(self, data: bytes) -> None:
        incoming, scanner = self._incoming, self._scanner
        if self._turns.work_left <= 0 or incoming.steps.waiting:
            incoming.steps.wait_with(partial(scanner.add, data), self._scan)
            return
        scanner.add(data)
        incoming.handle(self._scan)
        if len(data) >= BIG_READ_BYTES:
            self._reading.pause_after_large_reads(
                len(data), self._turns.others_publish_little(self._id)
            )
