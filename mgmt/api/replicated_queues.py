"""Replicated queues: synchronising mirrors, placing leaders, and nodes that must not stop."""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Iterable, Set
from typing import Any, NamedTuple

from leveret.broker.amqp.errors import ConnectionFault, Fault
from leveret.broker.amqp.json_form import text
from leveret.broker.declarations.requester import THE_NODE
from leveret.broker.queues.contract.queue_kind import CLASSIC, QUORUM, STREAM
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.patterns import Pattern, compile_pattern
from leveret.broker.runtime.pending_in_task import given_in_task, in_task
from leveret.cluster.placement.rebalancing import RebalancedQueue, rebalancing
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.conversion import CONVERT, convert
from leveret.mgmt.api.errors import ApiError, bad_request, conflict, not_found
from leveret.mgmt.api.health import OK, failed
from leveret.mgmt.api.other_nodes import ask_others
from leveret.mgmt.api.routes import Answerer, NoContent, route
from leveret.mgmt.node_facade.facts import Place, PlacedQueue
from leveret.mgmt.views.raft import peeked_message
from leveret.storage.metadata.metadata import MetadataError

SYNC, CANCEL_SYNC, TRANSFER = "sync", "cancel_sync", "transfer_leader"
MOVED_SECONDS_MAX, MOVED_POLL_SECONDS = 5.0, 0.02
ALL_KINDS = "all"
KINDS = (ALL_KINDS, CLASSIC, QUORUM, STREAM)

logger = logging.getLogger("leveret.cluster")


@route("POST", "/queues/{vhost}/{queue}/actions", answered_by=Answerer.HOME_OF_QUEUE)
async def act_on_queue(call: Call) -> Any:
    """Bring a queue's mirrors what they lack, or stop that; have another node lead the queue; or
    make a classic queue a quorum queue, or a quorum queue a classic one.

    A queue without mirrors ignores the first two.
    """
    vhost, queue = call.vhost(), call.path("queue")
    if call.facade.placed_queue(vhost, queue) is None:
        raise not_found()
    call.require_policymaker(vhost)
    body = await call.body("action")
    action = body["action"]
    if action != TRANSFER:
        queue = call.queue(vhost)
    if action == CONVERT:
        return await convert(call, vhost, queue, str(body.get("to", QUORUM)))
    if action == TRANSFER:
        return await _transfer(call, vhost, queue, body)
    if action not in (SYNC, CANCEL_SYNC):
        raise bad_request(["unknown", action])
    if call.facade.can_synchronise(vhost, queue):
        what = "Synchronising" if action == SYNC else "Stopping synchronising"
        said = f"{what} {resource(QUEUE, queue, vhost)}"
        await call.note(f"queue.{action}", QUEUE, queue, said, vhost)
        call.facade.synchronise(vhost, queue, action == SYNC)
    return NoContent()


async def _transfer(call: Call, vhost: str, queue: str, body: dict[str, Any]) -> Any:
    """Have another node lead a queue, and wait until it does."""
    node, what = str(body.get("node", "")), resource(QUEUE, queue, vhost)
    found = call.facade.placed_queue(vhost, queue)
    if found is None or found.members is None:
        raise bad_request(f"{what} is not replicated")
    if node not in found.members.nodes:
        raise bad_request(f"{what} has no member on node {node!r}")
    if node not in found.members.online:
        raise conflict(f"node {node} does not run")
    cluster = call.node.cluster
    if cluster is not None and node in cluster.states.under_maintenance:
        raise conflict(f"node {node} is under maintenance: revive it, so that it may lead queues")
    said = f"Transferring the leader of {what} to node {node}"
    await call.note("queue.leader_transferred", QUEUE, queue, said, vhost, {"node": node})
    if found.node != node:
        await _promote(call, found, node)
    if not await _are_led(call, {(vhost, queue): node}):
        raise conflict(f"node {node} does not lead {what}: it may lack messages of it")
    return NoContent()


async def _are_led(call: Call, moved: dict[Place, str]) -> bool:
    """Wait until each queue is led by the node that it was moved to; whether all are, in time."""
    deadline = asyncio.get_running_loop().time() + MOVED_SECONDS_MAX
    while moved := {
        place: node for place, node in moved.items() if not call.facade.is_led_by(*place, node)
    }:
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(MOVED_POLL_SECONDS)
    return True


# Members of quorum queues


@route("GET", "/queues/{vhost}/{queue}/peek/{position}", answered_by=Answerer.HOME_OF_QUEUE)
async def peek(call: Call) -> Any:
    """The message at a position of a quorum queue, counted from 1: as `rabbitmq-queues peek`."""
    vhost = call.vhost()
    queue = call.queue(vhost)
    _require_quorum_queue(call, vhost, queue)
    position = call.path("position")
    if not position.isdigit():
        raise bad_request(f"the position must be a positive integer, and is {position!r}")
    await call.note(
        "message.peeked", QUEUE, queue,
        f"Peeking at position {position} of {resource(QUEUE, queue, vhost)}", vhost,
    )  # fmt: skip
    try:
        peeked = await given_in_task(call.facade.peek(vhost, queue, int(position)))
    except ConnectionFault as fault:
        raise ApiError(500, "internal_error", fault.reply_text) from None
    if peeked is None:
        raise ApiError(404, "no_message_at_pos", "no message at that position")
    return peeked_message(peeked)


@route("POST", "/queues/{vhost}/{queue}/reclaim")
async def reclaim(call: Call) -> Any:
    """Have all members of a quorum queue free what a snapshot makes superfluous."""
    call.require_administrator()
    vhost = call.vhost()
    queue = call.queue(vhost)
    _require_quorum_queue(call, vhost, queue)
    await given_in_task(call.facade.reclaim(vhost, queue))
    await ask_others(call)
    return NoContent()


def _require_quorum_queue(call: Call, vhost: str, queue: str) -> None:
    declared = call.facade.declared_queue(vhost, queue)
    if declared is None:
        raise not_found()
    if declared.kind != QUORUM:
        raise ApiError(
            400, "classic_queue_not_supported",
            f"{resource(QUEUE, queue, vhost)} is not a quorum queue",
        )  # fmt: skip


@route("GET", "/health/checks/new-quorum-queue-replicas", answers_at_once=True)
async def check_new_members(call: Call) -> Any:
    """Check that no new member of this node still lacks messages."""
    reason = "There are new members of quorum queues that lack messages"
    return await _none(call, call.facade.queues_catching_up(), reason)


# Where queues are led


@route("POST", "/rebalance/queues")
async def rebalance(call: Call) -> Any:
    """Spread the leaders of all queues over the nodes, without waiting for the end."""
    call.require_administrator()
    await call.note(*_told(call, ALL_KINDS))
    _begin(call, WantedQueues(ALL_KINDS))
    return NoContent()


@route("POST", "/node/rebalance-queues", control_only=True)
async def rebalance_chosen(call: Call) -> Any:
    """Spread the leaders of some queues, and show how many of them each node leads then."""
    body = await call.body("type")
    kind = body["type"]
    if kind not in KINDS:
        raise bad_request(f"type must be one of {', '.join(KINDS)}, and is {kind!r}")
    patterns = [pattern_of(body, name) for name in ("vhost_pattern", "queue_pattern")]
    wanted = WantedQueues(kind, *patterns)
    await call.note(*_told(call, kind))
    await _begin(call, wanted)
    return await _led(call, wanted)


def _told(call: Call, kind: str) -> tuple[str, str, str, str]:
    """The audit's record of a body."""
    said = f"Rebalancing the leaders of {kind} queues"
    return "queues.rebalanced", "node", call.node.name, said


def pattern_of(body: dict[str, Any], name: str) -> Pattern | None:
    """A regular expression of a body; None if there is none. Raises 400."""
    value = body.get(name)
    if value is None:
        return None
    try:
        return compile_pattern(str(value))
    except re.error as error:
        raise bad_request(f"{name} is not a regular expression: {error}") from None


class WantedQueues(NamedTuple):
    """Queues of a type, or of all, whose names match."""

    kind: str
    vhost_pattern: Pattern | None = None
    queue_pattern: Pattern | None = None

    def has(self, queue: PlacedQueue) -> bool:
        """Whether a queue is selected."""
        return (
            self.kind in (ALL_KINDS, queue.kind)
            and (self.vhost_pattern is None or self.vhost_pattern.matches(queue.vhost))
            and (self.queue_pattern is None or self.queue_pattern.matches(queue.name))
        )


async def _found(call: Call, wanted: WantedQueues) -> list[PlacedQueue]:
    """The replicated queues that are selected, and led by a node."""
    found = []
    for queue in call.facade.placements():
        is_led = queue.members is not None and queue.members.leader == queue.node
        if is_led and wanted.has(queue):
            found.append(queue)
        await call.node.give_way()
    return found


def _begin(call: Call, wanted: WantedQueues) -> asyncio.Task[None]:
    """Rebalance queues in a task. Raises 409 if the node does so already."""
    before = call.node.rebalancing
    if before is not None and not before.done():
        raise conflict("this node is rebalancing queues already: wait for its end")
    task = asyncio.get_running_loop().create_task(_rebalance(call, wanted))
    call.node.rebalancing = task
    return task


async def _rebalance(call: Call, wanted: WantedQueues) -> None:
    cluster = call.node.cluster
    if cluster is None:
        return
    running = set(cluster.running) - cluster.states.under_maintenance
    found = await _found(call, wanted)
    queues = [RebalancedQueue(one.node, _able(one, running)) for one in found]
    moved: dict[Place, str] = {}
    for place, node in rebalancing(queues):
        queue = found[place]
        await _promote(call, queue, node)
        moved[queue.vhost, queue.name] = node
        await call.node.give_way()
    await _are_led(call, moved)


def _able(queue: PlacedQueue, running: Set[str]) -> tuple[str, ...]:
    """The other nodes that can lead a queue now."""
    synchronised = () if queue.members is None else queue.members.synchronised
    return tuple(node for node in synchronised if node != queue.node and node in running)


async def _promote(call: Call, queue: PlacedQueue, node: str) -> None:
    """Have a node lead a queue, unless another one leads it since it was found."""
    declaration = call.facade.promotion(queue.vhost, queue.name, queue.node, node)
    if declaration is None:
        return
    what = resource(QUEUE, queue.name, queue.vhost)
    logger.info("%s is led by %s instead of %s", what, node, queue.node)
    try:
        await in_task(call.facade.submit(declaration, requester=THE_NODE))
    except (Fault, MetadataError, ValueError) as error:
        logger.warning("%s stays where it is: %s", what, error)


async def _led(call: Call, wanted: WantedQueues) -> list[dict[str, Any]]:
    """How many of the queues each node leads; nodes without any are left out."""
    found = await _found(call, wanted)
    counts = Counter((one.node, one.kind) for one in found)
    nodes = sorted({node for node, _ in counts}, reverse=True)
    return [
        {
            "node": node or call.node.name,
            "quorum": counts[node, QUORUM],
            "classic": counts[node, CLASSIC],
        }
        for node in nodes
    ]


# Nodes that must not stop


@route("GET", "/health/checks/node-is-mirror-sync-critical", answers_at_once=True)
async def check_mirrors(call: Call) -> Any:
    """Check that each mirrored queue that is led here has a synchronised mirror that runs."""
    return await _needed(
        call, CLASSIC, "There are classic mirrored queues without online synchronised mirrors"
    )


@route("GET", "/health/checks/node-is-quorum-critical", answers_at_once=True)
async def check_quorums(call: Call) -> Any:
    """Check that no quorum queue would lose its quorum without this node."""
    return await _needed(
        call, QUORUM,
        "There are quorum queues that would lose their quorum if the target node is shut down",
    )  # fmt: skip


async def _needed(call: Call, kind: str, reason: str) -> Any:
    """Fail with the queues of a kind that need this node, unless it is the only one there is."""
    cluster = call.node.cluster
    if cluster is None or len(cluster.members) == 1:
        return {**OK, "reason": "single node cluster"}
    needed = call.facade.queues_that_need(call.node.name, kind, set(cluster.running))
    return await _none(call, needed, reason)


async def _none(call: Call, found: Iterable[PlacedQueue | None], reason: str) -> Any:
    """Fail if queues were found. reason: what is wrong with them."""
    queues = []
    for queue in found:
        if queue is not None:
            queues.append(_critical(queue))
        await call.node.give_way()
    return failed(reason, queues=queues) if queues else OK


def _critical(queue: PlacedQueue) -> dict[str, str]:
    return {
        "name": text(queue.name),
        "readable_name": text(resource(QUEUE, queue.name, queue.vhost)),
        "type": queue.kind,
        "virtual_host": text(queue.vhost),
    }
