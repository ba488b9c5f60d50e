"""Everything that is declared, as declarations, and how to get from one content to another.

A node that joins a cluster, or comes back to one after it was away for long, gets the content of
another node's registry. It applies the difference to its own (`changes`): what is the same stays as
it is, so a queue that lives on the node keeps its messages.

A declaration has a place (`place`): the object that it declares. One that is put in the same place
replaces it, if such an object can be replaced; exchanges, queues and bindings are deleted first. A
queue that has mirrors stays if only its home and its mirrors differ.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from leveret.broker.amqp.field_table import encode_table
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
    PutBinding,
    PutExchange,
    PutParameter,
    PutPermission,
    PutPolicy,
    PutQueue,
    PutQueueMirrors,
    PutTopicPermission,
    PutUser,
    PutUserLimits,
    PutVhost,
    PutVhostLimits,
)
from leveret.broker.names import EXCHANGE, QUEUE
from leveret.broker.policies.parameters import OPERATOR_POLICY, POLICY
from leveret.broker.queues.queue_client import ExclusiveOwner
from leveret.broker.queues.queue_places import RemoteOwner
from leveret.broker.registry.registry import Registry
from leveret.broker.vhost import PREDECLARED, VirtualHost

Place = tuple[str, ...]
"""What a declaration declares: the kind of object, and the names that tell it from others."""


def contents(registry: Registry) -> Iterator[Declaration]:
    """All that is declared, in an order in which it applies.

    Declarations do not keep who made them: all are the node's own.
    """
    for vhost in registry.vhosts.values():
        yield PutVhost(vhost.name, vhost.description, vhost.tags)
    for user in registry.users:
        yield PutUser(user)
    for permission in registry.permissions.all:
        yield PutPermission(permission)
    for topic_permission in registry.permissions.topics:
        yield PutTopicPermission(topic_permission)
    yield from _set_by_operators(registry)
    for vhost in registry.vhosts.values():
        yield from _exchanges_and_queues(vhost)
    for vhost in registry.vhosts.values():
        yield from _bindings(vhost)


def _set_by_operators(registry: Registry) -> Iterator[Declaration]:
    for component, vhost, name, value in registry.parameters.everything():
        yield PutParameter(component, vhost, name, value)
    for component in (POLICY, OPERATOR_POLICY):
        for policy in registry.policies.all(component):
            yield PutPolicy(component, policy)
    for vhost, limits in registry.limits.vhosts():
        yield PutVhostLimits(vhost, limits)
    for user, limits in registry.limits.users():
        yield PutUserLimits(user, limits)


def _exchanges_and_queues(vhost: VirtualHost) -> Iterator[Declaration]:
    for exchange in vhost.exchanges.values():
        if exchange.name and exchange.name not in PREDECLARED:
            yield PutExchange(
                vhost.name, exchange.name, exchange.type_name, exchange.durable,
                exchange.auto_delete, exchange.internal, encode_table(exchange.arguments),
            )  # fmt: skip
    for queue in vhost.queues.values():
        owner = queue.owner_connection
        yield PutQueue(
            vhost.name, queue.name, queue.durable, queue.auto_delete,
            encode_table(queue.arguments), "" if owner is None else owner.name,
            owner_node=_node_of(vhost, owner), node=queue.home.node,
            identity=queue.home.identity, mirrors=vhost.mirrors.get(queue.name, b""),
        )  # fmt: skip


def _node_of(vhost: VirtualHost, owner: ExclusiveOwner | None) -> str:
    """The node of the connection that owns a queue; empty without one, or without a cluster."""
    if isinstance(owner, RemoteOwner):
        return owner.node
    return "" if owner is None or vhost.places is None else vhost.places.node


def _bindings(vhost: VirtualHost) -> Iterator[Declaration]:
    for exchange in vhost.exchanges.values():
        for binding in exchange.bindings.values():
            yield PutBinding(
                vhost.name, exchange.name, binding.destination.name, binding.routing_key,
                binding.destination_kind, encode_table(binding.arguments),
            )  # fmt: skip


# From one content to another


def changes(mine: Iterable[Declaration], theirs: Iterable[Declaration]) -> list[Declaration]:
    """What has to be applied to a registry with `mine` so that it has `theirs`.

    What is gone is deleted first; what the deletion takes with it is declared again if it is in
    `theirs`.
    """
    before = {place(one): one for one in mine}
    after = {place(one): one for one in theirs}
    gone = {
        key: one
        for key, one in before.items()
        if key not in after or (key[0] in _NOT_REPLACED and not _can_become(one, after[key]))
    }
    # In `contents` what needs something comes after it, so it is deleted before it.
    deletions = [deletion(one) for one in reversed(gone.values())]
    lost = {key for key, one in after.items() if not gone.keys().isdisjoint(_needs(one))}
    stay = before.keys() - gone.keys() - lost
    return [
        *deletions,
        *(
            _becoming(one) if key in stay else one
            for key, one in after.items()
            if before.get(key) != one or key in lost
        ),
    ]


def _can_become(mine: Declaration, theirs: Declaration) -> bool:
    """Whether an object that is not replaced stays, as what the others have declared."""
    if isinstance(mine, PutQueue) and isinstance(theirs, PutQueue):
        are_mirrored = mine.mirrors or theirs.mirrors
        mine = replace(mine, node=theirs.node, mirrors=theirs.mirrors) if are_mirrored else mine
    return mine == theirs


def _becoming(theirs: Declaration) -> Declaration:
    """What makes an object that stays, and differs, that of the others."""
    if isinstance(theirs, PutQueue):
        return PutQueueMirrors(
            theirs.vhost, theirs.name, theirs.identity, theirs.node, theirs.mirrors
        )
    return theirs


def lost(mine: Iterable[Declaration], theirs: Iterable[Declaration]) -> list[Declaration]:
    """What of `mine` is not in `theirs`, or is declared otherwise there."""
    after = {place(one): one for one in theirs}
    return [one for one in mine if after.get(place(one)) != one]


def _needs(it: Declaration) -> Iterator[Place]:
    """The places of what a declared object is deleted with."""
    match it:
        case PutPermission(permission=one):
            yield from ((_VHOST, one.vhost), (_USER, one.user))
        case PutTopicPermission(permission=topic):
            yield from ((_VHOST, topic.vhost), (_USER, topic.user))
        case PutParameter() | PutVhostLimits():
            yield _VHOST, it.vhost
        case PutPolicy(policy=policy):
            yield _VHOST, policy.vhost
        case PutUserLimits():
            yield _USER, it.user
        case PutExchange() | PutQueue():
            yield _VHOST, it.vhost
        case PutBinding():
            yield _VHOST, it.vhost
            yield _EXCHANGE, it.vhost, it.source
            yield it.destination_kind, it.vhost, it.destination


_VHOST, _USER, _EXCHANGE, _QUEUE, _BINDING = "vhost", "user", EXCHANGE, QUEUE, "binding"
_NOT_REPLACED = (_EXCHANGE, _QUEUE, _BINDING)


def place(it: Declaration) -> Place:
    """What a declaration declares. The kind comes first, then the vhost if it is in one."""
    match it:
        case PutVhost():
            return _VHOST, it.name
        case PutUser():
            return _USER, it.user.name
        case PutPermission(permission=one):
            return "permission", one.vhost, one.user
        case PutTopicPermission(permission=topic):
            return "topic_permission", topic.vhost, topic.user, topic.exchange
        case PutParameter():
            return "parameter", it.vhost, it.component, it.name
        case PutPolicy(policy=policy):
            return "policy", policy.vhost, it.component, policy.name
        case PutVhostLimits():
            return "vhost_limits", it.vhost
        case PutUserLimits():
            return "user_limits", it.user
        case PutExchange():
            return _EXCHANGE, it.vhost, it.name
        case PutQueue():
            return _QUEUE, it.vhost, it.name
        case PutBinding():
            arguments = it.arguments.hex()
            return (
                _BINDING, it.vhost, it.source, it.destination_kind, it.destination, it.routing_key,
                arguments,
            )  # fmt: skip
    raise AssertionError(f"{it!r} declares nothing")


def deletion(it: Declaration) -> Declaration:
    """The declaration that deletes what another one declared."""
    match it:
        case PutVhost():
            return DeleteVhost(it.name)
        case PutUser():
            return DeleteUser(it.user.name)
        case PutPermission(permission=one):
            return DeletePermission(one.vhost, one.user)
        case PutTopicPermission(permission=topic):
            return DeleteTopicPermission(topic.vhost, topic.user, topic.exchange)
        case PutParameter():
            return DeleteParameter(it.component, it.vhost, it.name)
        case PutPolicy(policy=policy):
            return DeletePolicy(it.component, policy.vhost, policy.name)
        case PutVhostLimits():
            return DeleteVhostLimits(it.vhost)
        case PutUserLimits():
            return DeleteUserLimits(it.user)
        case PutExchange():
            return DeleteExchange(it.vhost, it.name)
        case PutQueue():
            return DeleteQueue(it.vhost, it.name)
        case PutBinding():
            return DeleteBinding(
                it.vhost, it.source, it.destination, it.routing_key, it.destination_kind,
                it.arguments,
            )  # fmt: skip
    raise AssertionError(f"{it!r} declares nothing")
