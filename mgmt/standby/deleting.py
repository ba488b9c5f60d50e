"""The deletion of items that the upstream lacks, and the reasons to keep one.

A queue is kept while it holds messages or has consumers, an exchange while messages wait in it, and
a vhost while there is any queue left in it. Queues of this node are asked in the turn of the event
loop in which the deletion is submitted: on a node on its own nothing can come between. Queues of
other nodes are asked just before; as with queue.delete with if-empty, messages that are published
to them before the deletion is ordered are deleted with them.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.amqp.json_form import table_to_json
from leveret.broker.amqp.json_tables import json_to_table
from leveret.broker.declarations.values import (
    Declaration,
    DeleteBinding,
    DeleteExchange,
    DeleteParameter,
    DeletePermission,
    DeletePolicy,
    DeleteQueue,
    DeleteTopicPermission,
    DeleteUser,
    DeleteVhost,
    DeleteVhostLimits,
)
from leveret.broker.policies.parameters import (
    GLOBAL,
    NO_VHOST,
    OPERATOR_POLICY,
    POLICY,
    VHOST_LIMITS,
)
from leveret.broker.queues.contract.queue_client import QueueClient, QueueLength
from leveret.broker.runtime.names import QUEUE
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.pending_in_task import given_in_task
from leveret.broker.services.services import Services
from leveret.broker.vhost.binding import Binding, Exchange
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.mgmt.definitions.contents import Item
from leveret.mgmt.standby.comparing import ComparedItem

ANSWER_SECONDS_MAX = 15.0
"""The time limit for the length of a queue on another node; without an answer the queue is kept."""
HAS_MESSAGES, HAS_CONSUMERS = "has messages", "has consumers"
HAS_QUEUES, IS_SILENT = "has queues", "its node does not answer"


class Deletions:
    """Makes the declarations that delete items."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def kept(self, items: Sequence[ComparedItem]) -> list[str]:
        """Why each of the items is kept; empty for those that may be deleted now."""
        reasons = [self._kept(one) for one in items]
        queues = [self._queue(one.item) if one.kind == "queues" else None for one in items]
        lengths = await _lengths([queue for queue in queues if queue is not None])
        return [
            reason if queue is None else _held_by(queue, lengths[queue])
            for reason, queue in zip(reasons, queues, strict=True)
        ]

    def _kept(self, one: ComparedItem) -> str:
        if one.kind == "exchanges":
            vhost = self._services.vhosts.get(one.item["vhost"])
            exchange = None if vhost is None else vhost.exchanges.get(one.item["name"])
            return HAS_MESSAGES if exchange is not None and _delays(exchange) else ""
        if one.kind == "vhosts":
            vhost = self._services.vhosts.get(one.item["name"])
            return "" if vhost is None else _keeping(vhost)
        return ""

    def _queue(self, item: Item) -> QueueClient | None:
        vhost = self._services.vhosts.get(item["vhost"])
        return None if vhost is None else vhost.queues.get(item["name"])

    def of(self, one: ComparedItem) -> Iterable[Declaration]:
        """The declarations that delete an item; none if it has gone."""
        kind, item = one.kind, one.item
        match kind:
            case "vhosts":
                return (DeleteVhost(item["name"]),)
            case "users":
                return (DeleteUser(item["name"]),)
            case "permissions":
                return (DeletePermission(item["vhost"], item["user"]),)
            case "topic_permissions":
                return (DeleteTopicPermission(item["vhost"], item["user"], item["exchange"]),)
            case "global_parameters":
                return (DeleteParameter(GLOBAL, NO_VHOST, item["name"]),)
            case "parameters":
                return (_deleted_parameter(item),)
            case "policies":
                return (DeletePolicy(POLICY, item["vhost"], item["name"]),)
            case "bindings":
                return self._deleted_binding(item)
        vhost = self._services.vhosts.get(item["vhost"])
        if vhost is None:
            return ()
        if kind == "queues":
            return (DeleteQueue(vhost.name, item["name"]),) if item["name"] in vhost.queues else ()
        is_there = item["name"] in vhost.exchanges
        return (DeleteExchange(vhost.name, item["name"]),) if is_there else ()

    def _deleted_binding(self, item: Item) -> Iterable[Declaration]:
        vhost = self._services.vhosts.get(item["vhost"])
        source = None if vhost is None else vhost.exchanges.get(item["source"])
        if vhost is None or source is None:
            return ()
        kind, name, routing_key = item["destination_type"], item["destination"], item["routing_key"]
        arguments = encode_table(json_to_table(item["arguments"]))
        key = (source.name, kind, name, routing_key, arguments)
        found = source.bindings.get(key) or _similar(vhost, source, item)
        if found is None:
            return ()
        return (
            DeleteBinding(vhost.name, source.name, name, routing_key, kind,
                          encode_table(found.arguments)),
        )  # fmt: skip


def _deleted_parameter(item: Item) -> Declaration:
    component, vhost, name = item["component"], item["vhost"], item["name"]
    if component == VHOST_LIMITS:
        return DeleteVhostLimits(vhost)
    if component == OPERATOR_POLICY:
        return DeletePolicy(OPERATOR_POLICY, vhost, name)
    return DeleteParameter(component, vhost, name)


def _similar(vhost: VirtualHost, source: Exchange, item: Item) -> Binding | None:
    """The binding whose arguments a client has declared with other types than JSON has."""
    is_queue = item["destination_type"] == QUEUE
    destination = (vhost.queues if is_queue else vhost.exchanges).get(item["destination"])
    if destination is None:
        return None
    bindings = destination.incoming if isinstance(destination, Exchange) else destination.bindings
    for binding in bindings.values():
        if (
            binding.source is source
            and binding.routing_key == item["routing_key"]
            and table_to_json(binding.arguments) == item["arguments"]
        ):
            return binding
    return None


def _delays(exchange: Exchange) -> bool:
    return exchange.delayed is not None and exchange.delayed.count > 0


def _keeping(vhost: VirtualHost) -> str:
    if vhost.queues:
        return HAS_QUEUES
    return HAS_MESSAGES if any(map(_delays, vhost.exchanges.values())) else ""


def _held_by(queue: QueueClient, length: QueueLength | None) -> str:
    if length is None:
        return IS_SILENT
    if length.ready_count or queue.figures.counts().messages:
        return HAS_MESSAGES
    return HAS_CONSUMERS if length.consumer_count else ""


async def _lengths(queues: Sequence[QueueClient]) -> dict[QueueClient, QueueLength | None]:
    """The lengths of queues; None for those whose nodes do not answer."""
    answers = {queue: _asked(queue) for queue in queues}
    at_once = [queue for queue, answer in answers.items() if answer.is_given]
    waiting = [given_in_task(answer) for answer in answers.values() if not answer.is_given]
    if waiting:
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                await asyncio.gather(*waiting, return_exceptions=True)
        # The other queues may have changed since.
        answers |= {queue: _asked(queue) for queue in at_once}
    return {queue: _result(answer) for queue, answer in answers.items()}


def _asked(queue: QueueClient) -> Answer[QueueLength]:
    answer: Answer[QueueLength] = Answer()
    queue.length(answer)
    return answer


def _result(answer: Answer[QueueLength]) -> QueueLength | None:
    if not answer.is_given:
        return None
    try:
        return answer.result()
    except Exception:
        # Its home is down, or the queue has gone: it is looked at again at the next sync.
        return None
