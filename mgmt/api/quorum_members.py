"""Members of quorum queues: adding and removing them, as RabbitMQ 4 has it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import starmap
from typing import Any, NamedTuple

from aiohttp import web

from leveret.broker.queues.contract.queue_kind import QUORUM
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.patterns import Pattern
from leveret.cluster.quorum.queue_groups.quorum_queues import QuorumQueues
from leveret.cluster.replicated_queues.membership import ChangeRefused, QueueMembership
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import ApiError, bad_request, not_found
from leveret.mgmt.api.replicated_queues import pattern_of
from leveret.mgmt.api.routes import NoContent, route
from leveret.mgmt.node_facade.facts import PlacedQueue

VOTER, PROMOTABLE, NON_VOTER = "voter", "promotable", "non_voter"
MEMBERSHIPS = (PROMOTABLE, VOTER, NON_VOTER)
ALL, EVEN = "all", "even"
AT_ONCE = 64
"""How many queues are changed at a time (RabbitMQ: quorum_queue_shrink_batch_size)."""


class Changed(NamedTuple):
    """What became of one queue. size: how many members it has. error: empty if it was changed."""

    vhost: str
    name: str
    size: int
    error: str = ""


@route("POST", "/queues/quorum/{vhost}/{queue}/replicas/add")
async def add_member(call: Call) -> Any:
    """Give a quorum queue a member on another node."""
    members, vhost, name = _queue(call)
    body = await call.body("node")
    node, is_voter = str(body["node"]), _is_voter(body)
    text = f"Adding a member of {resource(QUEUE, name, vhost)} on node {node}"
    await call.note("queue.member.added", QUEUE, name, text, vhost, {"node": node})
    await _made(members.add(vhost, name, node, is_voter=is_voter))
    return NoContent()


@route("DELETE", "/queues/quorum/{vhost}/{queue}/replicas/delete")
async def delete_member(call: Call) -> Any:
    """Remove the member of a quorum queue on a node."""
    members, vhost, name = _queue(call)
    body = await call.body("node")
    node = str(body["node"])
    text = f"Removing the member of {resource(QUEUE, name, vhost)} on node {node}"
    await call.note("queue.member.removed", QUEUE, name, text, vhost, {"node": node})
    await _made(members.remove(vhost, name, node))
    return web.Response(status=202)


def _require_allowed(call: Call) -> None:
    """Raise 401 or 405 for a client that may not change members. leveretctl always may."""
    call.require_administrator()
    if call.request.remote and call.node.config.management.keeps_quorum_members:
        text = "Broker settings disallow quorum queue replica operations."
        raise ApiError(405, "method_not_allowed", text)


def _queue(call: Call) -> tuple[QueueMembership, str, str]:
    """The members of queues, and the vhost and the name of the queue in the path."""
    _require_allowed(call)
    vhost, name = call.vhost(), call.path("queue")
    queue = call.facade.placed_queue(vhost, name)
    if queue is None:
        raise not_found()
    if queue.kind != QUORUM:
        raise _unavailable(f"Cannot add members to a {queue.kind} queue")
    return _members(call), vhost, name


def _members(call: Call) -> QueueMembership:
    cluster = call.node.cluster
    queues = None if cluster is None else cluster.kinds.find(QuorumQueues)
    if queues is None:
        raise _unavailable("the quorum queues of this node have one member: it is in no cluster")
    return queues.membership


def _is_voter(body: dict[str, Any]) -> bool:
    membership = body.get("membership", PROMOTABLE)
    if membership not in MEMBERSHIPS:
        raise bad_request(f"voter status '{membership}' is not recognised.")
    return bool(membership != NON_VOTER)


async def _made(change: Awaitable[int]) -> None:
    try:
        await change
    except ChangeRefused as error:
        raise _unavailable(str(error)) from None


def _unavailable(reason: str) -> ApiError:
    return ApiError(503, "service_unavailable", reason)


# Many queues


@route("POST", "/queues/quorum/replicas/on/{node}/grow")
async def grow(call: Call) -> Any:
    """Give all quorum queues, or those that match, a member on a node."""
    _require_allowed(call)
    body = await call.body("vhost_pattern", "queue_pattern", "strategy")
    await _grow(call, call.path("node"), body)
    return NoContent()


@route("DELETE", "/queues/quorum/replicas/on/{node}/shrink")
async def shrink(call: Call) -> Any:
    """Remove the members of all quorum queues from a node."""
    _require_allowed(call)
    await _shrink(call, call.path("node"))
    return web.Response(status=202)


@route("POST", "/node/grow-quorum-queues", control_only=True)
async def grow_chosen(call: Call) -> Any:
    """The same as `grow`, with what became of each queue."""
    body = await call.body("node", "strategy")
    return [one._asdict() for one in await _grow(call, str(body["node"]), body)]


@route("POST", "/node/shrink-quorum-queues", control_only=True)
async def shrink_chosen(call: Call) -> Any:
    """The same as `shrink`, with what became of each queue."""
    body = await call.body("node")
    return [one._asdict() for one in await _shrink(call, str(body["node"]))]


@route("POST", "/node/force-shrink-quorum-queues", control_only=True)
async def force_shrink(call: Call) -> Any:
    """Recover queues without a leader from the members of this node; the others are given up."""
    body = await call.body()
    members = _members(call)
    chosen = members.queues_without_leader()
    if not body.get("all"):
        if body.get("vhost") is None or body.get("name") is None:
            raise bad_request("the body must have vhost and name, or all")
        chosen = [(str(body["vhost"]), str(body["name"]))]
    await call.note(
        "queues.recovered", "node", call.node.name,
        f"Recovering {len(chosen)} quorum queues from their members on this node alone",
    )  # fmt: skip

    async def recovered(vhost: str, name: str) -> dict[str, Any]:
        try:
            await members.keep_only(vhost, name)
        except ChangeRefused as error:
            return {"vhost": vhost, "name": name, "error": str(error)}
        return {"vhost": vhost, "name": name, "error": ""}

    done: list[dict[str, Any]] = []
    for first in range(0, len(chosen), AT_ONCE):
        done += await asyncio.gather(*starmap(recovered, chosen[first : first + AT_ONCE]))
    return done


async def _grow(call: Call, node: str, body: dict[str, Any]) -> list[Changed]:
    members, is_voter, strategy = _members(call), _is_voter(body), body["strategy"]
    if strategy not in (ALL, EVEN):
        raise bad_request(f"strategy '{strategy}' is not recognised.")
    _require_member(call, node)
    patterns = [pattern_of(body, key) for key in ("vhost_pattern", "queue_pattern")]
    text = f"Growing {strategy} quorum queues on node {node}"
    await call.note("queues.grown", "node", node, text)
    chosen = [
        queue
        async for queue in _quorum_queues(call, *patterns)
        if node not in _nodes(queue) and (strategy == ALL or len(_nodes(queue)) % 2 == 0)
    ]

    def add(queue: PlacedQueue) -> Awaitable[int]:
        return members.add(queue.vhost, queue.name, node, is_voter=is_voter)

    return await _each(chosen, add)


async def _shrink(call: Call, node: str) -> list[Changed]:
    members = _members(call)
    _require_member(call, node)
    await call.note("queues.shrunk", "node", node, f"Shrinking quorum queues on node {node}")
    chosen = [queue async for queue in _quorum_queues(call) if node in _nodes(queue)]

    def remove(queue: PlacedQueue) -> Awaitable[int]:
        return members.remove(queue.vhost, queue.name, node)

    return await _each(chosen, remove)


def _require_member(call: Call, node: str) -> None:
    cluster = call.node.cluster
    if cluster is None or node not in cluster.members:
        raise not_found(f"node {node} is not a member of this cluster")


async def _quorum_queues(
    call: Call, vhost_pattern: Pattern | None = None, queue_pattern: Pattern | None = None
) -> AsyncIterator[PlacedQueue]:
    for queue in call.facade.placements():
        if (
            queue.kind == QUORUM
            and (vhost_pattern is None or vhost_pattern.matches(queue.vhost))
            and (queue_pattern is None or queue_pattern.matches(queue.name))
        ):
            yield queue
        await call.node.give_way()


def _nodes(queue: PlacedQueue) -> tuple[str, ...]:
    return () if queue.members is None else queue.members.nodes


async def _each(
    queues: list[PlacedQueue], change: Callable[[PlacedQueue], Awaitable[int]]
) -> list[Changed]:
    """Change queues, some at a time."""

    async def changed(queue: PlacedQueue) -> Changed:
        try:
            return Changed(queue.vhost, queue.name, await change(queue))
        except ChangeRefused as error:
            return Changed(queue.vhost, queue.name, len(_nodes(queue)), str(error))

    done: list[Changed] = []
    for first in range(0, len(queues), AT_ONCE):
        done += await asyncio.gather(*map(changed, queues[first : first + AT_ONCE]))
    return done
