"""Interceptors: functions that may change each message that a client publishes, or gets.

Those for incoming messages are called before a message is routed, and those for outgoing ones
before it is encoded for a client, in any protocol but that of streams, whose batches the node does
not open. They are from plugins and from settings (node/running_plugins.py). While there is one for
incoming messages, no publish takes the short path; without one, nothing is done for them, and a
delivery costs one attribute test for each run.

What an interceptor adds to a message for its readers is an annotation (amqp/annotations.py), which
clients of AMQP 0-9-1 and STOMP see as a header. A message of another protocol keeps the form in
which its publisher sent it (`ContentHeader.form`) if nothing else of it is changed.
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
    """A message on its way. Only the last three fields may be changed, and of an outgoing message
    only the last two.

    protocol, connection, user, client_id: of the client that publishes or gets it. protocol: as in
    metrics, such as `amqp091` or `mqtt50`. client_id: that of MQTT, else empty. queue: where it
    comes from; empty for an incoming message. routing_keys: its own, then those of CC and BCC.
    properties: by name; `headers` is a field table, of pairs of AMQP's letter for a type and the
    value. body: in bytes.
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
        """Set a header. letter: of its type in AMQP, such as `S` for text and `l` for a number.

        overwrite: also if the message has the header already.
        """
        headers = self.properties.get("headers") or {}
        if overwrite or name not in headers:
            self.properties["headers"] = {**headers, name: (letter, value)}


Interceptor = Callable[[InterceptedMessage], object]


def intercept_incoming(
    session: Session, exchange: str, keys: list[str], header: ContentHeader, body: bytes
) -> tuple[ContentHeader, bytes]:
    """Have a message changed that a client publishes: its header and its body after that.

    keys: its routing keys, which may be changed. Raises what an interceptor raises.
    """
    message = _message(session, exchange, "", keys, header, body)
    header = _intercepted(session.services.interceptors, message, header, body)
    return header, message.body


def intercept_outgoing(session: Session, queue: str, message: Message) -> Message:
    """A message as a client gets it. queue: its queue's name. Raises what an interceptor raises."""
    header, address = message.header, message.address
    assert isinstance(header, ContentHeader), "the broker's messages have such headers"
    keys = [address.routing_key]
    changed = _message(session, address.exchange, queue, keys, header, message.body)
    header = _intercepted(session.services.outgoing_interceptors, changed, header, message.body)
    return Message(address, header, changed.body, None, message.number)


def message_to_send(session: Session, queue: str, message: Message) -> Message | None:
    """As `intercept_outgoing`, for a consumer. If an interceptor fails, the client must not get the
    message as it was: returns None, and the connection ends after the present round, so that what
    the client has not acknowledged is requeued.
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
    """Call the interceptors; the message's header after that. header, body: before."""
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
