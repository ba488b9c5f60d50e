"""Kinds of queue, by the value of `x-queue-type`, and the features of each kind.

A kind adds itself to the table of a node with `QueueKinds.add`. Its features are data, which
declarations, policies and channels look up: the arguments that it takes and those by which a
redeclaration is compared, whether a queue may be exclusive, auto-delete or transient, and which
operations channels may ask for (compare the capabilities in RabbitMQ's `rabbit_queue_type`).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from leveret.broker.amqp.errors import not_implemented, precondition_failed
from leveret.broker.amqp.field_table import Table
from leveret.broker.queues.contract.deduplication_arguments import (
    CACHE_SIZE,
    CACHE_TTL,
    DEDUPLICATION,
)
from leveret.broker.runtime.names import QUEUE, resource

CLASSIC, QUORUM, STREAM = "classic", "quorum", "stream"
TYPE_ARGUMENT = "x-queue-type"
DEDUPLICATION_ARGUMENTS = (DEDUPLICATION, CACHE_SIZE, CACHE_TTL)

CLASSIC_ARGUMENTS = (
    "x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key",
    "x-max-length", "x-max-length-bytes", "x-max-priority", "x-overflow", "x-queue-mode",
    "x-queue-version", "x-single-active-consumer", "x-queue-type", "x-queue-master-locator",
    "x-consumer-timeout", "x-delivery-limit", "x-delayed-retry-type", "x-delayed-retry-min",
    "x-delayed-retry-max", "x-delayed-retry-multiplier", "x-expire-on-time",
    *DEDUPLICATION_ARGUMENTS,
)  # fmt: skip
QUORUM_ARGUMENTS = (
    "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy", "x-expires",
    "x-max-length", "x-max-length-bytes", "x-max-in-memory-length", "x-max-in-memory-bytes",
    "x-overflow", "x-single-active-consumer", "x-queue-type", "x-quorum-initial-group-size",
    "x-delivery-limit", "x-message-ttl", "x-queue-leader-locator", "x-consumer-timeout",
    "x-delayed-retry-type", "x-delayed-retry-min", "x-delayed-retry-max",
    "x-delayed-retry-multiplier", "x-expire-on-time", *DEDUPLICATION_ARGUMENTS,
)  # fmt: skip
STREAM_ARGUMENTS = (
    "x-max-length-bytes", "x-queue-type", "x-max-age", "x-stream-max-segment-size-bytes",
    "x-initial-cluster-size", "x-queue-leader-locator", "x-stream-filter-size-bytes",
)  # fmt: skip
EVERY_ARGUMENT = frozenset((*CLASSIC_ARGUMENTS, *QUORUM_ARGUMENTS, *STREAM_ARGUMENTS)) - {
    TYPE_ARGUMENT
}
"""Arguments that a kind refuses if it does not take them; any other is accepted and kept."""
EVERY_CONSUMER_ARGUMENT = frozenset(
    ("x-priority", "x-credit", "x-cancel-on-ha-failover", "x-stream-offset")
)

MIRRORING_POLICIES = (
    "ha-mode", "ha-params", "ha-sync-mode", "ha-promote-on-shutdown", "ha-promote-on-failure",
    "queue-master-locator",
)  # fmt: skip
STREAM_POLICIES = (
    "max-age", "stream-max-segment-size-bytes", "initial-cluster-size", "stream-filter-size-bytes",
)  # fmt: skip


@dataclass(frozen=True)
class QueueKind:
    """The features of a kind of queue.

    name: its `x-queue-type`. module: its name in RabbitMQ's error texts and API.
    arguments: those of queue.declare that it takes; a redeclaration is compared by them.
    consumer_arguments: those of basic.consume that it takes.
    policy_target: the value of a policy's apply-to for queues of this kind.
    unsupported_policies: a policy with one of these keys does not apply to it at all.
    dependent_keys: pairs of policy keys, of which the first one is supported only beside the second
    one, in a policy, and with the prefix `x-` among arguments.
    policy_wins: keys for which a policy takes precedence over the argument.
    credit_max: how many unacknowledged messages a consumer without a prefetch limit may hold;
    None for any number.
    is_replicated: its queues have members, on one node or several, which management shows. Classic
    queues, which a policy may mirror, are shown with mirrors instead.
    locator: the key of a policy that chooses the node of a new queue; the argument is the key with
    the prefix `x-`.
    has_inspection: operators may read and take messages from anywhere in it.
    removes_messages: an ack removes a message. Otherwise the queue is a log: each consumer reads it
    from an offset on, within a prefetch limit, and operations that take messages out or give them
    back are refused.
    is_as_rabbitmq_4: consumers are refused with the texts of RabbitMQ 4, and to reject a message of
    a log counts as an ack.
    """

    name: str
    module: str
    arguments: tuple[str, ...]
    consumer_arguments: tuple[str, ...] = ("x-priority", "x-credit")
    policy_target: str = ""
    unsupported_policies: frozenset[str] = frozenset()
    dependent_keys: tuple[tuple[str, str], ...] = ()
    policy_wins: frozenset[str] = frozenset()
    credit_max: int | None = None
    is_replicated: bool = False
    locator: str = "queue-leader-locator"
    has_inspection: bool = False
    may_be_transient: bool = True
    may_be_exclusive: bool = True
    may_be_auto_delete: bool = True
    may_be_named_by_server: bool = True
    has_global_qos: bool = True
    removes_messages: bool = True
    is_as_rabbitmq_4: bool = False

    def refused_keys(self, definition: Collection[str]) -> list[str]:
        """The keys because of which a policy with this definition does not apply."""
        dependent = [
            key for key, other in self.dependent_keys
            if key in definition and other not in definition
        ]  # fmt: skip
        if not dependent and self.unsupported_policies.isdisjoint(definition):
            return []
        return dependent + [key for key in definition if key in self.unsupported_policies]

    @property
    def policy_targets(self) -> tuple[str, ...]:
        """The values of apply-to with which a policy is for queues of this kind."""
        return ("all", "queues", self.policy_target)

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

    def check_has_name(self, name: str) -> None:
        """Raise 406 for an empty name, if the server does not name queues of this kind."""
        if not name and not self.may_be_named_by_server:
            raise precondition_failed(f"Cannot declare a server-named queue for type {self.module}")

    def check_arguments(self, arguments: Table, queue: str, vhost: str) -> None:
        """Raise 406 for an argument of queue.declare that only other kinds take."""
        taken = self.taken_arguments(arguments)
        self._refuse(EVERY_ARGUMENT.difference(taken), arguments, queue, vhost)

    def taken_arguments(self, arguments: Collection[str]) -> Collection[str]:
        """The arguments that queue.declare takes beside these."""
        refused = {
            f"x-{key}" for key, other in self.dependent_keys if f"x-{other}" not in arguments
        }
        return [name for name in self.arguments if name not in refused]

    def check_consumer_arguments(self, arguments: Table, queue: str, vhost: str) -> None:
        """Raise 406 for an argument of basic.consume that only other kinds take."""
        refused = EVERY_CONSUMER_ARGUMENT.difference(self.consumer_arguments)
        self._refuse(refused, arguments, queue, vhost)

    def _refuse(
        self, refused: frozenset[str], arguments: Iterable[str], queue: str, vhost: str
    ) -> None:
        for name in arguments:
            if name in refused:
                what = resource(QUEUE, queue, vhost)
                raise precondition_failed(
                    f"invalid arg '{name}' for {what} of queue type {self.module}"
                )

    def check_get(self, queue: str, vhost: str) -> None:
        """Raise 540 if messages cannot be taken one by one."""
        self._require_removal("basic.get", queue, vhost)

    def check_purge(self, queue: str, vhost: str) -> None:
        """Raise 540 if the messages cannot be dropped."""
        self._require_removal("queue.purge", queue, vhost)

    def check_reject(self, queue: str, vhost: str) -> None:
        """Raise 540 if deliveries cannot be rejected."""
        if not self.is_as_rabbitmq_4:
            self._require_removal("basic.nack and basic.reject", queue, vhost)

    def check_consumer(
        self, no_ack: bool, prefetch_count: int, global_prefetch: bool, queue: str, vhost: str
    ) -> None:
        """Raise 406 or 540 for a way of consuming that the kind does not support."""
        what = resource(QUEUE, queue, vhost)
        if not prefetch_count and not self.removes_messages:
            shown = f"{self.name} {what}" if self.is_as_rabbitmq_4 else f"'{what}'"
            raise precondition_failed(f"consumer prefetch count is not set for {shown}")
        if no_ack:
            queues = "" if self.is_as_rabbitmq_4 else "queues "
            self._require_removal("automatic acknowledgement", queue, vhost, queues)
        if global_prefetch and not self.has_global_qos:
            raise not_implemented(f"{what} does not support global qos")

    def _require_removal(
        self, operation: str, queue: str, vhost: str, queues: str = "queues "
    ) -> None:
        """Raise 540 for an operation if messages stay in the queue."""
        if not self.removes_messages:
            what = resource(QUEUE, queue, vhost)
            raise not_implemented(f"{operation} not supported by {self.name} {queues}{what}")


CLASSIC_QUEUE = QueueKind(
    CLASSIC,
    "rabbit_classic_queue",
    CLASSIC_ARGUMENTS,
    consumer_arguments=("x-cancel-on-ha-failover", "x-priority", "x-credit"),
    policy_target="classic_queues",
    locator="queue-master-locator",
    has_inspection=True,
    unsupported_policies=frozenset(
        (
            *STREAM_POLICIES,
            "queue-leader-locator",
            "dead-letter-strategy",
            "target-group-size",
        )
    ),
    # RabbitMQ's classic queues have no delivery limit: alone, it is for quorum queues.
    dependent_keys=(("delivery-limit", "delayed-retry-type"),),
)
