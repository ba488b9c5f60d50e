"""What the conversions of a node use of it."""

import logging
from collections.abc import Callable
from typing import Protocol

from leveret.broker.amqp.errors import Fault
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.pending import Answer
from leveret.broker.services.services import Services
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.quorum.conversion.node_holds import NodeHolds
from leveret.cluster.quorum.conversion.refusals import too_much
from leveret.cluster.remote_queues.remote_queues import RemoteQueues
from leveret.cluster.rpc.refused import Refused
from leveret.cluster.rpc.rpc import Rpc
from leveret.storage.metadata.metadata import MetadataError

logger = logging.getLogger("leveret.cluster")

HOLD_SECONDS_MAX = 5.0
"""The queue is released after this time: its clients wait, a channel for at most 15 seconds."""


class RunningNodes(Protocol):
    """The nodes of the view that this one is in."""

    @property
    def running(self) -> tuple[str, ...]:
        """Their names, with this node's own."""


class Mirrors(Protocol):
    """The mirrors of the queues that this node leads."""

    def end_mirroring(self, vhost: str, queue: QueueClient, answer: Answer[None]) -> None:
        """Have a queue that this node leads live here alone, until it follows its policies again.

        answer: refused with 406 if another node leads it.
        """

    def follow_policies(self, vhost: str, name: str) -> None:
        """A queue that lived here alone gets the mirrors that its policies want."""


class Parts:
    """The parts of a node that a conversion uses.

    find_member: the member of a group on this node.
    """

    def __init__(
        self, services: Services, rpc: Rpc, remote_queues: RemoteQueues, holds: NodeHolds,
        nodes: RunningNodes, find_member: Callable[[int], GroupMember | None], mirrors: Mirrors,
    ) -> None:  # fmt: skip
        self.services = services
        self.rpc = rpc
        self.remote_queues = remote_queues
        self.holds = holds
        self.nodes = nodes
        self.find_member = find_member
        self.mirrors = mirrors

    @property
    def others(self) -> frozenset[str]:
        """The other nodes that run, and those that are linked."""
        names = {*self.nodes.running, *self.rpc.nodes}
        return frozenset(names - {self.remote_queues.node})


def require_few(messages: int, body_bytes: int) -> None:
    """Raise Refused unless this number of messages can be copied in one pause."""
    reason = too_much(messages, body_bytes)
    if reason is not None:
        raise Refused(reason)


def delete_successor(vhost: VirtualHost, successor: QueueClient) -> None:
    """Delete the successor of a conversion that is given up.

    It is not tried again if it fails: the queue may have another name then. Each start of the node
    deletes successors that are left over.
    """
    deleted: Answer[None] = Answer()

    def answered() -> None:
        try:
            deleted.result()
        except (Fault, MetadataError) as error:
            logger.info("%r is not deleted: %s", successor, error)

    deleted.when_given(answered)
    vhost.delete_queue(successor, answer=deleted)
