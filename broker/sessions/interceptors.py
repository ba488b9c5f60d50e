"""Interceptors: functions that may change each message that a client publishes or receives.

Interceptors of incoming messages are called before a message is routed, and those of outgoing
messages before it is encoded for a client. They are called for all protocols except the stream
protocol, whose batches the node does not open. Plugins and settings add them
(node/running_plugins.py). While there is one for incoming messages, no publish takes the short
path. Without interceptors, a publish costs nothing more, and a delivery costs one attribute test
for each run.

An interceptor adds information for consumers as an annotation (amqp/annotations.py), which
clients of AMQP 0-9-1 and STOMP see as a header. If an interceptor only adds annotations, a message
of another protocol keeps the form in which its publisher sent it (`ContentHeader.form`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from leveret.broker.amqp.annotations import is_annotation
from leveret.broker.amqp.content_header import ContentHeader, make_header
from leveret.broker.amqp.errors import Fault
from leveret.broker.amqp.properties import Properties, decode_properties
from leveret.broker.sessions.session import Session
from leveret.storage.messages.message import Message


@dataclass(slots=True)
class InterceptedMessage:
    """A message that an interceptor may change. It may change the last three fields of an incoming
    message, and the last two of an outgoing one.

    protocol, connection, user, client_id: of the client that publishes or receives the message.
    protocol: as in metrics, such as `amqp091` or `mqtt50`. client_id: empty except in MQTT. queue:
    the queue that the message comes from; empty for an incoming message. routing_keys: its own,
    then those of CC and BCC. properties: by name; `headers` is a field table, with pairs of AMQP's
    letter for a type and the value.
    """

    protocol: str
    connection: str
    user: str
    client_id: str
    vhost: str
    exchange: str
    queue: str
    routing_keys: list[str]
    properties: Properties
    body: bytes

    def annotate(self, name: str, letter: str, value: object, *, overwrite: bool = True) -> None:
        """Set a header. letter: its type in AMQP, such as `S` for text and `l` for a number.

        overwrite: replace a header that the message has already.
        """
        headers = self.properties.get("headers") or {}
        if overwrite or name not in headers:
            self.properties["headers"] = {**headers, name: (letter, value)}


Interceptor = Callable[[InterceptedMessage], object]


def intercept_incoming(
    session: Session, exchange: str, keys: list[str], header: ContentHeader, body: bytes
) -> tuple[ContentHeader, bytes]:
    """Call the interceptors of an incoming message; return its header and its body.

    keys: its routing keys, which interceptors may change. Raises what an interceptor raises.
    """
    message = _message(session, exchange, "", keys, header, body)
    header = _intercepted(session.services.interceptors, message, header, body)
    return header, message.body


def intercept_outgoing(session: Session, queue: str, message: Message) -> Message:
    """A message as the client receives it. Raises what an interceptor raises.

    queue: the name of its queue.
    """
    header, address = message.header, message.address
    assert isinstance(header, ContentHeader), "the broker's messages have such headers"
    keys = [address.routing_key]
    changed = _message(session, address.exchange, queue, keys, header, message.body)
    header = _intercepted(session.services.outgoing_interceptors, changed, header, message.body)
    return Message(address, header, changed.body, None, message.number)


def message_to_send(session: Session, queue: str, message: Message) -> Message | None:
    """As `intercept_outgoing`, for a consumer. None if an interceptor fails.

    The client must not receive the unchanged message then. Its connection ends after the present
    round, so that its unacknowledged messages are requeued.
    """
    try:
        return intercept_outgoing(session, queue, message)
    except Fault as fault:
        end = partial(session.connection.force_close, fault.explanation)
        session.vhost.turns.after_round(end)
        return None


def _message(
    session: Session, exchange: str, queue: str, keys: list[str], header: ContentHeader, body: bytes
) -> InterceptedMessage:
    connection = session.connection
    user = connection.user
    return InterceptedMessage(
        session.counted_as, connection.name, user.name, user.client_id, session.vhost.name,
        exchange, queue, keys, dict(header.properties), body,
    )  # fmt: skip


def _intercepted(
    interceptors: Sequence[Interceptor],
    message: InterceptedMessage,
    header: ContentHeader,
    body: bytes,
) -> ContentHeader:
    """Call the interceptors; return the message's new header. header, body: before the calls."""
    for intercept in interceptors:
        intercept(message)
    before = decode_properties(header.raw)
    is_same_body = message.body is body or message.body == body
    if message.properties == before and (header.form is None or is_same_body):
        return header
    form = header.form
    if form is not None and not (
        is_same_body and _without_annotations(message.properties) == _without_annotations(before)
    ):
        form = None
    return make_header(message.properties, header.bcc_keys, form)


def _without_annotations(properties: Properties) -> Properties:
    headers = properties.get("headers") or {}
    kept = {name: field for name, field in headers.items() if not is_annotation(name)}
    return {**properties, "headers": kept, "timestamp": None}
