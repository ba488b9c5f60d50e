"""The deletion of items that the upstream lacks, and the reasons to keep one.

A queue is kept while it holds messages or has consumers, an exchange while messages wait in it, and
a vhost while it has any queue. Queues of this node are checked in the turn of the event loop in
which the deletion is submitted: on a single node nothing can happen in between. Queues of other
nodes are checked just before; as with queue.delete with if-empty, messages that are published to
them before the deletion is ordered are deleted with them.
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
from leveret.broker.queues.contract.queue_client import QueueLength
from leveret.broker.runtime.names import QUEUE
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.pending_in_task import given_in_task
from leveret.mgmt.definitions.contents import Item
from leveret.mgmt.node_facade.facade import NodeFacade
from leveret.mgmt.node_facade.facts import BindingFacts, Place
from leveret.mgmt.standby.comparing import ComparedItem

ANSWER_SECONDS_MAX = 15.0
"""The time limit for the length of a queue on another node; without an answer the queue is kept."""
HAS_MESSAGES, HAS_CONSUMERS = "has messages", "has consumers"
HAS_QUEUES, IS_SILENT = "has queues", "its node does not answer"


class Deletions:
    """Makes the declarations that delete items."""

    def __init__(self, node: NodeFacade) -> None:
        self._node = node

    async def kept(self, items: Sequence[ComparedItem]) -> list[str]:
        """The reason why each of the items is kept; empty for those that may be deleted now."""
        reasons = [self._kept(one) for one in items]
        queues = [self._queue(one.item) if one.kind == "queues" else None for one in items]
        lengths = await self._lengths([queue for queue in queues if queue is not None])
        return [
            reason if queue is None else self._held_by(queue, lengths[queue])
            for reason, queue in zip(reasons, queues, strict=True)
        ]

    def _kept(self, one: ComparedItem) -> str:
        if one.kind == "exchanges":
            exchange = self._node.exchange(one.item["vhost"], one.item["name"])
            return HAS_MESSAGES if exchange is not None and exchange.messages_delayed else ""
        return self._keeping(one.item["name"]) if one.kind == "vhosts" else ""

    def _keeping(self, vhost: str) -> str:
        if self._node.queue_names(vhost):
            return HAS_QUEUES
        delaying = any(one.messages_delayed for one in self._node.exchanges(vhost))
        return HAS_MESSAGES if delaying else ""

    def _queue(self, item: Item) -> Place | None:
        place = item["vhost"], item["name"]
        return place if self._node.has_queue(*place) else None

    async def _lengths(self, queues: Sequence[Place]) -> dict[Place, QueueLength | None]:
        """The lengths of queues; None for those whose nodes do not answer."""
        answers = {queue: self._node.length(*queue) for queue in queues}
        at_once = [queue for queue, one in answers.items() if one is None or one.is_given]
        waiting = [
            given_in_task(one) for one in answers.values() if one is not None and not one.is_given
        ]
        if waiting:
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_SECONDS_MAX):
                    await asyncio.gather(*waiting, return_exceptions=True)
            # The other queues may have changed since.
            answers |= {queue: self._node.length(*queue) for queue in at_once}
        return {queue: _result(answer) for queue, answer in answers.items()}

    def _held_by(self, queue: Place, length: QueueLength | None) -> str:
        if length is None:
            return IS_SILENT
        if length.ready_count or self._node.queue_counts(queue).messages:
            return HAS_MESSAGES
        return HAS_CONSUMERS if length.consumer_count else ""

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
        place = item["vhost"], item["name"]
        if kind == "queues":
            return (DeleteQueue(*place),) if self._node.has_queue(*place) else ()
        return (DeleteExchange(*place),) if self._node.has_exchange(*place) else ()

    def _deleted_binding(self, item: Item) -> Iterable[Declaration]:
        wanted = BindingFacts(
            item["vhost"], item["source"], item["destination_type"], item["destination"],
            item["routing_key"], json_to_table(item["arguments"]),
        )  # fmt: skip
        found = wanted if self._node.has_binding(wanted) else self._similar(wanted, item)
        if found is None:
            return ()
        return (
            DeleteBinding(
                found.vhost, found.source, found.destination, found.routing_key,
                found.destination_kind, encode_table(found.arguments),
            ),
        )  # fmt: skip

    def _similar(self, wanted: BindingFacts, item: Item) -> BindingFacts | None:
        """The binding whose arguments a client has declared with types that JSON does not have."""
        node, place = self._node, (wanted.vhost, wanted.destination)
        is_to_queue = wanted.destination_kind == QUEUE
        bindings = (
            node.bindings_to_queue(*place) if is_to_queue else node.bindings_to_exchange(*place)
        )
        for one in bindings:
            if one[:-1] == wanted[:-1] and table_to_json(one.arguments) == item["arguments"]:
                return one
        return None


def _deleted_parameter(item: Item) -> Declaration:
    component, vhost, name = item["component"], item["vhost"], item["name"]
    if component == VHOST_LIMITS:
        return DeleteVhostLimits(vhost)
    if component == OPERATOR_POLICY:
        return DeletePolicy(OPERATOR_POLICY, vhost, name)
    return DeleteParameter(component, vhost, name)


def _result(answer: Answer[QueueLength] | None) -> QueueLength | None:
    if answer is None or not answer.is_given:
        return None
    try:
        return answer.result()
    except Exception:
        # Its home is down, or the queue is gone: the next sync checks it again.
        return None
