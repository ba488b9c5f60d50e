"""What the audit says of declarations (broker/audit.py): `acts_of`.

What operators declare is told, whether they use HTTP, leveretctl or a definitions file. Programs
declare queues, exchanges and bindings all the time, so of these only deletions of what is durable
are told when they are requested over AMQP; and of an import only their number is.

The sentences are those of RabbitMQ 3.12's `rabbit_auth_backend_internal`, `rabbit_vhost` and
`rabbit_policy`. It has none at this level for the others, which are worded alike. Values of
parameters are left out: they may contain passwords.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import singledispatchmethod
from typing import Any

from leveret.broker.audit import Act
from leveret.broker.auth.users import UserDirectory
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
    PutQueueHome,
    PutQueueMirrors,
    PutTopicPermission,
    PutUser,
    PutUserLimits,
    PutVhost,
    PutVhostLimits,
)
from leveret.broker.names import EXCHANGE, QUEUE, resource
from leveret.broker.policies.parameters import GLOBAL, OPERATOR_POLICY
from leveret.broker.registry.topology import InVhost
from leveret.broker.requester import AMQP, DEFINITIONS, NODE, Requester
from leveret.broker.vhost import VirtualHost

USER, VHOST, PERMISSION, TOPIC_PERMISSION = "user", "vhost", "permission", "topic permission"
POLICY, PARAMETER, LIMITS, BINDING = "policy", "parameter", "limits", "binding"


class ActsOfDeclarations:
    """Describes declarations before they are applied. users, vhosts: the registry's."""

    def __init__(self, users: UserDirectory, vhosts: Mapping[str, VirtualHost]) -> None:
        self._users = users
        self._vhosts = vhosts

    def of(self, declarations: Iterable[Declaration], requester: Requester) -> list[Act]:
        """The acts that are to be told of."""
        if requester.way == NODE:
            return []
        return [
            act
            for it in declarations
            if not isinstance(it, InVhost) or self._is_told(it, requester)
            for act in self.acts(it)
        ]

    def _is_told(self, it: InVhost, requester: Requester) -> bool:
        if requester.way == AMQP:
            thing = self._deleted(it)
            return thing is not None and thing.durable
        return requester.way != DEFINITIONS

    def _deleted(self, it: InVhost) -> Any:
        """The queue or exchange that is deleted; None if none is."""
        vhost = self._vhosts[it.vhost]
        if isinstance(it, DeleteQueue):
            return vhost.queues.get(it.name)
        return vhost.exchanges.get(it.name) if isinstance(it, DeleteExchange) else None

    @singledispatchmethod
    def acts(self, declaration: Declaration) -> Iterator[Act]:
        """What one declaration changes; the methods below are for one type of declaration each."""
        raise AssertionError(f"nothing describes {declaration!r}")

    # Virtual hosts, users and permissions

    @acts.register
    def _put_vhost(self, it: PutVhost) -> Iterator[Act]:
        is_new = it.name not in self._vhosts
        facts = f"(description: '{it.description}', tags: {_listed(it.tags.split(','))})"
        described = facts if it.description or it.tags else "without a description"
        action, text = ("created", "Adding") if is_new else ("updated", "Updating")
        detail = {"description": it.description, "tags": it.tags}
        yield Act(f"vhost.{action}", VHOST, it.name, f"{text} vhost '{it.name}' {described}",
                  it.name, detail)  # fmt: skip

    @acts.register
    def _delete_vhost(self, it: DeleteVhost) -> Iterator[Act]:
        yield Act("vhost.deleted", VHOST, it.name, f"Deleting vhost '{it.name}'", it.name)

    @acts.register
    def _put_user(self, it: PutUser) -> Iterator[Act]:
        user, name = it.user, it.user.name
        before = self._users.get(name)
        has_new_password = before is None or before.password_hash != user.password_hash
        if before is None:
            yield Act("user.created", USER, name, f"Created user '{name}'")
        elif has_new_password and user.password_hash:
            text = f"Successfully changed password for user '{name}'"
            yield Act("user.password.changed", USER, name, text)
        elif has_new_password:
            yield Act("user.password.cleared", USER, name, f"Clearing password for user '{name}'")
        if before is None or before.tags != user.tags or not has_new_password:
            text = f"Successfully set user tags for user '{name}' to {_listed(user.tags)}"
            yield Act("user.tags.set", USER, name, text, detail={"tags": list(user.tags)})

    @acts.register
    def _delete_user(self, it: DeleteUser) -> Iterator[Act]:
        yield Act("user.deleted", USER, it.name, f"Deleted user '{it.name}'")

    @acts.register
    def _put_permission(self, it: PutPermission) -> Iterator[Act]:
        row = it.permission
        text = (
            f"Successfully set permissions for user '{row.user}' in virtual host '{row.vhost}' to "
            f"'{row.configure}', '{row.write}', '{row.read}'"
        )
        detail = {"configure": row.configure, "write": row.write, "read": row.read}
        yield Act("permission.created", PERMISSION, row.user, text, row.vhost, detail)

    @acts.register
    def _delete_permission(self, it: DeletePermission) -> Iterator[Act]:
        where = f"for user '{it.user}' in virtual host '{it.vhost}'"
        text = f"Successfully cleared permissions {where}"
        yield Act("permission.deleted", PERMISSION, it.user, text, it.vhost)

    @acts.register
    def _put_topic_permission(self, it: PutTopicPermission) -> Iterator[Act]:
        row = it.permission
        text = (
            f"Successfully set topic permissions on exchange '{row.exchange}' for user "
            f"'{row.user}' in virtual host '{row.vhost}' to '{row.write}', '{row.read}'"
        )
        detail = {"exchange": row.exchange, "write": row.write, "read": row.read}
        yield Act("topic.permission.created", TOPIC_PERMISSION, row.user, text, row.vhost, detail)

    @acts.register
    def _delete_topic_permission(self, it: DeleteTopicPermission) -> Iterator[Act]:
        exchange = "" if it.exchange is None else f" on exchange '{it.exchange}'"
        where = f"for user '{it.user}' in virtual host '{it.vhost}'"
        text = f"Successfully cleared topic permissions{exchange} {where}"
        detail = {} if it.exchange is None else {"exchange": it.exchange}
        yield Act("topic.permission.deleted", TOPIC_PERMISSION, it.user, text, it.vhost, detail)

    # Policies, limits and parameters

    @acts.register
    def _put_policy(self, it: PutPolicy) -> Iterator[Act]:
        policy, kind = it.policy, _policy_kind(it.component)
        text = (
            f"Successfully set {kind} '{policy.name}' matching {policy.apply_to} names in virtual "
            f"host '{policy.vhost}' using pattern '{policy.pattern}'"
        )
        detail = {
            "pattern": policy.pattern, "apply-to": policy.apply_to, "priority": policy.priority,
            "definition": dict(policy.definition),
        }  # fmt: skip
        yield Act(f"{_event(kind)}.set", kind, policy.name, text, policy.vhost, detail)

    @acts.register
    def _delete_policy(self, it: DeletePolicy) -> Iterator[Act]:
        kind = _policy_kind(it.component)
        text = f"Successfully cleared {kind} '{it.name}' in virtual host '{it.vhost}'"
        yield Act(f"{_event(kind)}.cleared", kind, it.name, text, it.vhost)

    @acts.register
    def _put_vhost_limits(self, it: PutVhostLimits) -> Iterator[Act]:
        text = f"Successfully set limits of virtual host '{it.vhost}' to {_pairs(it.limits)}"
        yield Act("vhost.limits.set", LIMITS, it.vhost, text, it.vhost, dict(it.limits))

    @acts.register
    def _delete_vhost_limits(self, it: DeleteVhostLimits) -> Iterator[Act]:
        text = f"Successfully cleared limits of virtual host '{it.vhost}'"
        yield Act("vhost.limits.cleared", LIMITS, it.vhost, text, it.vhost)

    @acts.register
    def _put_user_limits(self, it: PutUserLimits) -> Iterator[Act]:
        text = f"Successfully set limits of user '{it.user}' to {_pairs(it.limits)}"
        yield Act("user.limits.set", LIMITS, it.user, text, detail=dict(it.limits))

    @acts.register
    def _delete_user_limits(self, it: DeleteUserLimits) -> Iterator[Act]:
        text = f"Successfully cleared limits of user '{it.user}'"
        yield Act("user.limits.cleared", LIMITS, it.user, text)

    @acts.register
    def _put_parameter(self, it: PutParameter) -> Iterator[Act]:
        yield _parameter_act(it, "parameter.set", "Successfully set")

    @acts.register
    def _delete_parameter(self, it: DeleteParameter) -> Iterator[Act]:
        yield _parameter_act(it, "parameter.cleared", "Successfully cleared")

    # Exchanges, queues and bindings

    @acts.register
    def _put_exchange(self, it: PutExchange) -> Iterator[Act]:
        text = f"Declared {resource(EXCHANGE, it.name, it.vhost)} of type '{it.type}'"
        detail = {"type": it.type, "durable": it.durable}
        yield Act("exchange.created", EXCHANGE, it.name, text, it.vhost, detail)

    @acts.register
    def _delete_exchange(self, it: DeleteExchange) -> Iterator[Act]:
        text = f"Deleted {resource(EXCHANGE, it.name, it.vhost)}"
        yield Act("exchange.deleted", EXCHANGE, it.name, text, it.vhost)

    @acts.register
    def _put_queue(self, it: PutQueue) -> Iterator[Act]:
        text = f"Declared {resource(QUEUE, it.name, it.vhost)}"
        yield Act("queue.created", QUEUE, it.name, text, it.vhost, {"durable": it.durable})

    @acts.register
    def _put_queue_home(self, it: PutQueueHome) -> Iterator[Act]:
        text = f"Moved {resource(QUEUE, it.name, it.vhost)} to node '{it.node}'"
        yield Act("queue.moved", QUEUE, it.name, text, it.vhost, {"node": it.node})

    @acts.register
    def _put_queue_mirrors(self, it: PutQueueMirrors) -> Iterator[Act]:
        text = (
            f"Changed the mirrors of {resource(QUEUE, it.name, it.vhost)}, which is led by node "
            f"'{it.node}'"
        )
        yield Act("queue.mirrors.changed", QUEUE, it.name, text, it.vhost, {"node": it.node})

    @acts.register
    def _delete_queue(self, it: DeleteQueue) -> Iterator[Act]:
        queue = self._vhosts[it.vhost].queues.get(it.name)
        if queue is None:
            return
        counts = queue.figures.counts()
        count = counts.ready + counts.unacked
        text = f"Deleted {resource(QUEUE, it.name, it.vhost)} with {count} messages"
        yield Act("queue.deleted", QUEUE, it.name, text, it.vhost, {"messages": count})

    @acts.register
    def _put_binding(self, it: PutBinding) -> Iterator[Act]:
        yield _binding_act(it, "binding.created", "Bound", "to")

    @acts.register
    def _delete_binding(self, it: DeleteBinding) -> Iterator[Act]:
        yield _binding_act(it, "binding.deleted", "Unbound", "from")


def _listed(words: Iterable[str]) -> str:
    """`[administrator,monitoring]`, as RabbitMQ writes tags."""
    return f"[{','.join(filter(None, words))}]"


def _pairs(limits: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in limits.items()) or "none"


def _policy_kind(component: str) -> str:
    return "operator policy" if component == OPERATOR_POLICY else POLICY


def _event(kind: str) -> str:
    return kind.replace(" ", ".")


def _parameter_act(it: PutParameter | DeleteParameter, action: str, done: str) -> Act:
    if it.component == GLOBAL:
        what = f"global parameter '{it.name}'"
    else:
        what = f"runtime parameter '{it.name}' of component '{it.component}'"
        what += f" in virtual host '{it.vhost}'"
    detail = {"component": it.component}
    return Act(action, PARAMETER, it.name, f"{done} {what}", it.vhost, detail)


def _binding_act(it: PutBinding | DeleteBinding, action: str, done: str, preposition: str) -> Act:
    text = (
        f"{done} {it.destination_kind} '{it.destination}' {preposition} "
        f"{resource(EXCHANGE, it.source, it.vhost)} with routing key '{it.routing_key}'"
    )
    detail = {"source": it.source, "routing_key": it.routing_key}
    return Act(action, BINDING, it.destination, text, it.vhost, detail)
