"""Interceptors of plugins: functions that may change each message that a client publishes.

They are called before the message is routed, in any protocol but that of streams, whose batches the
node does not open. While there is one, no publish takes the short path; without one, nothing is
done for them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from leveret.broker.amqp.content_header import ContentHeader, make_header
from leveret.broker.amqp.properties import Properties, decode_properties


@dataclass(slots=True)
class IncomingMessage:
    """A message that a client publishes. vhost, exchange and user are to be read only.

    routing_keys: its own, then those of CC and BCC; the list may be changed. properties: by name;
    `headers` is a field table, of pairs of AMQP's letter for a type and the value. body: in bytes.
    """

    vhost: str
    exchange: str
    user: str
    routing_keys: list[str]
    properties: Properties
    body: bytes


Interceptor = Callable[[IncomingMessage], object]


def intercepted(
    interceptors: Sequence[Interceptor], message: IncomingMessage, header: ContentHeader
) -> ContentHeader:
    """Have a message changed; its header after that. Raises what an interceptor raises.

    header: the one that the properties of the message were decoded from. A form that it has is of
    the message as it was, and is left out if that is changed.
    """
    body = message.body
    for intercept in interceptors:
        intercept(message)
    is_plain = header.form is None or message.body == body
    if is_plain and message.properties == decode_properties(header.raw):
        return header
    return make_header(message.properties, header.bcc_keys)
