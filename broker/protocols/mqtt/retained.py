"""Sends retained messages to a client that subscribes.

They come from the node's retained messages (broker/retained/), not from a queue, so they are not
repeated, and their acknowledgements have no effect.
"""

from collections.abc import Iterator
from typing import Final

from leveret.broker.protocols.mqtt import codes
from leveret.broker.protocols.mqtt.mqtt_session import MqttSession
from leveret.broker.protocols.mqtt.packets import Filter
from leveret.broker.protocols.mqtt.properties import (
    MESSAGE_EXPIRY_INTERVAL,
    SUBSCRIPTION_IDENTIFIER,
    encode_variable,
)
from leveret.broker.protocols.mqtt.shared import PREFIX
from leveret.broker.protocols.mqtt.subscriptions import DO_NOT_SEND, RETAIN_HANDLING, SEND_IF_NEW
from leveret.broker.retained.retained_message import RetainedMessage
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.pending import Answer

RETAINED: Final = 0x31
"""The first byte of a PUBLISH with the retain flag."""


def send_retained(
    session: MqttSession, filters: list[tuple[Filter, bool]], identifier: int
) -> None:
    """Send the messages that match filters. filters: each with whether it is new."""
    wanted = [
        one
        for one, is_new in filters
        if (not session.is_level_5 or _wants(one.options, is_new)) and not _is_shared(session, one)
    ]
    if wanted:
        steps = _sending(session, wanted, identifier)
        LongWork(session.vhost.turns, f"the retained messages for {session!r}", steps).start()


def _is_shared(session: MqttSession, one: Filter) -> bool:
    """Whether it is a filter of a group, which gets no retained messages."""
    return session.services.config.mqtt.shared_subscriptions and one.topic_filter.startswith(PREFIX)


def _wants(options: int, is_new: bool) -> bool:
    handling = options & RETAIN_HANDLING
    return handling < DO_NOT_SEND and (is_new or handling != SEND_IF_NEW)


def _sending(
    session: MqttSession, filters: list[Filter], identifier: int
) -> Iterator[int | Answer[None]]:
    retained, vhost = session.services.retained, session.vhost.name
    for one in filters:
        qos = min(one.qos, 1)

        def found(topic: str, message: RetainedMessage, qos: int = qos) -> Answer[None] | None:
            session.output.write(_packet(session, topic, message, qos, identifier))
            return session.room()

        # The filter as clients see it: a dot in it is a slash.
        topic_filter = session.topics.topic_filter(session.topics.binding_key(one.topic_filter))
        for step in retained.find(vhost, topic_filter, found):
            yield step
            if session.has_ended:
                return


def _packet(
    session: MqttSession, topic: str, message: RetainedMessage, qos: int, identifier: int
) -> bytes:
    encoded = topic.encode("utf-8", "surrogateescape")
    parts = [len(encoded).to_bytes(2, "big"), encoded]
    first = RETAINED
    if min(qos, message.qos):
        first |= 2
        parts.append(session.next_packet_id().to_bytes(2, "big"))
    if session.level == codes.LEVEL_5:
        properties = message.properties
        if message.expires_at_ms:
            left_ms = message.expires_at_ms - int(session.services.clock.wall_time_s() * 1000)
            left_s = min(max(0, left_ms + 999) // 1000, 0xFFFFFFFF)
            properties += bytes((MESSAGE_EXPIRY_INTERVAL,)) + left_s.to_bytes(4, "big")
        if identifier:
            properties += bytes((SUBSCRIPTION_IDENTIFIER,)) + encode_variable(identifier)
        parts += (encode_variable(len(properties)), properties)
    parts.append(message.payload)
    body = b"".join(parts)
    return bytes((first,)) + encode_variable(len(body)) + body
