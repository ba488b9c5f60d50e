"""The routing keys that a message was published with."""

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.queues.dead_letters.header import cc_keys
from leveret.storage.messages.message import Message


def routing_keys_of(message: Message) -> list[str]:
    """Return a message's routing keys: its own, and those of CC and BCC."""
    header = message.header
    assert isinstance(header, ContentHeader)
    if not header.needs_care and not header.bcc_keys:
        return [message.address.routing_key]
    return [message.address.routing_key, *cc_keys(header.headers), *header.bcc_keys]
