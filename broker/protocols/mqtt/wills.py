"""Wills: messages that are published when a client is lost.

Very many clients may be lost at once, when a network is cut: their wills are published in order,
as many in each turn as it has work left for.

A will is published by a session of its own, since the client's ends at the same time. One with a
delay waits, as in RabbitMQ, as the only message of a queue `mqtt-will-CLIENT`, which dead-letters
it to the exchange of MQTT: so it survives a restart, and the client deletes it by coming back. Its
message expiry interval begins then (`messages.header_after_delay`). If it is to be retained, that
is done at the same time (`retain_delayed`).
"""

import logging
from collections.abc import Iterator
from typing import Final

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import Fault, internal_error
from leveret.broker.amqp.field_table import Table
from leveret.broker.protocols.mqtt.messages import (
    RETAIN,
    flags_and_properties,
    header_after_delay,
    make_header_of,
)
from leveret.broker.protocols.mqtt.mqtt_session import MqttSession
from leveret.broker.protocols.mqtt.names import WILL_PREFIX, will_queue
from leveret.broker.protocols.mqtt.packets import Will
from leveret.broker.protocols.mqtt.properties import WILL_DELAY_INTERVAL
from leveret.broker.protocols.mqtt.publisher import retain
from leveret.broker.protocols.mqtt.topics import Topics
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.pending import Answer, PendingOperation, begin
from leveret.broker.runtime.turns import Turns
from leveret.broker.services.services import Services
from leveret.broker.sessions import publishing
from leveret.broker.sessions.declaring_queues import QueueProperties, declare_queue
from leveret.storage.messages.message import Message
from leveret.storage.metadata.metadata import MetadataError

EXPIRES_AFTER_MS: Final = 60_000
"""How long the queue of a delayed will stays after its message has left it."""
WILL_WORK: Final = 800
"""The work of publishing a will, in the units of broker/runtime/turns.py."""

logger = logging.getLogger("leveret.connection")


def delay_s(will: Will, expiry_s: int) -> int:
    """How long a will waits: at most `expiry_s`, the expiry interval of the session."""
    asked: int = will.properties.get(WILL_DELAY_INTERVAL, 0)
    return min(asked, expiry_s)


class Wills:
    """The wills of a node that are to be published."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._waiting: dict[tuple[str, str], WillPublishing] = {}
        self._is_publishing = self._is_stopping = False

    def publish(self, session: MqttSession, will: Will, client_id: str, wait_s: int) -> None:
        """Publish a will after a time, with a session of its own, which ends then."""
        publishing = WillPublishing(session, will, client_id, wait_s)
        if self._is_stopping:
            publishing.start()
            return
        self._waiting[session.vhost.name, client_id] = publishing
        if not self._is_publishing:
            self._is_publishing = True
            LongWork(self._turns, "publishing the wills of lost clients", self._steps()).start()

    def _steps(self) -> Iterator[int]:
        try:
            while self._waiting:
                self._start(next(iter(self._waiting)))
                yield WILL_WORK
        finally:
            self._is_publishing = False

    def _start(self, key: tuple[str, str]) -> None:
        self._waiting.pop(key).start()

    def client_is_back(self, vhost: str, client_id: str) -> None:
        """A client connects: forget its last will if that waits for a delay, or publish it now."""
        key = (vhost, client_id)
        publishing = self._waiting.get(key)
        if publishing is not None and publishing.wait_s:
            del self._waiting[key]
        elif publishing is not None:
            self._start(key)

    def node_stops(self) -> None:
        """Publish what waits, and later wills at once: there may be no later turn."""
        self._is_stopping = True
        for key in tuple(self._waiting):
            self._start(key)


class WillPublishing:
    """The publishing of one will. wait_s: its delay."""

    __slots__ = ("_client_id", "_session", "_will", "wait_s")

    def __init__(self, session: MqttSession, will: Will, client_id: str, wait_s: int) -> None:
        self._session = session
        self._will = will
        self._client_id = client_id
        self.wait_s = wait_s

    def start(self) -> None:
        """Publish it; if that waits for an answer, end later."""
        if self._session.vhost.is_deleted:
            self._session.release()
            return
        services = self._session.services
        steps = self._publish()
        awaited: Answer[object] | None = None
        try:
            awaited = begin(steps)
        except (Fault, MetadataError) as fault:
            self._failed(fault)
        if awaited is None:
            self._session.release()
            return
        PendingOperation(
            steps, awaited, self._resume, services.clock,
            services.config.channel_operation_timeout_ms, _timed_out,
        )  # fmt: skip

    def _resume(self, operation: PendingOperation) -> None:
        try:
            operation.step()
        except (Fault, MetadataError) as fault:
            self._failed(fault)
        if operation.is_over:
            self._session.release()

    def _failed(self, fault: Exception) -> None:
        logger.error("%s: the will is not published: %s", self._session.connection.name, fault)

    async def _publish(self) -> None:
        session, will = self._session, self._will
        topics, exchange = session.topics, session.services.config.mqtt.exchange
        key = topics.routing_key(will.topic)
        if self.wait_s:
            arguments: Table = {
                "x-expires": ("l", self.wait_s * 1000 + EXPIRES_AFTER_MS),
                "x-message-ttl": ("l", self.wait_s * 1000),
                "x-dead-letter-exchange": ("S", exchange),
                "x-dead-letter-routing-key": ("S", key),
            }
            name = will_queue(self._client_id)
            await declare_queue(session, name, QueueProperties(arguments, durable=True))
            exchange, key = "", name
        target = session.connection.targets.find_by_address(exchange, key, False)
        header = make_header_of(
            will.properties, min(will.qos, 1), will.retain, topics, is_delayed=self.wait_s > 0
        )
        message = Message(target.address, header, will.payload)
        steps = publishing.publish(session, target, Publication([message], len(will.payload)))
        if steps is not None:
            await steps
        if will.retain and not self.wait_s:
            retain(session.services, session.vhost.name, topics.topic(key), message)


def retain_delayed(
    services: Services, topics: Topics, vhost: str, queue: QueueClient, expired: list[Message]
) -> None:
    """Retain a will whose delay is over, if its client has asked for that.

    queue: it is dead-lettering messages that have expired; of wills or of something else.
    """
    key = queue.options.dead_letter_routing_key
    if not queue.name.startswith(WILL_PREFIX) or key is None:
        return
    for message in expired:
        header = message.header
        assert isinstance(header, ContentHeader), "messages have content headers"
        if header.form is not None and flags_and_properties(header, topics)[0] & RETAIN:
            published = Message(message.address, header_after_delay(header), message.body)
            retain(services, vhost, topics.topic(key), published)


def _timed_out() -> Fault:
    return internal_error("a will was not published in time")
