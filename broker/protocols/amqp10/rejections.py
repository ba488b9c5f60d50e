"""The reason for rejecting the messages of a link: which queue has refused them (RabbitMQ 4.3).

When an outcome is sent, the queues of the link's address are examined: the reason is the one that
refuses messages above its maximum length, otherwise the one that is down. The outcome has no reason
if several queues come into question, or if each message of the link names its own address.
"""

from leveret.broker.amqp10.values import Value
from leveret.broker.protocols.amqp10.conditions import PRECONDITION_FAILED, RESOURCE_LIMIT_EXCEEDED
from leveret.broker.protocols.amqp10.incoming_link import IncomingLink
from leveret.broker.protocols.amqp10.performatives import Error, Rejected
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.sessions.session import Session


def rejection_of(session: Session, link: IncomingLink) -> Rejected:
    """The outcome of messages on a link that a queue has refused."""
    address = link.address
    if address is None or address.routing_key is None:
        return Rejected()
    targets = session.connection.targets
    target = targets.find_by_address(address.exchange, address.routing_key, is_mandatory=True)
    full = [one for one in target.queues if one.options.overflow.startswith("reject-publish")]
    if len(full) == 1:
        text = f"queue '{full[0].name}' exceeded maximum length"
        return _rejected(RESOURCE_LIMIT_EXCEEDED, text, full[0], "maxlen")
    down = [one for one in target.queues if one.is_down]
    if len(down) == 1 and not full:
        text = f"queue '{down[0].name}' is unavailable"
        return _rejected(PRECONDITION_FAILED, text, down[0], "unavailable")
    return Rejected()


def _rejected(condition: str, text: str, queue: QueueClient, reason: str) -> Rejected:
    info = [
        (Value("symbol", "queue"), Value("string", queue.name)),
        (Value("symbol", "reason"), Value("symbol", reason)),
    ]
    return Rejected(Error(condition, text, Value("map", info)))
