"""The attributes of a queue of the cluster, for a client object that does not have its messages.

Remote queues and mirrored queues keep what was declared, and answer requests with RabbitMQ's 404
while the queue cannot be reached. Compiled.
"""

from typing import Any, ClassVar

from mypy_extensions import mypyc_attr

from leveret.broker.amqp.errors import not_found
from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.queues.contract.demand import Demand
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.runtime.names import QUEUE, resource


@mypyc_attr(allow_interpreted_subclasses=True)
class ClusteredQueue:
    """The attributes of `QueueClient` that a specification sets."""

    __slots__ = (
        "arguments", "auto_delete", "bindings", "declared", "demand", "durable", "is_deleted",
        "is_exclusive", "kind", "name", "operator_policy", "options", "owner_connection",
        "placement", "policy", "storage_id", "vhost_name",
    )  # fmt: skip

    is_exchange: ClassVar[bool] = False

    def __init__(self, specification: QueueSpecification) -> None:
        self.vhost_name = specification.vhost
        self.kind = specification.kind
        self.name = specification.name
        self.durable = specification.durable
        self.auto_delete = specification.auto_delete
        self.arguments = specification.arguments
        self.owner_connection = specification.owner
        self.is_exclusive = specification.is_exclusive
        self.placement = specification.placement
        self.declared: QueueOptions = specification.options
        self.options: QueueOptions = specification.options
        self.policy: Any = None
        self.operator_policy: Any = None
        self.storage_id = specification.storage_id
        self.bindings: dict[Any, Any] = {}
        self.is_deleted = False
        self.demand: Demand | None = None

    @property
    def gone(self) -> Exception:
        """The error for all requests, with RabbitMQ's texts (`rabbit_misc:absent`)."""
        what = resource(QUEUE, self.name, self.vhost_name)
        if self.is_deleted:
            return not_found(f"no {what}")
        durable = "durable " if self.durable else ""
        return not_found(
            f"home node '{self.placement.node}' of {durable}{what} is down or inaccessible"
        )
