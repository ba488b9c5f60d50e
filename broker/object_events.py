"""What is told of vhosts and what is in them: exchanges, queues and bindings made and gone.

Facts: the creation keys of RabbitMQ's `rabbit_exchange`, `rabbit_amqqueue_process`,
`rabbit_binding` and `rabbit_vhost`. Each function looks first whether anybody listens
(broker/events.py). user: who asked for it, or `NODE_ITSELF` for what comes of something else, such
as the end of a binding's queue.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from broker.binding import Binding, Exchange
from broker.events import NODE_ITSELF, Events
from broker.names import EXCHANGE
from broker.queues.actor import Queue

CLASSIC_QUEUE = "rabbit_classic_queue"


class Place(Protocol):
    """The vhost that something happens in."""

    name: str
    events: Events
    description: str
    tags: str
    is_traced: bool

    @property
    def exchanges(self) -> Mapping[str, Exchange]:
        """By their names."""

    @property
    def queues(self) -> Mapping[str, Queue]:
        """By their names."""


def exchange_created(vhost: Place, exchange: Exchange, user: str) -> None:
    """An exchange was declared."""
    if not vhost.events.are_wanted:
        return
    vhost.events.tell("exchange.created", {
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


def exchange_deleted(vhost: Place, exchange: Exchange, user: str) -> None:
    """An exchange is gone."""
    if vhost.events.are_wanted:
        vhost.events.tell("exchange.deleted", {
            "name": exchange.name, "vhost": vhost.name, "user_who_performed_action": user,
        })  # fmt: skip


def queue_created(vhost: Place, queue: Queue, user: str) -> None:
    """A queue was declared."""
    if not vhost.events.are_wanted:
        return
    owner = queue.owner_connection
    vhost.events.tell("queue.created", {
        "name": queue.name,
        "vhost": vhost.name,
        "type": CLASSIC_QUEUE,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.is_exclusive,
        "owner_pid": "" if owner is None else vhost.events.pid(owner.name),
        "arguments": queue.arguments,
        "user_who_performed_action": user,
    })  # fmt: skip


def queue_deleted(vhost: Place, queue: Queue, user: str) -> None:
    """A queue is gone."""
    if vhost.events.are_wanted:
        vhost.events.tell("queue.deleted", {
            "name": queue.name, "vhost": vhost.name, "type": CLASSIC_QUEUE,
            "user_who_performed_action": user,
        })  # fmt: skip


def binding_created(vhost: Place, binding: Binding, user: str) -> None:
    """A binding was made."""
    if vhost.events.are_wanted:
        vhost.events.tell("binding.created", _binding_facts(vhost, binding, user))


def binding_deleted(vhost: Place, binding: Binding, user: str) -> None:
    """A binding is gone."""
    if vhost.events.are_wanted:
        vhost.events.tell("binding.deleted", _binding_facts(vhost, binding, user))


def _binding_facts(vhost: Place, binding: Binding, user: str) -> dict[str, Any]:
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


def vhost_created(vhost: Place, user: str) -> None:
    """There is a new vhost, with the exchanges that each one begins with."""
    if not vhost.events.are_wanted:
        return
    for exchange in vhost.exchanges.values():
        exchange_created(vhost, exchange, user)
    vhost.events.tell("vhost.created", _vhost_facts(vhost, user))


def vhost_updated(vhost: Place, user: str) -> None:
    """A vhost has another description, other tags, or is traced or not."""
    if vhost.events.are_wanted:
        vhost.events.tell("vhost.updated", _vhost_facts(vhost, user))


def _vhost_facts(vhost: Place, user: str) -> dict[str, Any]:
    return {
        "name": vhost.name,
        "description": vhost.description,
        "tags": [tag for tag in vhost.tags.split(",") if tag],
        "tracing": vhost.is_traced,
        "cluster_state": {vhost.events.node: "running"},
        "user_who_performed_action": user,
    }


def vhost_deleted(vhost: Place, user: str) -> None:
    """A vhost is gone, and so is all that was in it."""
    if not vhost.events.are_wanted:
        return
    for queue in vhost.queues.values():
        for binding in queue.bindings.values():
            binding_deleted(vhost, binding, NODE_ITSELF)
        queue_deleted(vhost, queue, user)
    for exchange in vhost.exchanges.values():
        for binding in exchange.incoming.values():
            binding_deleted(vhost, binding, NODE_ITSELF)
        exchange_deleted(vhost, exchange, user)
    vhost.events.tell("vhost.deleted", {"name": vhost.name, "user_who_performed_action": user})
