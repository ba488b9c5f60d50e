"""Converts declarations to rows of the metadata store, and back.

Only objects that survive a restart have a row: durable exchanges and queues, bindings between them,
and everything that operators set. Policies and limits are rows of the parameters table, with JSON
values, and so is the storage id of an exchange that delays messages, the home of a queue of a
cluster, and what is known of its mirrors.
"""

import base64
import json
from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from leveret.broker.declarations import (
    Declaration,
    DeleteBinding,
    DeleteExchange,
    DeleteParameter,
    DeletePermission,
    DeletePolicy,
    DeleteQueue,
    DeleteTopicPermission,
    DeleteUser,
    DeleteUserLimits,
    DeleteVhost,
    DeleteVhostLimits,
    Permission,
    Policy,
    PutBinding,
    PutExchange,
    PutParameter,
    PutPermission,
    PutPolicy,
    PutQueue,
    PutQueueHome,
    PutQueueMirrors,
    PutTopicPermission,
    PutUser,
    PutUserLimits,
    PutVhost,
    PutVhostLimits,
    TopicPermission,
    User,
)
from leveret.broker.names import EXCHANGE, QUEUE
from leveret.broker.policies.parameters import (
    NO_VHOST,
    OPERATOR_POLICY,
    POLICY,
    USER_LIMITS,
    VHOST_LIMITS,
)
from leveret.broker.policies.runtime_parameters import VHOST_LIMITS_NAME, policy_value
from leveret.broker.queues.queue_home import HERE
from leveret.storage.check import DeclaredIds
from leveret.storage.metadata import Metadata
from leveret.storage.metadata_rows import (
    BindingRow,
    Definitions,
    ExchangeRow,
    ParameterRow,
    PermissionRow,
    QueueRow,
    TopicPermissionRow,
    UserRow,
    VhostRow,
)

STORED_EXCHANGE = "stored-exchange"
"""The component of the parameters with storage ids of exchanges."""
QUEUE_HOME = "queue-home"
"""That of the parameters with the node and the identity of queues. A node that is not in a cluster
has none of them."""
QUEUE_MIRRORS = "queue-mirrors"
"""That of the parameters with the records of queues that are mirrored."""
QUEUE_COPY = "queue-copy"
"""That of the parameters with the storage ids of this node's copies of queues, which count in place
of those that the queues were declared with."""
CLUSTER_LOG, CLUSTER_VIEW, CLUSTER_PROMISE = "cluster-log", "cluster-view", "cluster-promise"
"""Those of the end of a cluster's log (cluster/metadata/history.py), which declare nothing."""
ROW_WORK = 20
"""The work of deleting a row, in the units of broker/turns.py."""


def deleting(declaration: Declaration, metadata: Metadata) -> Iterator[int]:
    """Delete the many rows that go with what a declaration deletes, before `write`, in its batch.

    Yields the work of each step. Raises MetadataError.
    """
    place = _place_of(declaration)
    while place is not None and (deleted := metadata.delete_part(*place)):
        yield deleted * ROW_WORK


def _place_of(it: Declaration) -> tuple[str, ...] | None:
    """What is deleted with all its rows, if something is; see `Metadata.delete_part`."""
    match it:
        case DeleteVhost():
            return (it.name,)
        case DeleteExchange():
            return (it.vhost, EXCHANGE, it.name)
        case DeleteQueue():
            return (it.vhost, QUEUE, it.name)
    return None


@singledispatch
def write(declaration: Declaration, metadata: Metadata) -> None:
    """Write a durable declaration: one transaction. Raises MetadataError.

    The functions below are registered by the type of their first argument.
    """
    raise AssertionError(f"there is no row for {declaration!r}")


@write.register
def _put_vhost(it: PutVhost, metadata: Metadata) -> None:
    metadata.put_vhost(VhostRow(it.name, it.description, it.tags))


@write.register
def _delete_vhost(it: DeleteVhost, metadata: Metadata) -> None:
    metadata.delete_vhost(it.name)


@write.register
def _put_user(it: PutUser, metadata: Metadata) -> None:
    user = it.user
    tags = ",".join(user.tags)
    metadata.put_user(UserRow(user.name, user.password_hash, user.hashing_algorithm, tags))


@write.register
def _delete_user(it: DeleteUser, metadata: Metadata) -> None:
    with metadata.batch():
        metadata.delete_user(it.name)
        metadata.delete_parameter(NO_VHOST, USER_LIMITS, it.name)


@write.register
def _put_permission(it: PutPermission, metadata: Metadata) -> None:
    one = it.permission
    metadata.put_permission(PermissionRow(one.vhost, one.user, one.configure, one.write, one.read))


@write.register
def _delete_permission(it: DeletePermission, metadata: Metadata) -> None:
    metadata.delete_permission(it.vhost, it.user)


@write.register
def _put_topic_permission(it: PutTopicPermission, metadata: Metadata) -> None:
    one = it.permission
    metadata.put_topic_permission(
        TopicPermissionRow(one.vhost, one.user, one.exchange, one.write, one.read)
    )


@write.register
def _delete_topic_permission(it: DeleteTopicPermission, metadata: Metadata) -> None:
    metadata.delete_topic_permission(it.vhost, it.user, it.exchange)


@write.register
def _put_policy(it: PutPolicy, metadata: Metadata) -> None:
    policy = it.policy
    _put_row(metadata, policy.vhost, it.component, policy.name, policy_value(policy))


@write.register
def _delete_policy(it: DeletePolicy, metadata: Metadata) -> None:
    metadata.delete_parameter(it.vhost, it.component, it.name)


@write.register
def _put_vhost_limits(it: PutVhostLimits, metadata: Metadata) -> None:
    _put_row(metadata, it.vhost, VHOST_LIMITS, VHOST_LIMITS_NAME, dict(it.limits))


@write.register
def _delete_vhost_limits(it: DeleteVhostLimits, metadata: Metadata) -> None:
    metadata.delete_parameter(it.vhost, VHOST_LIMITS, VHOST_LIMITS_NAME)


@write.register
def _put_user_limits(it: PutUserLimits, metadata: Metadata) -> None:
    _put_row(metadata, NO_VHOST, USER_LIMITS, it.user, dict(it.limits))


@write.register
def _delete_user_limits(it: DeleteUserLimits, metadata: Metadata) -> None:
    metadata.delete_parameter(NO_VHOST, USER_LIMITS, it.user)


@write.register
def _put_parameter(it: PutParameter, metadata: Metadata) -> None:
    _put_row(metadata, it.vhost, it.component, it.name, it.value)


@write.register
def _delete_parameter(it: DeleteParameter, metadata: Metadata) -> None:
    metadata.delete_parameter(it.vhost, it.component, it.name)


def _put_row(metadata: Metadata, vhost: str, component: str, name: str, value: Any) -> None:
    metadata.put_parameter(ParameterRow(vhost, component, name, json.dumps(value)))


@write.register
def _put_exchange(it: PutExchange, metadata: Metadata) -> None:
    row = ExchangeRow(
        it.vhost, it.name, it.type, it.durable, it.auto_delete, it.internal, it.arguments
    )
    with metadata.batch():
        metadata.put_exchange(row)
        if it.storage_id:
            _put_row(metadata, it.vhost, STORED_EXCHANGE, it.name, it.storage_id)


@write.register
def _delete_exchange(it: DeleteExchange, metadata: Metadata) -> None:
    with metadata.batch():
        metadata.delete_exchange(it.vhost, it.name)
        metadata.delete_parameter(it.vhost, STORED_EXCHANGE, it.name)


@write.register
def _put_queue(it: PutQueue, metadata: Metadata) -> None:
    row = QueueRow(it.vhost, it.name, it.durable, it.auto_delete, it.storage_id, it.arguments)
    if (it.node, it.identity) == HERE:
        metadata.put_queue(row)
        return
    with metadata.batch():
        metadata.put_queue(row)
        _put_row(metadata, it.vhost, QUEUE_HOME, it.name, [it.node, it.identity])
        if it.mirrors:
            _put_record(metadata, it.vhost, it.name, it.mirrors)


@write.register
def _delete_queue(it: DeleteQueue, metadata: Metadata) -> None:
    with metadata.batch():
        metadata.delete_queue(it.vhost, it.name)
        for component in (QUEUE_HOME, QUEUE_MIRRORS, QUEUE_COPY):
            metadata.delete_parameter(it.vhost, component, it.name)


@write.register
def _put_queue_home(it: PutQueueHome, metadata: Metadata) -> None:
    _put_row(metadata, it.vhost, QUEUE_HOME, it.name, [it.node, it.identity])


@write.register
def _put_queue_mirrors(it: PutQueueMirrors, metadata: Metadata) -> None:
    with metadata.batch():
        _put_row(metadata, it.vhost, QUEUE_HOME, it.name, [it.node, it.identity])
        if it.record:
            _put_record(metadata, it.vhost, it.name, it.record)
        else:
            metadata.delete_parameter(it.vhost, QUEUE_MIRRORS, it.name)
        if it.storage_id:
            _put_row(metadata, it.vhost, QUEUE_COPY, it.name, it.storage_id)


def _put_record(metadata: Metadata, vhost: str, queue: str, record: bytes) -> None:
    _put_row(metadata, vhost, QUEUE_MIRRORS, queue, base64.b64encode(record).decode())


@write.register
def _put_binding(it: PutBinding, metadata: Metadata) -> None:
    metadata.put_binding(_binding_row(it))


@write.register
def _delete_binding(it: DeleteBinding, metadata: Metadata) -> None:
    metadata.delete_binding(_binding_row(it))


def _binding_row(it: PutBinding | DeleteBinding) -> BindingRow:
    return BindingRow(
        it.vhost, it.source, it.destination_kind, it.destination, it.routing_key, it.arguments
    )


# Reading


def declarations(definitions: Definitions) -> Iterator[Declaration]:
    """The content of the metadata store as declarations, in an order in which they apply."""
    for vhost in definitions.vhosts:
        yield PutVhost(vhost.name, vhost.description, vhost.tags)
    for user in definitions.users:
        tags = tuple(filter(None, user.tags.split(",")))
        yield PutUser(User(user.name, tags, user.password_hash, user.hashing_algorithm))
    for permission in definitions.permissions:
        yield PutPermission(Permission(*permission))
    for topic_permission in definitions.topic_permissions:
        yield PutTopicPermission(TopicPermission(*topic_permission))
    kept: dict[tuple[str, str, str], Any] = {}
    for parameter in definitions.parameters:
        if parameter.component in (STORED_EXCHANGE, QUEUE_HOME, QUEUE_MIRRORS, QUEUE_COPY):
            kept[parameter.component, parameter.vhost, parameter.name] = json.loads(parameter.value)
        elif parameter.component not in (CLUSTER_LOG, CLUSTER_VIEW, CLUSTER_PROMISE):
            yield _of_parameter(parameter)

    for exchange in definitions.exchanges:
        yield PutExchange(
            exchange.vhost, exchange.name, exchange.type, exchange.durable, exchange.auto_delete,
            exchange.internal, exchange.arguments,
            storage_id=kept.get((STORED_EXCHANGE, exchange.vhost, exchange.name), 0),
        )  # fmt: skip
    for queue in definitions.queues:
        place = (queue.vhost, queue.name)
        node, identity = kept.get((QUEUE_HOME, *place), HERE)
        yield PutQueue(
            queue.vhost, queue.name, queue.durable, queue.auto_delete, queue.arguments,
            storage_id=kept.get((QUEUE_COPY, *place), queue.storage_id), node=node,
            identity=identity, mirrors=base64.b64decode(kept.get((QUEUE_MIRRORS, *place), "")),
        )  # fmt: skip
    for row in definitions.bindings:
        yield PutBinding(
            row.vhost, row.source, row.destination, row.routing_key, row.destination_kind,
            row.arguments,
        )  # fmt: skip


def declared_ids(definitions: Definitions) -> DeclaredIds:
    """The ids under which a node stores messages of what is declared."""
    here: set[int] = set()
    movable: set[int] = set()
    for it in declarations(definitions):
        if isinstance(it, PutExchange):
            here.add(it.storage_id)
        elif isinstance(it, PutQueue):
            # The home of a queue of a cluster may be, or become, another node.
            (here if (it.node, it.identity) == HERE else movable).add(it.storage_id)
    return DeclaredIds(here, movable)


def _of_parameter(row: ParameterRow) -> Declaration:
    value = json.loads(row.value)
    if row.component in (POLICY, OPERATOR_POLICY):
        return PutPolicy(
            row.component,
            Policy(
                row.vhost, row.name, value["pattern"], value["apply-to"], value["definition"],
                value["priority"],
            ),
        )  # fmt: skip
    if row.component == VHOST_LIMITS:
        return PutVhostLimits(row.vhost, value)
    if row.component == USER_LIMITS:
        return PutUserLimits(row.name, value)
    return PutParameter(row.component, row.vhost, row.name, value)
