"""Continuous membership reconciliation: adds members to queues with too few, as in RabbitMQ.

Each node checks the queues whose leaders it has, periodically and some seconds after a change of
the nodes, of policies or of the declared queues. A queue with fewer members than its target gets
one more, on the node that has the fewest; the next check adds another one. A queue does not get an
even number of members if there is no further node to make the number odd again. With `auto_remove`,
members on nodes that are not in the cluster are removed first.

The target is the highest of `target_group_size`, the policy's `target-group-size` and the argument
`x-quorum-target-group-size`.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from leveret.broker.config.cluster_settings import MembershipReconciliation
from leveret.broker.runtime.clock import Clock, Timer
from leveret.cluster.replicated_queues.member_placement import NodeLoad
from leveret.cluster.replicated_queues.membership import ChangeRefused, QueueMembership
from leveret.cluster.replicated_queues.replicated_queue import ReplicatedQueue

logger = logging.getLogger("leveret.cluster")


class NodesAndTargets(Protocol):
    """The nodes of the cluster, and how many members queues should have."""

    def loads(self) -> list[NodeLoad]:
        """All nodes of the cluster."""

    def led_here(self) -> Sequence[ReplicatedQueue]:
        """The queues that this node leads."""

    def target_size(self, declared: ReplicatedQueue) -> int:
        """How many members a queue should have by its policies and arguments; 0: any number."""


class NeededChange(NamedTuple):
    """A change that a queue needs: a node on which a member is added or removed."""

    node: str
    is_added: bool


def missing(
    members: Collection[str], nodes: Iterable[NodeLoad], target: int, *, removes: bool
) -> NeededChange | None:
    """The next change for a queue with members on these nodes. nodes: of the cluster."""
    loads = {load.name: load for load in nodes}
    gone = [name for name in members if name not in loads]
    if gone and removes and len(members) > 1:
        return NeededChange(gone[0], is_added=False)
    new = [load for load in loads.values() if load.may_get and load.name not in members]
    becomes_odd = len(members) % 2 == 0 or len(new) > 1
    if not new or len(members) >= target or not becomes_odd:
        return None
    return NeededChange(min(new, key=lambda load: (load.members, load.name)).name, is_added=True)


class Reconciliation:
    """The reconciliation of one node."""

    def __init__(
        self, settings: MembershipReconciliation, clock: Clock, nodes: NodesAndTargets,
        membership: QueueMembership,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._clock = clock
        self._nodes = nodes
        self._membership = membership
        self._timer: Timer | None = None
        self._look: asyncio.Task[bool] | None = None
        self.trigger: Callable[[], object] = self._trigger if settings.is_enabled else _nothing
        """Called when a queue may need members, to check soon."""
        if settings.is_enabled:
            self._look_in(settings.interval_ms)

    def close(self) -> None:
        """The node stops."""
        if self._timer is not None:
            self._timer.cancel()
        if self._look is not None:
            self._look.cancel()

    def _trigger(self) -> None:
        if self._look is None:
            self._look_in(self._settings.trigger_interval_ms)

    def _look_in(self, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later_ms(delay_ms, self._begin)

    def _begin(self) -> None:
        self._look = asyncio.get_running_loop().create_task(self.look())
        self._look.add_done_callback(self._looked)

    def _looked(self, look: "asyncio.Task[bool]") -> None:
        self._look = None
        if look.cancelled():
            return
        if error := look.exception():
            logger.error("cannot reconcile the members of quorum queues: %s", error)
        has_changed = error is None and look.result()
        settings = self._settings
        self._look_in(settings.trigger_interval_ms if has_changed else settings.interval_ms)

    async def look(self) -> bool:
        """Reconcile the queues that this node leads. Returns whether one needed a change."""
        has_changed = False
        for queue in self._nodes.led_here():
            has_changed |= await self._reconcile(queue)
            await asyncio.sleep(0)
        return has_changed

    async def _reconcile(self, queue: ReplicatedQueue) -> bool:
        settings = self._settings
        target = max(settings.target_group_size, self._nodes.target_size(queue))
        needed = missing(queue.record.nodes, self._nodes.loads(), target, removes=settings.removes)
        if needed is None:
            return False
        vhost, name = queue.vhost, queue.queue.name
        try:
            if needed.is_added:
                await self._membership.add(vhost, name, needed.node)
            else:
                await self._membership.remove(vhost, name, needed.node)
        except ChangeRefused as error:
            logger.warning("cannot change the members of %r: %s", queue.queue, error)
        return True


def _nothing() -> None:
    """The trigger if reconciliation is not enabled."""
