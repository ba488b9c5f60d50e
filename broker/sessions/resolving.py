"""Looks up the route of a target: RabbitMQ's checks in RabbitMQ's order, then the route.

The permission to write is asked for first, then the exchange must exist, then on a topic exchange
the routing key must be allowed. The node's own permissions answer at once, and no coroutine is made
then: `resolve` is a few calls. Checks that passed for an exchange are not repeated for its other
keys until the vhost's generation changes, as it does with every change of a permission.

A long route is not kept: each message finds it in steps (routing.py).
"""

from typing import Final

from leveret.broker.amqp.errors import access_refused, precondition_failed
from leveret.broker.amqp.properties import DIRECT_REPLY_TO
from leveret.broker.auth.access_control import Decision
from leveret.broker.exchanges.missing_type import MissingType
from leveret.broker.exchanges.router import WORK_AT_ONCE, Route
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.dead_letters.header import DEAD_LETTER_WORK
from leveret.broker.runtime.names import EXCHANGE, resource
from leveret.broker.runtime.pending import Steps
from leveret.broker.sessions.access import check, check_topic, find_exchange
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.targets import CheckedExchange, PublishTarget
from leveret.broker.vhost import routing
from leveret.broker.vhost.binding import Exchange
from leveret.broker.vhost.fan_out import CARE_WORK, QUEUES_AT_ONCE, is_watched
from leveret.storage.messages.message import Address

RETURN_WORK: Final = 60
"""The work of a message that reaches no queue and is returned to its publisher."""


def resolve(session: Session, target: PublishTarget) -> Steps | None:
    """Look up the target's exchange and queues, and check the user's permission.

    Returns None if this is done; a coroutine that does it if a backend has to be asked for a
    permission. Raises ChannelFault or ConnectionFault.
    """
    connection, vhost, address = session.connection, session.vhost, target.address
    access = session.services.access
    checked = connection.targets.exchanges.get(address.exchange)
    if checked is None or checked.generation != vhost.generation:
        allowed = access.may_use(connection.user, vhost.name, EXCHANGE, address.exchange, "write")
        if allowed is not True:
            return _resolve_later(session, target, allowed)
        checked = _found(session, address.exchange)
    if checked.is_topic:
        allowed = access.may_use_topic(
            connection.user, vhost.name, address.exchange, address.routing_key, "write"
        )
        if allowed is not True:
            return _resolve_later(session, target, True, allowed)
    _find_queues(session, target, checked.exchange)
    return None


async def _resolve_later(
    session: Session,
    target: PublishTarget,
    allowed: Decision,
    key_allowed: Decision | None = None,
) -> None:
    """Continue `resolve` where a decision is pending or is a refusal.

    allowed, key_allowed: whether the user may write to the exchange, and with the key, if the
    backend was asked.
    """
    address = target.address
    await check(session, EXCHANGE, address.exchange, "write", allowed)
    checked = _found(session, address.exchange)
    if checked.is_topic:
        await check_topic(session, address.exchange, address.routing_key, "write", key_allowed)
        # The exchange may have been deleted while a backend was asked.
        checked = _found(session, address.exchange)
    _find_queues(session, target, checked.exchange)


def _found(session: Session, name: str) -> CheckedExchange:
    """Return an exchange that the user may write to. Raises 404, or 403 if it is internal."""
    exchange = find_exchange(session, name)
    if exchange.internal:
        what = resource(EXCHANGE, name, session.vhost.name)
        raise access_refused(f"cannot publish to internal {what}")
    checked = CheckedExchange(exchange, session.vhost.generation)
    session.connection.targets.keep(checked)
    return checked


def _find_queues(session: Session, target: PublishTarget, exchange: Exchange) -> None:
    if isinstance(exchange.type, MissingType):
        raise exchange.type.refusal(resource(EXCHANGE, exchange.name, session.vhost.name))
    target.exchange = exchange
    target.is_simple = False
    if not is_reply(target.address):
        if session.vhost.refuses_unroutable:
            _require_mandatory(session, target, exchange)
        found = Route(exchange, [target.address.routing_key], routing.NO_PROPERTIES)
        is_complete = found.go_on(WORK_AT_ONCE)
        is_seen = bool(session.services.interceptors)
        target.is_simple = is_complete and routing.is_of_every_message(found) and not is_seen
        target.queues = found.queues if is_complete else []
        target.deduplicates = bool(found.deduplicating) or any(
            queue.options.deduplicates for queue in target.queues
        )
        if target.deduplicates:
            target.is_simple = False
        session.vhost.turns.work_left -= found.work
        if target.is_simple:
            target.work = _work_in_all(target.queues)
            if target.is_mandatory and not target.queues:
                target.work = RETURN_WORK
    target.generation = session.vhost.generation


def _require_mandatory(session: Session, target: PublishTarget, exchange: Exchange) -> None:
    """Raise 406 if unroutable messages of this publisher would be dropped silently."""
    if target.is_mandatory or exchange.alternate is not None or not session.may_be_mandatory:
        return
    what = resource(EXCHANGE, exchange.name, session.vhost.name)
    raise precondition_failed(
        f"basic.publish to {what} must be mandatory: the vhost refuses publishers that would not "
        "learn of unroutable messages, unless the exchange has an alternate exchange"
    )


def is_reply(address: Address) -> bool:
    """Whether messages to it are direct replies to a session, without a queue."""
    return not address.exchange and address.routing_key.startswith(DIRECT_REPLY_TO + ".")


def _work_in_all(queues: list[QueueClient]) -> int:
    """The work of a message in its queues. In a large fan-out it is counted on delivery."""
    if len(queues) == 1:
        return 1 + _work_in(queues[0])
    return len(queues) if len(queues) > QUEUES_AT_ONCE else 1 + sum(map(_work_in, queues))


def _work_in(queue: QueueClient) -> int:
    """The work of a message in a queue: the maximum if it makes another message die."""
    if not is_watched(queue):
        return 1
    dies = queue.options.dead_letter_exchange is not None
    return DEAD_LETTER_WORK + CARE_WORK if dies else CARE_WORK
