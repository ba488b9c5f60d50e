"""What the clients of a node's replicated queues share."""

from collections.abc import Callable
from typing import NamedTuple

from leveret.broker.runtime.counts import MessageCounts
from leveret.cluster.remote_queues.remote_hold import UntakenBytes
from leveret.cluster.replicated_queues.client.sender_numbers import SenderNumbers
from leveret.storage.messages.addresses import Addresses


def _always() -> bool:
    return True


class OwnNode(NamedTuple):
    """What all clients of a node's replicated queues of a kind share.

    answer_ms: how long requests wait for a leader. senders: numbers their senders. addresses:
    shared by all messages that are read. untaken: the bytes that queues have not taken yet. given:
    counts the messages that clients of this node got from such queues, wherever these are led.
    shows_zero: whether basic.get shows a delivery count of 0, as before RabbitMQ 4. tells_returns:
    whether consumers are told how often a message was returned beside its failed deliveries, as
    since 4.3. takes_annotations: whether all nodes keep the annotations of modified messages.
    takes_identifiers: whether all nodes recognise duplicates. takes_expiry: whether messages may
    expire wherever they are, on all nodes. takes_own_times: whether all nodes take runs of messages
    with times to live of their own.
    """

    name: str
    answer_ms: int
    senders: SenderNumbers
    addresses: Addresses
    untaken: UntakenBytes
    given: MessageCounts
    shows_zero: bool = True
    tells_returns: bool = False
    takes_annotations: Callable[[], bool] = _always
    takes_identifiers: Callable[[], bool] = _always
    takes_expiry: Callable[[], bool] = _always
    takes_own_times: Callable[[], bool] = _always
