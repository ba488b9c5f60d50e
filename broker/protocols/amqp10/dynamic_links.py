"""Links with a dynamic source or target: for direct replies, and queues of one connection.

The capabilities select the kind (rabbit_amqp_session.erl, `ensure_source` and `ensure_target`):

    rabbitmq:volatile-queue    since RabbitMQ 4.2, direct reply-to (reply_queue.py). The link has to
                               be settled, the source not durable, and to end with the link
    temporary-queue            since RabbitMQ 4.1, an exclusive queue, which is deleted with the
                               link; also as a target

Without any capability it is a temporary queue, too. RabbitMQ refuses that, but programs for other
brokers know no other way, such as the examples of Qpid Proton and rhea.
"""

from typing import Final, cast

from leveret.broker.amqp10.values import Value
from leveret.broker.events.channel_events import consumer_created
from leveret.broker.protocols.amqp10.addresses import queue_address
from leveret.broker.protocols.amqp10.amqp10_session import Amqp10Session
from leveret.broker.protocols.amqp10.conditions import NOT_IMPLEMENTED, SessionEnds
from leveret.broker.protocols.amqp10.outgoing_link import OutgoingLink
from leveret.broker.protocols.amqp10.performatives import (
    SENDER,
    SETTLED,
    Attach,
    Source,
    Target,
)
from leveret.broker.protocols.amqp10.reply_queue import ReplyQueue
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.names import QUEUE
from leveret.broker.sessions import declaring_queues
from leveret.broker.sessions.access import check
from leveret.broker.sessions.declaring_queues import QueueProperties

VOLATILE_QUEUE: Final = "rabbitmq:volatile-queue"
TEMPORARY_QUEUE: Final = "temporary-queue"
_PREFIX_BYTES_MAX: Final = len("amq.dyn--") + 150
"""From this size on, the name of a queue does not contain those of the client and the link."""
_WITH_LINK: Final = "link-detach"
_MOVE: Final = "move"
_NODE_PROPERTIES: Final = Value("map", [
    (Value("symbol", "lifetime-policy"),
     Value("described", (Value("symbol", "amqp:delete-on-close:list"), Value("list", [])))),
    (Value("symbol", "supported-dist-modes"), Value("array", [Value("symbol", _MOVE)])),
])  # fmt: skip


def wants_replies(request: Attach, source: Source) -> bool:
    """Whether a link with a dynamic source is for replies."""
    return (
        source.address is None
        and VOLATILE_QUEUE in (source.capabilities or ())
        and request.snd_settle_mode == SETTLED
        and not source.durable
        and source.expiry_policy == _WITH_LINK
        and not source.timeout
    )


def check_dynamic(session: Amqp10Session, what: str) -> None:
    """Raise SessionEnds if links have no dynamic terminus. what: `source` or `target`."""
    if not session.services.config.is_as_rabbitmq_4_3:
        raise SessionEnds(NOT_IMPLEMENTED, f"Dynamic {what}s not supported")


async def attach_replies(session: Amqp10Session, request: Attach, tag: str, source: Source) -> None:
    """Attach a link for replies, and answer."""
    queue = ReplyQueue(session.vhost, session.services.replies)
    await check(session, QUEUE, queue.name, "read")
    answered = _made(source, queue.name, VOLATILE_QUEUE)
    link = OutgoingLink(
        session, session, cast(QueueClient, queue), tag, request._replace(source=answered), True, {}
    )
    queue.begin(link)
    session.consumers[tag] = session.outgoing[request.handle] = link
    session.send(
        Attach(
            request.name, request.handle, SENDER, snd_settle_mode=SETTLED,
            rcv_settle_mode=request.rcv_settle_mode, source=answered, initial_delivery_count=0,
        )
    )  # fmt: skip
    consumer_created(link)


async def declare_temporary_source(
    session: Amqp10Session, request: Attach, source: Source
) -> tuple[str, Source]:
    """Declare the queue of a link with a dynamic source; returns its name, and the source.

    The session deletes the queue with the link (`Amqp10Session.temporary_queues`).
    """
    _check_temporary("source", source)
    name = await _declare_exclusive_queue(session, request)
    return name, _made(source, name, TEMPORARY_QUEUE)


async def declare_temporary_target(
    session: Amqp10Session, request: Attach, target: Target
) -> tuple[str, Target]:
    """The same for a dynamic target."""
    _check_temporary("target", target)
    name = await _declare_exclusive_queue(session, request)
    return name, Target(
        queue_address(name), 0, _WITH_LINK, 0, dynamic=True,
        dynamic_node_properties=_NODE_PROPERTIES, capabilities=[TEMPORARY_QUEUE],
    )  # fmt: skip


def _check_temporary(what: str, terminus: Source | Target) -> None:
    capabilities = terminus.capabilities or (TEMPORARY_QUEUE,)
    if terminus.address is not None or TEMPORARY_QUEUE not in capabilities:
        raise SessionEnds(
            NOT_IMPLEMENTED,
            f"Dynamic {what} not supported: it has the address {terminus.address} and the "
            f"capabilities {terminus.capabilities}, and needs {TEMPORARY_QUEUE} without an address",
        )


async def _declare_exclusive_queue(session: Amqp10Session, request: Attach) -> str:
    prefix = f"amq.dyn-{session.owner.container_id}-{request.name}"
    if len(prefix.encode("utf-8", "surrogateescape")) >= _PREFIX_BYTES_MAX:
        prefix = "amq.dyn.gen"
    properties = QueueProperties({}, durable=True, exclusive=True, name_prefix=prefix)
    declared = await declaring_queues.declare_queue(session, "", properties)
    await declared.synced
    return declared.name


def _made(source: Source, name: str, capability: str) -> Source:
    """The source in the answer to the client, with the address that the broker has chosen."""
    return Source(
        queue_address(name), source.durable, _WITH_LINK, 0, dynamic=True,
        dynamic_node_properties=_NODE_PROPERTIES, distribution_mode=_MOVE,
        capabilities=[capability],
    )  # fmt: skip
