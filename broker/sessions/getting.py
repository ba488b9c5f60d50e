"""Takes one message from a queue for a session (basic.get)."""

from collections.abc import Callable

from leveret.broker.queues.contract.queue_client import Got
from leveret.broker.runtime.names import QUEUE
from leveret.broker.runtime.pending import Answer
from leveret.broker.sessions.access import (
    check,
    expand_queue_name,
    expand_sharded_name,
    find_queue,
)
from leveret.broker.sessions.interceptors import intercept_outgoing
from leveret.broker.sessions.session import Session
from leveret.storage.messages.message import Message

TellGot = Callable[[Message, int, bool, int], object]
"""Called with a message, its delivery tag, whether it was delivered before, and the number of
messages left in the queue."""


async def get(session: Session, queue_name: str, *, no_ack: bool, tell: TellGot) -> bool:
    """Take one message; return whether there was one. tell: called with it, before it is traced.

    Raises ChannelFault and ConnectionFault.
    """
    queue_name = expand_queue_name(session, queue_name)
    queue_name = expand_sharded_name(session, queue_name)
    await check(session, QUEUE, queue_name, "read")
    queue = find_queue(session, queue_name)
    queue.kind.check_get(queue.name, session.vhost.name)
    ack_required = not no_ack

    def give_back(got: Got | None) -> None:
        if got is not None and ack_required:
            queue.requeue([got.entry], is_failed=True)

    answer: Answer[Got | None] = Answer(give_back=give_back)
    queue.get(ack_required, answer)
    got = await answer
    counts = session.counts
    if got is None:
        counts.got_empty += 1
        return False
    entry = got.entry
    if no_ack:
        counts.got_no_ack += 1
    else:
        counts.got += 1
    counts.redelivered += entry.redelivered
    services = session.services
    if ack_required:
        tag = session.record_delivered(queue, [entry], None)
    else:
        tag = session.next_delivery_tag
        session.next_delivery_tag += 1
    message = entry.message
    if session.intercepts_outgoing:
        message = intercept_outgoing(session, queue.name, message)
    tell(message, tag, entry.redelivered, got.ready_count)
    tracer = session.vhost.tracer
    if tracer is not None:
        tracer.delivered(session, queue, None, [entry], tag, no_ack)
    if services.observer is not None:
        services.observer.delivered(session.vhost.name, queue.name, message, entry.redelivered)
    return True
