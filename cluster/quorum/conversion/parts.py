"""What the conversions of a node use of it."""

from collections.abc import Callable
from typing import Protocol

from leveret.broker.services.services import Services
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.quorum.conversion.node_holds import NodeHolds
from leveret.cluster.quorum.conversion.refusals import too_much
from leveret.cluster.remote_queues.remote_queues import RemoteQueues
from leveret.cluster.rpc.refused import Refused
from leveret.cluster.rpc.rpc import Rpc

HOLD_SECONDS_MAX = 5.0
"""The queue is released after this time: its clients wait, a channel for at most 15 seconds."""


class RunningNodes(Protocol):
    """The nodes of the view that this one is in."""

    @property
    def running(self) -> tuple[str, ...]:
        """Their names, with this node's own."""


class Parts:
    """The parts of a node that a conversion uses.

    find_member: the member of a group on this node.
    """

    def __init__(
        self, services: Services, rpc: Rpc, remote_queues: RemoteQueues, holds: NodeHolds,
        nodes: RunningNodes, find_member: Callable[[int], GroupMember | None],
    ) -> None:  # fmt: skip
        self.services = services
        self.rpc = rpc
        self.remote_queues = remote_queues
        self.holds = holds
        self.nodes = nodes
        self.find_member = find_member

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
