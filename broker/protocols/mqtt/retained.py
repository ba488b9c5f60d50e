"""Sends retained messages to a client that subscribes.

They come from the node's retained messages (broker/retained/), not from a queue, so they are not
repeated. Those of QoS 1 have packet identifiers, and count for the client's Receive Maximum until
PUBACK, beside the deliveries of its queues: one that has to wait takes the next room.
"""

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

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
    """Send the messages that match filters. filters: pairs of a filter and whether it is new."""
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
        if session.retained is None:
            session.retained = RetainedDeliveries(session)
        found = partial(session.retained.send, min(one.qos, 1), identifier)
        # The filter as clients see it: a dot in it is a slash.
        topic_filter = session.topics.topic_filter(session.topics.binding_key(one.topic_filter))
        for step in retained.find(vhost, topic_filter, found):
            yield step
            if session.has_ended:
                return


class _UnsentMessage(NamedTuple):
    """A message of QoS 1 that waits for room. sent: given when it is sent."""

    identifier: int
    topic: str
    message: RetainedMessage
    sent: Answer[None]


class RetainedDeliveries:
    """The retained messages of a session that are under way. ids: of those without a PUBACK."""

    __slots__ = ("_session", "_waiting", "ids")

    def __init__(self, session: MqttSession) -> None:
        self._session = session
        self._waiting: deque[_UnsentMessage] = deque()
        self.ids: set[int] = set()

    def send(
        self, qos: int, identifier: int, topic: str, message: RetainedMessage
    ) -> Answer[None] | None:
        """Send a message. Returns an answer, if the next one has to wait for it.

        qos: of the subscription. identifier: of the subscription; 0 for none.
        """
        session = self._session
        if not min(qos, message.qos):
            session.output.write(_packet(session, topic, message, 0, identifier))
            return session.room()
        if not self._waiting and self._room():
            self._send_qos_1(identifier, topic, message)
            return session.room()
        waiting = _UnsentMessage(identifier, topic, message, Answer())
        self._waiting.append(waiting)
        return waiting.sent

    def acked(self, packet_id: int) -> None:
        """PUBACK has come for a message that is of no queue."""
        if packet_id in self.ids:
            self.ids.remove(packet_id)
            self.go_on()
            self._session.continue_deliveries()

    def go_on(self) -> None:
        """The client has answered: send what waits for room."""
        while self._waiting and self._room():
            waiting = self._waiting.popleft()
            self._send_qos_1(waiting.identifier, waiting.topic, waiting.message)
            waiting.sent.give(None)

    def close(self) -> None:
        """The session has ended: end searches that wait."""
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            one.sent.give(None)

    def room_beside(self) -> int:
        """The number of messages from queues that the client may have besides retained ones."""
        return max(0, self._room() - len(self._waiting))

    def _room(self) -> int:
        session = self._session
        consumers = session.consumers.values()
        held: int = sum(consumer.held for consumer in consumers if not consumer.no_ack)
        limit = min(session.receive_max, int(session.packet_id_max))
        return max(0, limit - held - len(self.ids))

    def _send_qos_1(self, identifier: int, topic: str, message: RetainedMessage) -> None:
        packet_id = self._session.next_packet_id()
        self.ids.add(packet_id)
        self._session.output.write(_packet(self._session, topic, message, packet_id, identifier))


def _packet(
    session: MqttSession, topic: str, message: RetainedMessage, packet_id: int, identifier: int
) -> bytes:
    """A PUBLISH. packet_id: 0 for QoS 0."""
    encoded = topic.encode("utf-8", "surrogateescape")
    parts = [len(encoded).to_bytes(2, "big"), encoded]
    first = RETAINED
    if packet_id:
        first |= 2
        parts.append(packet_id.to_bytes(2, "big"))
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
