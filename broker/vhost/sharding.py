"""Sharded exchanges: the queues and bindings of their policies, and those that a node lacks.

A policy with `shards-per-node` gives an exchange this number of queues on each node of the cluster,
`sharding: EXCHANGE - NODE - NUMBER`, bound with the policy's `routing-key`. Each node plans its own
shards only. No shard is deleted, neither when the number is lowered nor when the policy ends, which
only unbinds them. Source: RabbitMQ's plugin rabbitmq_sharding.
"""

from typing import NamedTuple

from msgspec.structs import replace

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.declarations.values import (
    Declaration,
    DeleteBinding,
    Policy,
    PutBinding,
)
from leveret.broker.policies.policy_keys import SHARD_ROUTING_KEY, SHARDS_PER_NODE
from leveret.broker.vhost.binding import Exchange
from leveret.broker.vhost.virtual_host import VirtualHost

SHARDING_USER = "rmq-sharding"
"""The acting user of these declarations, as in RabbitMQ."""
NO_ARGUMENTS = encode_table({})


class Sharding(NamedTuple):
    """The sharding that a policy requests. shard_count: the number of shards on each node."""

    shard_count: int
    routing_key: str


def sharding_of_policy(policy: Policy | None) -> Sharding | None:
    """The sharding that a policy requests; None if it requests none."""
    if policy is None or SHARDS_PER_NODE not in policy.definition:
        return None
    definition = policy.definition
    return Sharding(definition[SHARDS_PER_NODE], definition.get(SHARD_ROUTING_KEY, ""))


def sharding_of(exchange: Exchange | None) -> Sharding | None:
    """The sharding that the policy of an exchange requests; None if it requests none.

    The default exchange is never sharded: every queue is bound to it, and no other binding may
    exist.
    """
    if exchange is None or not exchange.name:
        return None
    return sharding_of_policy(exchange.policy)


def shard_name(exchange: str, node: str, number: int) -> str:
    """The name of the queue that is a shard."""
    return f"sharding: {exchange} - {node} - {number}"


def missing_queues(vhost: VirtualHost, exchange: Exchange, node: str) -> list[Declaration]:
    """The declarations of the shards that a node lacks, durable if the exchange is durable."""
    sharding = sharding_of(exchange)
    if sharding is None:
        return []
    missing: list[Declaration] = []
    for number in range(sharding.shard_count):
        name = shard_name(exchange.name, node, number)
        if name in vhost.queues:
            continue
        specification = vhost.kinds.specify(vhost.name, name, {}, durable=exchange.durable)
        declaration = vhost.declaration_of(specification, SHARDING_USER)
        # On this node, whatever the locator of queues says.
        missing.append(replace(declaration, node=vhost.node))
    return missing


def missing_bindings(vhost: VirtualHost, exchange: Exchange, node: str) -> list[Declaration]:
    """The bindings that existing shards of a node lack."""
    sharding = sharding_of(exchange)
    if sharding is None:
        return []
    names = (shard_name(exchange.name, node, number) for number in range(sharding.shard_count))
    bound = _bound(exchange, sharding.routing_key)
    return [
        PutBinding(
            vhost.name, exchange.name, name, sharding.routing_key, acting_user=SHARDING_USER
        )
        for name in names
        if name in vhost.queues and name not in bound
    ]  # fmt: skip


def obsolete_bindings(
    vhost: VirtualHost, exchange: Exchange, node: str, before: Sharding | None
) -> list[Declaration]:
    """The deletions of bindings of a node's shards that an earlier policy requested."""
    now = sharding_of(exchange)
    if before is None or (now is not None and now.routing_key == before.routing_key):
        return []
    bound = _bound(exchange, before.routing_key)
    names = (shard_name(exchange.name, node, number) for number in range(before.shard_count))
    return [
        DeleteBinding(
            vhost.name, exchange.name, name, before.routing_key, acting_user=SHARDING_USER
        )
        for name in names
        if name in bound
    ]  # fmt: skip


def _bound(exchange: Exchange, routing_key: str) -> set[str]:
    """The queues that are bound to an exchange with this routing key and no arguments."""
    return {
        binding.destination.name
        for binding in exchange.bindings.values()
        if binding.routing_key == routing_key
        and not binding.destination.is_exchange
        and not binding.arguments
    }


def least_consumed(vhost: VirtualHost, exchange: str, node: str) -> str | None:
    """The node's shard with the fewest consumers; of several, the first by name."""
    sharding = sharding_of(vhost.exchanges.get(exchange))
    if sharding is None:
        return None
    names = (shard_name(exchange, node, number) for number in range(sharding.shard_count))
    queues = [vhost.queues[name] for name in names if name in vhost.queues]
    counted = [(queue.figures.counts().consumers, queue.name) for queue in queues]
    return min(counted)[1] if counted else None
