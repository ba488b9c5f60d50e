"""The queues of delayed message exchanges whose messages wait in a quorum queue.

Such a queue is declared and deleted together with its exchange: one submission has both, and the
node that orders declarations completes it. So there is no exchange without its queue, and no queue
without its exchange.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.amqp.field_table import Table, decode_table
from leveret.broker.declarations.values import (
    Declaration,
    DeleteExchange,
    DeleteQueue,
    PutExchange,
)
from leveret.broker.exchanges.delayed import (
    DELAYED_MESSAGES_FEATURE,
    QUEUE_TYPE_ARGUMENT,
    DelayedMessage,
    queue_type,
)
from leveret.broker.queues.contract.queue_kind import QUORUM, TYPE_ARGUMENT
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.runtime.names import DELAYING_PREFIX, EXCHANGE, resource
from leveret.broker.vhost.virtual_host import VirtualHost

_ARGUMENTS: Final[Table] = {
    TYPE_ARGUMENT: ("S", QUORUM),
    # Otherwise all leaders would be on the node that orders declarations.
    "x-queue-leader-locator": ("S", "balanced"),
}


def check_delaying(vhost: VirtualHost, it: PutExchange) -> None:
    """Raise 406 if the messages of a new exchange cannot wait where its argument says."""
    arguments = decode_table(it.arguments)[0]
    if QUEUE_TYPE_ARGUMENT not in arguments:
        return
    what = resource(EXCHANGE, it.name, it.vhost)
    if it.type != DelayedMessage.name:
        raise precondition_failed(
            f"invalid arg '{QUEUE_TYPE_ARGUMENT}' for {what}: it is for exchanges of the type "
            f"{DelayedMessage.name}, and not of the type {it.type}"
        )
    if queue_type(arguments) != QUORUM:
        return
    if not it.durable:
        raise precondition_failed(
            f"invalid property 'non-durable' for {what}: an exchange whose messages wait in a "
            "quorum queue must be durable"
        )
    vhost.kinds.check(_specification(vhost, it.name))
    lacking = vhost.features.lacking(DELAYED_MESSAGES_FEATURE)
    if lacking:
        raise precondition_failed(
            f"invalid arg '{QUEUE_TYPE_ARGUMENT}' for {what}: node {', '.join(lacking)} does not "
            f"have the feature {DELAYED_MESSAGES_FEATURE}; update it first"
        )


def with_delaying_queues(
    vhosts: Mapping[str, VirtualHost], declarations: Iterable[Declaration]
) -> Iterator[Declaration]:
    """The declarations, with those of the queues that belong to their exchanges."""
    for it in declarations:
        if isinstance(it, PutExchange) and _is_replicated(it):
            vhost = vhosts[it.vhost]
            if _has_queue(vhosts, it):
                yield _deletion(it)
            yield vhost.declaration_of(_specification(vhost, it.name), it.acting_user)
        yield it
        if isinstance(it, DeleteExchange) and _has_queue(vhosts, it):
            yield _deletion(it)


def _has_queue(vhosts: Mapping[str, VirtualHost], it: PutExchange | DeleteExchange) -> bool:
    return DELAYING_PREFIX + it.name in vhosts[it.vhost].delaying_queues


def _is_replicated(it: PutExchange) -> bool:
    is_delayed = it.type == DelayedMessage.name
    return is_delayed and queue_type(decode_table(it.arguments)[0]) == QUORUM


def _specification(vhost: VirtualHost, exchange: str) -> QueueSpecification:
    return vhost.kinds.specify(vhost.name, DELAYING_PREFIX + exchange, _ARGUMENTS, durable=True)


def _deletion(it: PutExchange | DeleteExchange) -> DeleteQueue:
    return DeleteQueue(it.vhost, DELAYING_PREFIX + it.name, acting_user=it.acting_user)
