"""Kinds of queues, by the value of `x-queue-type`, and what each of them supports.

A kind adds itself to the table of a node with `QueueKinds.add`. What it supports is data, which
declarations, policies and channels look up: the arguments that it takes and those by which a
redeclaration is compared, whether a queue may be exclusive, auto-delete or transient, and which
operations channels may ask for (compare the capabilities in RabbitMQ's `rabbit_queue_type`).
"""

from dataclasses import dataclass

from leveret.broker.amqp.errors import not_implemented, precondition_failed
from leveret.broker.amqp.field_table import Table
from leveret.broker.names import QUEUE, resource

CLASSIC = "classic"
TYPE_ARGUMENT = "x-queue-type"


@dataclass(frozen=True)
class QueueKind:
    """What a kind of queue supports.

    name: its `x-queue-type`. module: what RabbitMQ's error texts and API call it.
    arguments: those of queue.declare that it knows; a redeclaration is compared by them.
    refused_arguments, refused_consumer_arguments: those that mean something to other kinds only.
    policy_target: what a policy's apply-to calls queues of this kind.
    """

    name: str
    module: str
    arguments: tuple[str, ...]
    refused_arguments: tuple[str, ...] = ()
    refused_consumer_arguments: tuple[str, ...] = ()
    policy_target: str = ""
    may_be_transient: bool = True
    may_be_exclusive: bool = True
    may_be_auto_delete: bool = True
    has_basic_get: bool = True
    has_global_qos: bool = True
    has_no_ack_consumers: bool = True

    def check_properties(
        self, durable: bool, exclusive: bool, auto_delete: bool, queue: str, vhost: str
    ) -> None:
        """Raise 406 for a property that queues of this kind cannot have."""
        problems = {
            "auto-delete": auto_delete and not self.may_be_auto_delete,
            "exclusive-owner": exclusive and not self.may_be_exclusive,
            "non-durable": not durable and not self.may_be_transient,
        }
        for problem, has_it in problems.items():
            if has_it:
                what = resource(QUEUE, queue, vhost)
                raise precondition_failed(f"invalid property '{problem}' for {what}")

    def check_arguments(self, arguments: Table, queue: str, vhost: str) -> None:
        """Raise 406 for an argument of queue.declare that only other kinds take."""
        self._refuse(self.refused_arguments, arguments, queue, vhost)

    def check_consumer_arguments(self, arguments: Table, queue: str, vhost: str) -> None:
        """Raise 406 for an argument of basic.consume that only other kinds take."""
        self._refuse(self.refused_consumer_arguments, arguments, queue, vhost)

    def _refuse(self, names: tuple[str, ...], arguments: Table, queue: str, vhost: str) -> None:
        for name in names:
            if name in arguments:
                what = resource(QUEUE, queue, vhost)
                raise precondition_failed(
                    f"invalid arg '{name}' for {what} of queue type {self.module}"
                )

    def check_get(self, queue: str, vhost: str) -> None:
        """Raise 540 if messages cannot be taken one by one."""
        if not self.has_basic_get:
            what = resource(QUEUE, queue, vhost)
            raise not_implemented(f"basic.get not supported by {self.name} {what}")

    def check_consumer(self, no_ack: bool, global_prefetch: bool, queue: str, vhost: str) -> None:
        """Raise 540 for a way of consuming that the kind does not support."""
        what = resource(QUEUE, queue, vhost)
        if global_prefetch and not self.has_global_qos:
            raise not_implemented(f"{what} does not support global qos")
        if no_ack and not self.has_no_ack_consumers:
            raise not_implemented(f"automatic acknowledgement not supported by {self.name} {what}")


QUORUM = QueueKind(
    "quorum", "rabbit_quorum_queue", (), policy_target="quorum_queues", may_be_transient=False,
    may_be_exclusive=False, may_be_auto_delete=False, has_global_qos=False,
)  # fmt: skip
STREAM = QueueKind(
    "stream", "rabbit_stream_queue", (), policy_target="streams", may_be_transient=False,
    may_be_exclusive=False, may_be_auto_delete=False, has_basic_get=False, has_global_qos=False,
    has_no_ack_consumers=False,
)  # fmt: skip
NOT_SERVED = {kind.name: kind for kind in (QUORUM, STREAM)}
"""Kinds that RabbitMQ has: a declaration is checked for them, and then refused."""
