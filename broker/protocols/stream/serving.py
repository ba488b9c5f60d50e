"""The connection as the commands of the stream protocol see it, and how commands are refused."""

from typing import Final, Protocol, cast

from leveret.broker.amqp import reply_codes
from leveret.broker.amqp.errors import ChannelFault, Fault
from leveret.broker.auth.identity import Identity
from leveret.broker.protocols.stream import codes
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_kind import STREAM
from leveret.broker.queues.contract.stream import Stream
from leveret.broker.runtime.names import QUEUE
from leveret.broker.services.services import Services
from leveret.broker.sessions.session import Session
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.storage.disk.file_parts import FilePart

CONFIGURE: Final = "configure"
READ: Final = "read"
WRITE: Final = "write"

_CODES: Final = {
    reply_codes.ACCESS_REFUSED: codes.ACCESS_REFUSED,
    reply_codes.NOT_FOUND: codes.STREAM_DOES_NOT_EXIST,
    reply_codes.INTERNAL_ERROR: codes.INTERNAL_ERROR,
}


class CommandRefused(Exception):
    """A command is answered with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class ServingConnection(Protocol):
    """An open connection, as its commands see it.

    is_tls: the client also needs TLS on other nodes.
    """

    name: str
    own_port: int

    @property
    def services(self) -> Services:
        """The services of the node."""

    @property
    def vhost(self) -> VirtualHost:
        """The virtual host that it has opened."""

    @property
    def user(self) -> Identity:
        """The user that is logged in."""

    @property
    def session(self) -> Session:
        """The session that declares for it."""

    @property
    def is_tls(self) -> bool:
        """Whether it has TLS."""

    @property
    def is_congested(self) -> bool:
        """Whether its client does not read its output."""

    @property
    def sends_files(self) -> bool:
        """Whether parts of files can be sent to its client."""

    def send(self, frame: bytes | memoryview) -> None:
        """Send a frame, or a part of one."""

    def send_part(self, part: FilePart) -> None:
        """Send a part of a file."""

    def use(self, stream: Stream) -> None:
        """A publisher or a subscription of a stream begins."""

    def end_use(self, stream: Stream) -> None:
        """A publisher or a subscription of a stream ends."""

    def lose(self, stream: Stream) -> None:
        """A stream cannot be used any longer: end its publishers and subscriptions."""

    def confirm_later(self) -> None:
        """Call `Publishers.send_confirms` at the end of the round."""

    def go_on(self) -> None:
        """Handle input that has waited for confirms."""

    def fail(self, code: int, reason: str) -> None:
        """Close the connection with a code."""


async def check(connection: ServingConnection, stream: str, permission: str) -> None:
    """Raise CommandRefused unless the user has this permission for a stream."""
    access = connection.services.access
    try:
        await access.check(connection.user, connection.vhost.name, QUEUE, stream, permission)
    except ChannelFault as fault:
        raise CommandRefused(code_of(fault)) from None


def find_stream(connection: ServingConnection, name: str) -> Stream:
    """The stream of this name. Raises CommandRefused if there is none."""
    return cast("Stream", find_queue(connection, name))


def find_queue(connection: ServingConnection, name: str) -> QueueClient:
    """The stream of this name, as a queue. Raises CommandRefused if there is none."""
    queue = connection.vhost.queues.get(name)
    if queue is None or not is_stream(queue):
        raise CommandRefused(codes.STREAM_DOES_NOT_EXIST)
    return queue


def is_stream(queue: QueueClient) -> bool:
    """Whether a queue is a stream."""
    return queue.kind.name == STREAM


def note_error(services: Services, code: int) -> None:
    """Count a code that a client gets."""
    name = codes.ERRORS.get(code)
    if name is not None:
        services.counts.stream_errors[name] += 1


def code_of(fault: Fault) -> int:
    """The code for an operation that AMQP 0-9-1 would answer with this fault."""
    return _CODES.get(fault.reply_code, codes.PRECONDITION_FAILED)
