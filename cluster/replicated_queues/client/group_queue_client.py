"""The parts that the `QueueClient`s of quorum queues and of streams have in common.

These are the attributes of a declared queue, the requests that have a time limit, and the wait for
the first leader of a new queue.
"""

from functools import partial
from typing import Any, ClassVar

from leveret.broker.amqp.errors import ConnectionFault, internal_error, not_found
from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.queues.contract.demand import Demand
from leveret.broker.queues.contract.queue_client import ExclusiveOwner, Hold
from leveret.broker.queues.contract.queue_kind import QueueKind
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.queues.contract.status import QueueFigures
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import Actor
from leveret.cluster.replicated_queues.client.ended_figures import ENDED_FIGURES
from leveret.cluster.replicated_queues.client.own_node import OwnNode
from leveret.cluster.replicated_queues.client.timed_request import TimedRequest
from leveret.cluster.replicated_queues.client.unapplied_hold import UnappliedHold


class GroupQueueClient(Actor):
    """A queue in a Raft group, for the clients of a node. `Actor.take_turn` sends requests.

    figures: those of an ended queue until the subclass has set its own.
    """

    __slots__ = (
        "_begun", "_clock", "_hold", "_node", "_turns", "arguments", "auto_delete", "bindings",
        "declared", "demand", "durable", "figures", "is_deleted", "is_exclusive", "kind",
        "may_redeliver", "name", "operator_policy", "options", "owner", "owner_connection",
        "placement", "policy", "storage_id", "vhost_name",
    )  # fmt: skip

    is_exchange: ClassVar[bool] = False
    is_down: ClassVar[bool] = False

    def __init__(self, owner: QueueOwner, specification: QueueSpecification, node: OwnNode) -> None:
        super().__init__()
        self.owner = owner
        self._turns, self._clock = owner.turns, owner.clock
        self._node = node
        self.vhost_name, self.name = specification.vhost, specification.name
        self.kind: QueueKind = specification.kind
        self.durable, self.auto_delete = specification.durable, specification.auto_delete
        self.arguments = specification.arguments
        self.is_exclusive = False
        self.owner_connection: ExclusiveOwner | None = None
        self.declared: QueueOptions = specification.options
        self.options: QueueOptions = specification.options
        self.policy: Any = None
        self.operator_policy: Any = None
        self.bindings: dict[Any, Any] = {}
        self.storage_id = specification.storage_id
        self.placement = specification.placement
        self.is_deleted = self.may_redeliver = False
        self.demand: Demand | None = None
        self.figures: QueueFigures = ENDED_FIGURES
        self._hold = UnappliedHold(node.untaken)
        self._begun: list[TimedRequest] = []

    @property
    def has_leader(self) -> bool:
        """Whether a leader is known."""
        raise NotImplementedError

    @property
    def publisher_hold(self) -> Hold:
        """The hold for publishers of many messages at a time."""
        return self._hold

    @property
    def gone(self) -> Exception:
        """The error for requests after the end of the queue."""
        return not_found(f"no {self._what}")

    @property
    def _what(self) -> str:
        return resource(QUEUE, self.name, self.vhost_name)

    def begin(self, answer: Answer[None]) -> None:
        """Answer when the group of a queue declared on this node has its first leader."""
        if self.has_leader:
            answer.give(None)
            return
        node = self._node.name
        error = partial(
            internal_error,
            f"Cannot declare {self.kind.name} {self._what} on node '{node}' with leader on node "
            f"'{self.placement.node or node}': cluster_not_formed",
        )
        self._begun.append(TimedRequest(answer, self._clock, error, self._node.answer_ms))

    def _has_begun(self) -> None:
        """Answer `begin`: there is a leader."""
        begun, self._begun = self._begun, []
        for request in begun:
            request.give(None)

    def _refuse_begin(self) -> None:
        """Answer `begin`: the queue has ended."""
        begun, self._begun = self._begun, []
        for request in begun:
            request.refuse(self.gone)

    def _timed(self, answer: Answer[Any], doing: str, time_ms: int = 0) -> TimedRequest:
        """A request that is answered in time. doing: for the error text, what could not be done.

        time_ms: if it is not as long as most requests wait.
        """
        late = partial(self._timed_out, doing)
        return TimedRequest(answer, self._clock, late, time_ms or self._node.answer_ms)

    def _timed_out(self, doing: str) -> ConnectionFault:
        """The error for a queue without a majority."""
        return internal_error(f"Cannot {doing} {self._what}: timeout")
