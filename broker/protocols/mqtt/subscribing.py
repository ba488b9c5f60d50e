"""SUBSCRIBE and UNSUBSCRIBE: a session's queues and their bindings, and its consumers.

A session has a queue for its filters of QoS 0 and one for those of QoS 1, with RabbitMQ's names, so
AMQP clients can use them, and one for those of QoS 2 if it is enabled. They are declared on first
use:

    session         queues
    persistent      durable, with the session's expiry interval as x-expires
    not persistent  exclusive: they are deleted with the connection

The user needs the permissions of an AMQP client that declares, binds and consumes.
"""

import logging
from typing import Final

from leveret.broker.amqp.errors import ChannelFault, Fault
from leveret.broker.amqp.field_table import Table, encode_table
from leveret.broker.config import MqttSettings
from leveret.broker.policies.policy_table import effective_options, merged
from leveret.broker.protocols.mqtt import codes
from leveret.broker.protocols.mqtt.consumer import MqttConsumer
from leveret.broker.protocols.mqtt.mqtt_session import MqttSession
from leveret.broker.protocols.mqtt.packets import Filter, Subscribe
from leveret.broker.protocols.mqtt.shared import (
    InvalidSharedFilter,
    SharedFilter,
    read_shared,
)
from leveret.broker.protocols.mqtt.subscriptions import (
    OPTIONS,
    Subscription,
    Wanted,
    binding_arguments,
    read_binding,
    wanted_by,
)
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_kind import QUORUM, TYPE_ARGUMENT
from leveret.broker.runtime.names import QUEUE
from leveret.broker.runtime.pending import Answer
from leveret.broker.sessions.access import find_queue
from leveret.broker.sessions.consuming import ConsumerProperties, cancel, consume
from leveret.broker.sessions.declaring_bindings import bind_queue, unbind_queue
from leveret.broker.sessions.declaring_queues import QueueProperties, declare_queue

FILTER_WORK: Final = 400
"""The work of a filter, in the units of broker/runtime/turns.py: a declaration of a binding."""
PERMANENT_S: Final = 0xFFFFFFFF
"""The session expiry interval of a session that never ends."""
logger = logging.getLogger("leveret.connection")


class SessionQueues:
    """The queues of one session. expiry_s: its expiry interval; 0 if it ends with the connection.

    prefetch_count: the number of QoS 1 messages that the client may leave unacknowledged.
    """

    __slots__ = ("_exchange", "_qos_max", "_session", "expiry_s")

    def __init__(self, session: MqttSession, expiry_s: int, prefetch_count: int) -> None:
        self._session = session
        self._exchange = session.services.config.mqtt.exchange
        self._qos_max = 1 if session.exactly_once is None else 2
        self.expiry_s = expiry_s
        session.prefetch_count = prefetch_count

    def existing(self) -> list[QueueClient]:
        """The queues that exist."""
        queues = self._session.vhost.queues
        return [queues[name] for name in self._session.all_queue_names if name in queues]

    @property
    def is_present(self) -> bool:
        """Whether there is a persistent session."""
        return any(not queue.is_exclusive for queue in self.existing())

    def _qos_0_mailbox(self) -> QueueClient | None:
        """The queue of QoS 0, if it ends with the connection."""
        session = self._session
        queue = session.vhost.queues.get(session.queue_names[0])
        return queue if queue is not None and queue.is_exclusive else None

    def limit_qos_0(self) -> None:
        """The client does not read its messages: keep only the newest ones of QoS 0.

        As in RabbitMQ, all messages in the queues of a persistent session are kept.
        """
        limit, queue = self._session.services.config.mqtt.mailbox_soft_limit, self._qos_0_mailbox()
        if limit and queue is not None:
            policy_limit = queue.options.max_length
            length = limit if policy_limit is None else min(limit, policy_limit)
            queue.apply(queue.options._replace(max_length=length, overflow=""))

    def lift_limit_of_qos_0(self) -> None:
        """The client reads again."""
        queue = self._qos_0_mailbox()
        if queue is not None:
            definition = merged(queue.policy, queue.operator_policy)
            queue.apply(effective_options(queue.declared, definition, queue.kind))

    async def delete(self, keeps_session: bool) -> None:
        """Delete the queues; if `keeps_session`, only those of a connection that has ended."""
        deleted: list[Answer[None]] = []
        requester = self._session.connection.requester
        for queue in self.existing():
            if queue.is_exclusive or not keeps_session:
                answer: Answer[None] = Answer()
                self._session.vhost.delete_queue(queue, requester, answer)
                deleted.append(answer)
        for answer in deleted:
            await answer

    async def resume(self) -> None:
        """Continue a persistent session: its subscriptions and its deliveries."""
        session = self._session
        if session.exactly_once is not None:
            await session.exactly_once.resume()
        for qos, name in enumerate(session.queue_names):
            queue = session.vhost.queues.get(name)
            if queue is None:
                continue
            for binding in tuple(queue.bindings.values()):
                if binding.source.name == self._exchange:
                    subscription = read_binding(qos, binding.arguments)
                    session.subscriptions.add(binding.routing_key, subscription)
            if qos < 2:
                await self._consume(qos)
        for key, subscription in tuple(session.subscriptions.by_key.items()):
            topic_filter = session.topics.topic_filter(key).encode("utf-8", "surrogateescape")
            await self._share(topic_filter, subscription)

    # Subscribing

    async def subscribe(self, packet: Subscribe) -> tuple[list[int], list[tuple[Filter, bool]]]:
        """Subscribe to filters, in order.

        Returns a code for each, and the filters that were granted, with whether each is new. After
        one that is refused, no further one is granted.
        """
        session = self._session
        granted: list[int] = []
        added: list[tuple[Filter, bool]] = []
        written: list[Answer[None]] = []
        for one in packet.filters:
            await _give_way(session)
            try:
                is_new = await self._subscribe(one, packet.identifier, written)
            except InvalidSharedFilter as invalid:
                logger.error("%s: '%s' is no shared filter", session.connection.name, invalid)
                code = codes.TOPIC_FILTER_INVALID
                granted += [code if session.is_level_5 else codes.REFUSED_SUBSCRIPTION_311]
                continue
            except Fault as fault:
                logger.error(
                    "%s: a subscription is refused: %s", session.connection.name, fault.explanation
                )
                code = _code_of(fault) if session.is_level_5 else codes.REFUSED_SUBSCRIPTION_311
                granted += [code] * (len(packet.filters) - len(granted))
                break
            granted.append(min(one.qos, self._qos_max))
            added.append((one, is_new))
        self._forget_wanted()
        # All together take one or two syncs.
        for answer in written:
            await answer
        return granted, added

    async def _subscribe(
        self, wanted: Filter, identifier: int, written: list[Answer[None]]
    ) -> bool:
        """Subscribe to one filter; returns whether it is new.

        written: gets answers that are given when the changes are on disk.
        """
        session = self._session
        qos = min(wanted.qos, self._qos_max)
        subscription = Subscription(qos, wanted.options & OPTIONS if session.is_level_5 else 0,
                                    identifier)  # fmt: skip
        # An invalid one is refused before anything is declared.
        self._read_shared(wanted.topic_filter)
        key = session.topics.binding_key(wanted.topic_filter)
        former = session.subscriptions.by_key.get(key)
        await self._declare(qos)
        arguments = self._arguments(key, subscription)
        name = session.queue_names[qos]
        written.append(await bind_queue(session, name, self._exchange, key, arguments))
        session.subscriptions.add(key, subscription)
        if former is not None and former != subscription:
            await self._unbind(key, former, written)
        await self._consume(qos)
        await self._share(wanted.topic_filter, subscription)
        return former is None

    def _read_shared(self, topic_filter: bytes) -> SharedFilter | None:
        """The shared filter; None if it is another one. Raises InvalidSharedFilter."""
        if not self._session.services.config.mqtt.shared_subscriptions:
            return None
        return read_shared(topic_filter)

    async def _share(self, topic_filter: bytes, subscription: Subscription) -> None:
        """Consume from the queue of a group, if the filter is shared."""
        shared = self._read_shared(topic_filter)
        if shared is None:
            return
        session, name = self._session, shared.queue
        if name in session.consumers:
            await cancel(session, name)
        if name not in session.vhost.queues:
            arguments = self._queue_arguments(subscription.qos) if self.expiry_s else {}
            is_lasting = bool(self.expiry_s)
            properties = QueueProperties(arguments, is_lasting, False, not is_lasting)
            await declare_queue(session, name, properties)
        key = session.topics.binding_key(shared.topic_filter)
        await (await bind_queue(session, name, self._exchange, key, {}))
        wanted = wanted_by([subscription])
        # Messages of a group may go to any of its clients, so none gets them exactly once.
        await self._consume_as(name, name, min(subscription.qos, 1), wanted)

    def _arguments(self, key: str, subscription: Subscription) -> Table:
        return binding_arguments(key, subscription) if self._session.is_level_5 else {}

    def _forget_wanted(self) -> None:
        for consumer in self._session.consumers.values():
            consumer.forget_wanted()

    async def _declare(self, qos: int) -> None:
        """Declare the queue for this QoS, unless there is one."""
        session = self._session
        name = session.queue_names[qos]
        if name in session.vhost.queues:
            find_queue(session, name)
            return
        if self.expiry_s:
            properties = QueueProperties(self._queue_arguments(qos), durable=True)
        else:
            properties = QueueProperties({}, exclusive=True)
        await declare_queue(session, name, properties)

    def _queue_arguments(self, qos: int) -> Table:
        return session_queue_arguments(self.expiry_s, qos, self._session.services.config.mqtt)

    async def _consume(self, qos: int) -> None:
        session = self._session
        if qos == 2:
            await session.exactly_once.open_consumer()
            session.exactly_once.begin()
            return
        tag = f"qos{qos}"
        if tag not in session.consumers:
            await self._consume_as(tag, session.queue_names[qos], qos)

    async def _consume_as(
        self, tag: str, name: str, qos: int, shared: Wanted | None = None
    ) -> None:
        session = self._session

        def make(queue: QueueClient, _properties: ConsumerProperties) -> MqttConsumer:
            return MqttConsumer(session, queue, tag, qos, shared)

        properties = ConsumerProperties(tag, {}, no_ack=qos == 0)
        await consume(session, name, properties, make=make, tell=_is_told)

    # Unsubscribing

    async def unsubscribe(self, filters: list[bytes]) -> list[int]:
        """Unsubscribe from filters; returns a code for each."""
        session = self._session
        results: list[int] = []
        written: list[Answer[None]] = []
        for topic_filter in filters:
            await _give_way(session)
            key = session.topics.binding_key(topic_filter)
            former = session.subscriptions.remove(key)
            if former is None:
                results.append(codes.NO_SUBSCRIPTION_EXISTED)
                continue
            try:
                shared = self._read_shared(topic_filter)
                if shared is not None:
                    await cancel(session, shared.queue)
                await self._unbind(key, former, written)
            except Fault as fault:
                logger.error(
                    "%s: a filter is not removed: %s", session.connection.name, fault.explanation
                )
                results.append(_code_of(fault))
            else:
                results.append(codes.SUCCESS)
        self._forget_wanted()
        for answer in written:
            await answer
        return results

    async def _unbind(self, key: str, former: Subscription, written: list[Answer[None]]) -> None:
        session = self._session
        name = session.queue_names[former.qos]
        queue = session.vhost.queues.get(name)
        if queue is None:
            return
        # A session may have bindings of another version of the protocol.
        for arguments in ({}, binding_arguments(key, former)):
            place = (self._exchange, QUEUE, name, key, encode_table(arguments))
            if place in queue.bindings:
                written.append(await unbind_queue(session, name, self._exchange, key, arguments))


def session_queue_arguments(expiry_s: int, qos: int, settings: MqttSettings) -> Table:
    """The arguments of a queue of a session that persists for this many seconds."""
    arguments: Table = {}
    if expiry_s and expiry_s != PERMANENT_S:
        arguments["x-expires"] = ("l", expiry_s * 1000)
    if qos and settings.durable_queue_type == QUORUM:
        arguments[TYPE_ARGUMENT] = ("S", QUORUM)
    return arguments


async def _give_way(session: MqttSession) -> None:
    """A packet may have very many filters: continue in a later turn if this one is over."""
    session.vhost.turns.work_left -= FILTER_WORK
    await session.vhost.turns.give_way()


def _is_told(_tag: str) -> None:
    """Do nothing: SUBACK tells the client."""


def _code_of(fault: Fault) -> int:
    """The reason code for an operation that AMQP would answer with this fault."""
    is_refused = isinstance(fault, ChannelFault) and fault.reply_code == 403
    return codes.NOT_AUTHORIZED if is_refused else codes.UNSPECIFIED_ERROR
