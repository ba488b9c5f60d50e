"""SUBSCRIBE and UNSUBSCRIBE of one session, and the queues of its reply-to.

A subscription to /queue declares the queue, once per connection. A subscription to /topic or
/exchange declares a queue of its own and binds it; if it cannot consume, that queue is deleted.
"""

from functools import partial
from typing import Final

from leveret.broker.amqp.errors import Fault
from leveret.broker.amqp.field_table import Table
from leveret.broker.protocols.stomp.destinations import (
    AMQ_QUEUE,
    EXCHANGE,
    QUEUE,
    REPLY_QUEUE,
    TEMP_QUEUE,
    TEMP_QUEUE_PREFIX,
    TOPIC,
    Destination,
    parse_destination,
)
from leveret.broker.protocols.stomp.errors import StompError, processing_error
from leveret.broker.protocols.stomp.message_frames import OF_DESTINATION, OF_ID, MessageFrames
from leveret.broker.protocols.stomp.message_headers import number_of
from leveret.broker.protocols.stomp.queue_headers import (
    SUBSCRIPTION_QUEUE,
    consumer_arguments,
    durable_queue_name,
    is_durable_subscription,
    queue_properties,
)
from leveret.broker.protocols.stomp.serving import StompClient
from leveret.broker.protocols.stomp.stomp_consumer import StompConsumer
from leveret.broker.protocols.stomp.stomp_session import StompSession
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_kind import CLASSIC, TYPE_ARGUMENT
from leveret.broker.runtime.generated_names import generate_name
from leveret.broker.runtime.pending import Answer, given
from leveret.broker.sessions import consuming, declaring_bindings, declaring_queues
from leveret.broker.sessions.access import check_topic, find_exchange
from leveret.broker.sessions.consuming import ConsumerProperties
from leveret.broker.sessions.declaring_queues import QueueProperties

DECLARED_MAX: Final = 10_000
"""The number of queue names that a connection remembers. Declaring other queues again changes
nothing."""
PREFETCH_MAX: Final = 0xFFFF
_ACK_MODES: Final = {"auto": (True, False), "client": (False, True),
                     "client-individual": (False, False)}  # fmt: skip
"""Whether messages need no ack, and whether an ack also covers all earlier messages."""


class Subscription:
    """The headers of a SUBSCRIBE. tag: the consumer tag. description: its name in errors."""

    __slots__ = ("description", "headers", "identifier", "tag")

    def __init__(self, headers: dict[str, str], command: str) -> None:
        """Raises StompError."""
        self.headers = headers
        identifier, destination = headers.get("id"), headers.get("destination")
        if identifier is not None:
            if identifier.startswith(TEMP_QUEUE_PREFIX):
                detail = f"{command} 'id' may not start with {TEMP_QUEUE_PREFIX}\n"
                raise StompError("Invalid id", detail)
            self.identifier, self.tag = identifier, OF_ID + identifier
            self.description = f"id='{identifier}'"
        elif destination is not None:
            self.identifier, self.tag = destination, OF_DESTINATION + destination
            self.description = f"destination='{destination}'"
        else:
            detail = f"{command} must include a 'destination' or 'id' header"
            raise StompError("Missing destination or id", detail)
        if identifier is None and is_durable_subscription(headers):
            detail = "Header 'id' is required for durable subscriptions"
            raise StompError("Missing Header", detail)


class Subscribing:
    """The subscriptions of one connection."""

    __slots__ = ("_client", "_declared", "_reply_queues", "_topic_queues")

    def __init__(self, client: StompClient) -> None:
        self._client = client
        self._declared: set[str] = set()
        self._reply_queues: dict[str, str] = {}
        self._topic_queues: dict[str, str] = {}
        """The names of the queues of subscriptions to /topic, by their consumer tags."""

    async def subscribe(self, session: StompSession, headers: dict[str, str]) -> Answer[None]:
        """Handle SUBSCRIBE. The answer is given when all its declarations are on disk."""
        wanted = Subscription(headers, "SUBSCRIBE")
        text = headers.get("destination")
        if text is None:
            raise missing_destination("SUBSCRIBE")
        destination = parse_destination(text, self._client.settings.default_topic_exchange)
        if destination.kind == TEMP_QUEUE:
            raise not_valid_for("SUBSCRIBE", text)
        if wanted.tag in session.consumers or wanted.tag == session.reply_consumer_tag:
            raise StompError(
                "Duplicated subscription identifier",
                f"A subscription identified by '{wanted.tag}' already exists.",
                is_fatal=True,
            )
        mode = _ACK_MODES.get(headers.get("ack", "auto"))
        if mode is None:
            raise processing_error()
        prefetch_count = number_of(headers.get("prefetch-count", "0"), PREFETCH_MAX)
        arguments = consumer_arguments(headers)
        consuming.limit_unsettled(session, prefetch_count, False)
        if destination.kind in (AMQ_QUEUE, REPLY_QUEUE):
            await self._consume(session, destination.routing_key, wanted, mode, arguments)
            return given(None)
        if destination.kind == QUEUE:
            synced = await self.declare(session, destination, headers, is_sent=False)
            await self._consume(session, destination.routing_key, wanted, mode, arguments)
            return synced
        return await self._consume_of_its_own(session, destination, wanted, mode, arguments)

    async def declare(
        self,
        session: StompSession,
        destination: Destination,
        headers: dict[str, str],
        is_sent: bool,
    ) -> Answer[None]:
        """Declare the queue of /queue, unless the connection has; given when it is on disk."""
        name = destination.routing_key
        if name in self._declared:
            return given(None)
        properties = self._properties(session, headers, destination, is_sent)
        declared = await declaring_queues.declare_queue(session, name, properties)
        if len(self._declared) >= DECLARED_MAX:
            self._declared.clear()
        self._declared.add(name)
        return declared.synced

    def _properties(
        self,
        session: StompSession,
        headers: dict[str, str],
        destination: Destination,
        is_sent: bool,
    ) -> QueueProperties:
        properties = queue_properties(headers, destination, is_sent)
        if session.services.config.is_as_rabbitmq_4:
            properties.arguments.setdefault(TYPE_ARGUMENT, ("S", CLASSIC))
        return properties

    async def _consume_of_its_own(
        self,
        session: StompSession,
        destination: Destination,
        wanted: Subscription,
        mode: tuple[bool, bool],
        arguments: Table,
    ) -> Answer[None]:
        """Consume from a queue for this subscription, which is bound to an exchange."""
        headers, exchange = wanted.headers, destination.exchange
        if destination.kind == TOPIC:
            await check_topic(session, exchange, destination.routing_key, "read")
        if destination.kind == EXCHANGE:
            find_exchange(session, exchange)
        name = headers.get("x-queue-name")
        if name is None and is_durable_subscription(headers):
            name = durable_queue_name(destination.routing_key, wanted.identifier)
        if name is None:
            name = generate_name(SUBSCRIPTION_QUEUE)
        is_new = name not in session.vhost.queues
        properties = self._properties(session, headers, destination, is_sent=False)
        await declaring_queues.declare_queue(session, name, properties)
        try:
            synced = await declaring_bindings.bind_queue(
                session, name, exchange, destination.routing_key, {}
            )
            await self._consume(session, name, wanted, mode, arguments)
        except Fault:
            queue = session.vhost.queues.get(name)
            if is_new and queue is not None:
                session.vhost.delete_queue(queue, session.connection.requester)
            raise
        if destination.kind == TOPIC:
            self._topic_queues[wanted.tag] = name
        return synced

    async def _consume(
        self,
        session: StompSession,
        queue: str,
        wanted: Subscription,
        mode: tuple[bool, bool],
        arguments: Table,
    ) -> None:
        no_ack, is_cumulative = mode
        has_ack = not no_ack and self._client.version == "1.2"
        frames = MessageFrames(
            wanted.tag, session.name_for_client, has_ack, self._client.output.frame_end
        )
        properties = ConsumerProperties(wanted.tag, arguments, no_ack)
        make = partial(_make_consumer, session, frames, wanted, is_cumulative)
        await consuming.consume(session, queue, properties, make=make, tell=_no_tag_is_told)
        if session.reply_consumer_tag == wanted.tag:
            session.reply_frames = frames

    async def unsubscribe(self, session: StompSession, headers: dict[str, str]) -> None:
        """Handle UNSUBSCRIBE, which also deletes the queue of a durable subscription to /topic."""
        wanted = Subscription(headers, "UNSUBSCRIBE")
        is_reply = wanted.tag == session.reply_consumer_tag
        if wanted.tag not in session.consumers and not is_reply:
            raise StompError(
                "No subscription found",
                "UNSUBSCRIBE must refer to an existing subscription.\n"
                f'Subscription to "{wanted.description}" not found.\n',
            )
        await consuming.cancel(session, wanted.tag)
        queue = self._topic_queues.pop(wanted.tag, None)
        if queue is not None and is_durable_subscription(headers):
            await declaring_queues.delete_queue(
                session, queue, if_unused=False, if_empty=False, tell=None
            )

    async def reply_queue(self, session: StompSession, name: str) -> str:
        """The queue of /temp-queue/NAME: declared and subscribed to when it is first used."""
        known = self._reply_queues.get(name)
        if known is not None:
            return known
        properties = QueueProperties({}, exclusive=True, auto_delete=True)
        declared = await declaring_queues.declare_queue(session, "", properties)
        wanted = Subscription({"id": ""}, "SEND")
        wanted.identifier = TEMP_QUEUE_PREFIX + name
        wanted.tag, wanted.description = OF_ID + wanted.identifier, f"id='{wanted.identifier}'"
        consuming.limit_unsettled(session, 0, False)
        await self._consume(session, declared.name, wanted, (True, False), {})
        self._reply_queues[name] = declared.name
        return declared.name


def missing_destination(command: str) -> StompError:
    """A frame has no destination."""
    detail = f"\"{command}\" must include a 'destination' header\n"
    return StompError("Missing destination", detail)


def not_valid_for(command: str, destination: str) -> StompError:
    """A destination is not valid for a command."""
    detail = f"'{destination}' is not a valid destination for '{command}'\n"
    return StompError("Invalid destination", detail)


def _make_consumer(
    session: StompSession,
    frames: MessageFrames,
    wanted: Subscription,
    is_cumulative: bool,
    queue: QueueClient,
    properties: ConsumerProperties,
) -> StompConsumer:
    consumer = StompConsumer(
        session, queue, properties.tag, properties.no_ack, properties.arguments, frames
    )
    consumer.is_cumulative = is_cumulative
    consumer.description, consumer.identifier = wanted.description, wanted.identifier
    return consumer


def _no_tag_is_told(_tag: str) -> None:
    """Do nothing: the client knows its subscriptions by its own names."""
