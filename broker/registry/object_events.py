"""Events about vhosts, exchanges, queues and bindings: created, updated and deleted.

Source: the creation keys of RabbitMQ's `rabbit_exchange`, `rabbit_amqqueue_process`,
`rabbit_binding` and `rabbit_vhost`. Each function returns early if there is no listener
(broker/events/events.py). user: the user who requested the change, or `NODE_ITSELF` for a
consequence of another one, such as the deletion of a binding with its queue.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from leveret.broker.binding import Binding, Exchange
from leveret.broker.events.events import Events
from leveret.broker.names import EXCHANGE
from leveret.broker.queues.queue_client import QueueClient


class EventVhost(Protocol):
    """The vhost that an event is about."""

    name: str
    events: Events
    description: str
    tags: str
    is_traced: bool

    @property
    def exchanges(self) -> Mapping[str, Exchange]:
        """By name."""

    @property
    def queues(self) -> Mapping[str, QueueClient]:
        """By name."""


def exchange_created(vhost: EventVhost, exchange: Exchange, user: str) -> None:
    """An exchange was declared."""
    if not vhost.events.are_wanted:
        return
    vhost.events.notify("exchange.created", {
        "name": exchange.name,
        "vhost": vhost.name,
        "type": exchange.type_name,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": exchange.arguments,
        "policy": "" if exchange.policy is None else exchange.policy.name,
        "user_who_performed_action": user,
    })  # fmt: skip


def exchange_deleted(vhost: EventVhost, exchange: Exchange, user: str) -> None:
    """An exchange was deleted."""
    if vhost.events.are_wanted:
        vhost.events.notify("exchange.deleted", {
            "name": exchange.name, "vhost": vhost.name, "user_who_performed_action": user,
        })  # fmt: skip


def queue_created(vhost: EventVhost, queue: QueueClient, user: str) -> None:
    """A queue was declared."""
    if not vhost.events.are_wanted:
        return
    owner = queue.owner_connection
    vhost.events.notify("queue.created", {
        "name": queue.name,
        "vhost": vhost.name,
        "type": queue.kind.module,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.is_exclusive,
        "owner_pid": "" if owner is None else vhost.events.pid(owner.name),
        "arguments": queue.arguments,
        "user_who_performed_action": user,
    })  # fmt: skip


def queue_deleted(vhost: EventVhost, queue: QueueClient, user: str) -> None:
    """A queue was deleted."""
    if vhost.events.are_wanted:
        vhost.events.notify("queue.deleted", {
            "name": queue.name, "vhost": vhost.name, "type": queue.kind.module,
            "user_who_performed_action": user,
        })  # fmt: skip


def binding_created(vhost: EventVhost, binding: Binding, user: str) -> None:
    """A binding was created."""
    if vhost.events.are_wanted:
        vhost.events.notify("binding.created", _binding_facts(vhost, binding, user))


def binding_deleted(vhost: EventVhost, binding: Binding, user: str) -> None:
    """A binding was deleted."""
    if vhost.events.are_wanted:
        vhost.events.notify("binding.deleted", _binding_facts(vhost, binding, user))


def _binding_facts(vhost: EventVhost, binding: Binding, user: str) -> dict[str, Any]:
    return {
        "source_name": binding.source.name,
        "source_kind": EXCHANGE,
        "destination_name": binding.destination.name,
        "destination_kind": binding.destination_kind,
        "routing_key": binding.routing_key,
        "arguments": binding.arguments,
        "vhost": vhost.name,
        "user_who_performed_action": user,
    }


def vhost_created(vhost: EventVhost, user: str) -> None:
    """A vhost was created, with its predeclared exchanges."""
    if not vhost.events.are_wanted:
        return
    for exchange in vhost.exchanges.values():
        exchange_created(vhost, exchange, user)
    vhost.events.notify("vhost.created", _vhost_facts(vhost, user))


def vhost_updated(vhost: EventVhost, user: str) -> None:
    """The description, tags or tracing of a vhost changed."""
    if vhost.events.are_wanted:
        vhost.events.notify("vhost.updated", _vhost_facts(vhost, user))


def _vhost_facts(vhost: EventVhost, user: str) -> dict[str, Any]:
    return {
        "name": vhost.name,
        "description": vhost.description,
        "tags": [tag for tag in vhost.tags.split(",") if tag],
        "tracing": vhost.is_traced,
        "cluster_state": {vhost.events.node: "running"},
        "user_who_performed_action": user,
    }


def vhost_deleted(vhost: EventVhost, user: str) -> None:
    """A vhost was deleted; the events of everything in it came before."""
    if vhost.events.are_wanted:
        facts = {"name": vhost.name, "user_who_performed_action": user}
        vhost.events.notify("vhost.deleted", facts)
