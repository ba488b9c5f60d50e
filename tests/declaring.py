"""Declaring things in tests: in a broker that runs, or in a registry without one."""

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.declarations.audit import Audit
from leveret.broker.declarations.values import (
    DeleteBinding,
    DeleteExchange,
    PutBinding,
    PutExchange,
    PutQueue,
    PutVhost,
)
from leveret.broker.events.events import Events
from leveret.broker.registry import stored
from leveret.broker.registry.declaration_log import LocalDeclarationLog
from leveret.broker.registry.declaration_writer import DeclarationWriter
from leveret.broker.registry.registry import Registry
from leveret.broker.runtime.names import EXCHANGE, NODE_ITSELF, QUEUE
from leveret.broker.runtime.turns import Turns
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.storage.metadata.metadata import NoMetadata


class NeverTurns(Turns):
    """Turns that never come. woken: the actors that wait for theirs."""

    def __init__(self):
        self.now_ms = 0
        self.work_left = 1_000_000_000
        self.woken = []

        self._after = []

    def wake(self, sleeper):
        self.woken.append(sleeper)

    def after_round(self, callback):
        self._after.append(callback)

    def end_round(self):
        """Call back those that wait for the end of a round."""
        after, self._after = self._after, []
        for callback in after:
            callback()


class NoDependents:
    """A node without connections and traces; it notes what would end."""

    def __init__(self):
        self.ended = []

    def close_connections_to(self, vhost):
        self.ended.append(("connections to", vhost.name))

    def close_connections_of(self, user):
        self.ended.append(("connections of", user))

    def end_traces_of(self, vhost):
        self.ended.append(("traces of", vhost.name))

    def resource_changed(self, kind, vhost, name):
        pass

    def parameter_changed(self, component, vhost, name):
        pass


class SyncedAtOnce:
    """The sync of metadata on a disk that never makes a caller wait."""

    is_synced = True


class DeclaringVhost(VirtualHost):
    """A vhost that submits declarations for a test, and hands out the objects that come of them."""

    registry = None

    def submit(self, declaration):
        self._submit(declaration).result()

    def declare_exchange(
        self, name, kind, durable, auto_delete, internal, arguments, user=NODE_ITSELF
    ):
        self.submit(
            PutExchange(
                self.name, name, kind, durable, auto_delete, internal, encode_table(arguments),
                acting_user=user,
            )
        )  # fmt: skip
        return self.exchanges[name]

    def delete_exchange(self, exchange, user=NODE_ITSELF):
        self.submit(DeleteExchange(self.name, exchange.name, acting_user=user))

    def declare_queue(self, name, durable, auto_delete, arguments, owner=None, user=NODE_ITSELF):
        if owner is not None:
            self.registry.exclusive_owners.add(owner)
        self.submit(
            PutQueue(
                self.name, name, durable, auto_delete, encode_table(arguments),
                owner="" if owner is None else owner.name, acting_user=user,
            )
        )  # fmt: skip
        return self.queues[name]

    def bind(self, source, destination, routing_key, arguments, user=NODE_ITSELF):
        self.submit(self._binding(PutBinding, source, destination, routing_key, arguments, user))

    def unbind(self, source, destination, routing_key, arguments, user=NODE_ITSELF):
        self.submit(self._binding(DeleteBinding, source, destination, routing_key, arguments, user))

    def _binding(self, change, source, destination, routing_key, arguments, user):
        kind = EXCHANGE if destination.is_exchange else QUEUE
        return change(
            self.name, source.name, destination.name, routing_key, kind, encode_table(arguments),
            acting_user=user,
        )  # fmt: skip


class Declared:
    """A registry and its log. `put` submits declarations; `vhost` makes a vhost."""

    def __init__(
        self, metadata=None, events=None, call_soon=lambda step: step(), turns=None, clock=None
    ):
        self.metadata = metadata if metadata is not None else NoMetadata()
        self.events = events or Events()
        self.turns, self.clock = turns or NeverTurns(), clock or VirtualClock()
        self.dependents = NoDependents()
        self.audit = Audit()
        self.registry = Registry(self.events, self._make_vhost, self.dependents, call_soon)
        self._storage_id = 0
        self.writer = DeclarationWriter(
            self.registry, self.metadata, self._new_storage_id, self.audit
        )
        self.log = LocalDeclarationLog(self.registry, self.writer, SyncedAtOnce(), self.turns)

    def _make_vhost(self, name):
        vhost = DeclaringVhost(
            name, self.turns, self.clock, self.log.submit,
            policing=self.registry.policing, events=self.events,
        )  # fmt: skip
        vhost.registry = self.registry
        return vhost

    def _new_storage_id(self):
        self._storage_id += 1
        return self._storage_id

    def restore(self, definitions):
        for declaration in stored.declarations(definitions):
            self.registry.apply(declaration)

    def put(self, *declarations):
        self.log.submit(*declarations).result()

    def vhost(self, name="/"):
        self.registry.apply(PutVhost(name))
        return self.registry.vhosts[name]


def declare(embedded, *declarations):
    """Submit declarations to an embedded broker, in its thread."""
    embedded.broker.services.declarations.submit(*declarations).result()


def state_of(registry, durable_only=False):
    """What is declared, as plain values that can be compared."""
    is_kept = (lambda one: one.durable) if durable_only else (lambda one: True)
    return {
        "users": {user.name: user for user in registry.users},
        "permissions": {(one.vhost, one.user): one for one in registry.permissions.all},
        "topics": {(one.vhost, one.user, one.exchange): one for one in registry.permissions.topics},
        "policies": {
            (component, vhost): list(registry.policies.all(component, vhost))
            for component in ("policy", "operator_policy") for vhost in registry.vhosts
        },
        "limits": (dict(registry.limits.vhosts()), dict(registry.limits.users())),
        "parameters": sorted(registry.parameters.of("shovel")),
        "vhosts": {
            name: {
                "description": (vhost.description, vhost.tags),
                "exchanges": {
                    one.name: (
                        one.type_name, one.durable, one.auto_delete, one.internal, one.arguments,
                        one.alternate_name, one.policy,
                    )
                    for one in vhost.exchanges.values() if is_kept(one)
                },
                "queues": {
                    one.name: (
                        one.durable, one.auto_delete, one.arguments, one.storage_id, one.options,
                        one.policy, one.operator_policy, one.placement,
                    )
                    for one in vhost.queues.values() if is_kept(one)
                },
                "bindings": {
                    key
                    for one in vhost.exchanges.values() for key, binding in one.bindings.items()
                    if is_kept(one) and is_kept(binding.destination)
                },
            }
            for name, vhost in registry.vhosts.items()
        },
    }  # fmt: skip
