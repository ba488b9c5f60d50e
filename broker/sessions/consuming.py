"""Starts and cancels consumers of a session, and limits their unsettled messages.

The checks, their order and their texts are RabbitMQ's. The functions raise ChannelFault and
ConnectionFault.
"""

from collections.abc import Callable
from typing import NamedTuple

from leveret.broker.amqp.errors import not_allowed, precondition_failed
from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.properties import DIRECT_REPLY_TO
from leveret.broker.events.channel_events import consumer_created, consumer_deleted
from leveret.broker.queues.contract.arguments import check_consume_arguments
from leveret.broker.queues.contract.queue_client import UNLIMITED, QueueClient
from leveret.broker.runtime.generated_names import generate_name
from leveret.broker.runtime.names import QUEUE
from leveret.broker.runtime.pending import Answer
from leveret.broker.sessions.access import (
    check,
    expand_queue_name,
    expand_sharded_name,
    find_queue,
)
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.session_consumer import SessionConsumer


class ConsumerProperties(NamedTuple):
    """The properties of a new consumer. tag: generated if it is empty."""

    tag: str
    arguments: Table
    no_ack: bool = False
    exclusive: bool = False


MakeConsumer = Callable[[QueueClient, ConsumerProperties], SessionConsumer]
"""Makes a consumer of the protocol. The tag in its properties is not empty."""


def limit_unsettled(session: Session, limit: int, for_all: bool) -> None:
    """Limit the unsettled messages of each later consumer, or of all consumers together; 0 for no
    limit.

    This is RabbitMQ's meaning of basic.qos' flag global, not the specification's (its
    documentation, "Consumer Prefetch"). A limit for each consumer removes that for all.
    """
    if for_all:
        session.global_prefetch_count = limit
    else:
        session.prefetch_count = limit
        session.global_prefetch_count = 0
    limit = session.global_prefetch_count
    session.global_credit = limit - len(session.unacked) if limit else UNLIMITED


async def consume(
    session: Session,
    queue_name: str,
    properties: ConsumerProperties,
    *,
    make: MakeConsumer,
    tell: Callable[[str], object],
) -> None:
    """Start a consumer. tell: called with its tag, before it is reported."""
    queue_name = expand_queue_name(session, queue_name)
    tag = properties.tag
    if tag in session.consumers or (tag and tag == session.reply_consumer_tag):
        raise not_allowed(f"attempt to reuse consumer tag '{tag}'")
    consumers_max = session.services.config.consumer_max_per_channel
    if consumers_max is not None and len(session.consumers) >= consumers_max:
        raise not_allowed(f"reached maximum ({consumers_max}) of consumers per channel")
    if not tag:
        properties = properties._replace(tag=generate_name("amq.ctag"))
    if queue_name == DIRECT_REPLY_TO:
        _consume_replies(session, properties)
        tell(properties.tag)
        return
    queue_name = expand_sharded_name(session, queue_name)
    await check(session, QUEUE, queue_name, "read")
    queue = find_queue(session, queue_name)
    _check_properties(session, queue, properties)
    consumer = make(queue, properties)
    subscribed: Answer[None] = Answer(give_back=lambda _: queue.cancel(consumer, True))
    queue.subscribe(consumer, subscribed)
    await subscribed
    session.consumers[consumer.tag] = consumer
    tell(consumer.tag)
    consumer_created(consumer)


def _check_properties(session: Session, queue: QueueClient, properties: ConsumerProperties) -> None:
    """Raise a fault if the queue cannot have such a consumer."""
    kind, name, vhost = queue.kind, queue.name, session.vhost.name
    check_consume_arguments(properties.arguments, kind.consumer_arguments, name, vhost)
    kind.check_consumer_arguments(properties.arguments, name, vhost)
    shares_limit = bool(session.global_prefetch_count)
    kind.check_consumer(properties.no_ack, session.prefetch_count, shares_limit, name, vhost)


def _consume_replies(session: Session, properties: ConsumerProperties) -> None:
    """Direct reply-to: register the session as the consumer, under an unguessable name."""
    if not properties.no_ack:
        raise precondition_failed("reply consumer cannot acknowledge")
    if session.reply_consumer_tag:
        raise precondition_failed("reply consumer already set")
    session.reply_consumer_tag = properties.tag
    session.reply_name = session.services.replies.add(session)


async def cancel(session: Session, tag: str) -> None:
    """Cancel a consumer; its unsettled messages stay with the session. Unknown tags are ignored."""
    if tag and tag == session.reply_consumer_tag:
        session.services.replies.remove(session.reply_name)
        session.reply_name = session.reply_consumer_tag = ""
    consumer = session.consumers.get(tag)
    if consumer is None:
        return
    cancelled: Answer[None] = Answer()
    consumer.queue.cancel(consumer, answer=cancelled)
    await cancelled
    # It may have lost its queue since.
    if session.consumers.pop(tag, None) is not None:
        consumer_deleted(consumer)
