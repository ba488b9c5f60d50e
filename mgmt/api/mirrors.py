"""Mirrored queues: synchronising mirrors, placing leaders, and nodes that must not stop."""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from leveret.broker.amqp.errors import Fault
from leveret.broker.amqp.json_form import text
from leveret.broker.declarations.values import ChangePlacement
from leveret.broker.policies.policy_table import merged
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_kind import CLASSIC, QUORUM
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.patterns import Pattern, compile_pattern
from leveret.broker.runtime.pending_in_task import in_task
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.mirrors.mirror_record import MirrorRecord
from leveret.cluster.mirrors.mirrored_factory import may_be_mirrored
from leveret.cluster.mirrors.planning import LedQueue, read_mirroring, rebalancing
from leveret.cluster.mirrors.record_changes import Promote, encode
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import bad_request, conflict
from leveret.mgmt.api.health import OK, failed
from leveret.mgmt.api.routes import Answerer, NoContent, route
from leveret.mgmt.views.mirrors import record_of
from leveret.storage.metadata.metadata import MetadataError

SYNC, CANCEL_SYNC = "sync", "cancel_sync"
ALL_KINDS = "all"
KINDS = (ALL_KINDS, CLASSIC, QUORUM, "stream")

IsCritical = Callable[[VirtualHost, QueueClient, set[str]], bool]
"""Whether a queue that this node has needs it. The last argument: the nodes that run."""

logger = logging.getLogger("leveret.cluster")


@route("POST", "/queues/{vhost}/{queue}/actions", answered_by=Answerer.HOME_OF_QUEUE)
async def act_on_queue(call: Call) -> Any:
    """Bring a queue's mirrors what they lack, or stop that. A queue without mirrors ignores it."""
    vhost = call.broker.services.vhosts[call.vhost()]
    queue = vhost.queues[call.queue(vhost.name)]
    call.require_policymaker(vhost.name)
    body = await call.body("action")
    action = body["action"]
    if action not in (SYNC, CANCEL_SYNC):
        raise bad_request(["unknown", action])
    record = record_of(vhost, queue)
    replica = None if record is None else call.node.replicas.get(record.group.identity)
    if replica is not None and replica.leading is not None:
        what = "Synchronising" if action == SYNC else "Stopping synchronising"
        said = f"{what} {resource(QUEUE, queue.name, vhost.name)}"
        await call.note(f"queue.{action}", QUEUE, queue.name, said, vhost.name)
        synchronising = replica.leading.synchronising
        if action == SYNC:
            synchronising.start()
        else:
            synchronising.cancel()
    return NoContent()


# Where queues are led


@route("POST", "/rebalance/queues")
async def rebalance(call: Call) -> Any:
    """Spread the leaders of all queues over the nodes, without waiting for the end."""
    call.require_administrator()
    await call.note(*_told(call, ALL_KINDS))
    _begin(call, Wanted(ALL_KINDS))
    return NoContent()


@route("POST", "/node/rebalance-queues", control_only=True)
async def rebalance_chosen(call: Call) -> Any:
    """Spread the leaders of some queues, and show how many of them each node leads then."""
    body = await call.body("type")
    kind = body["type"]
    if kind not in KINDS:
        raise bad_request(f"type must be one of {', '.join(KINDS)}, and is {kind!r}")
    patterns = [_pattern(body, name) for name in ("vhost_pattern", "queue_pattern")]
    wanted = Wanted(kind, *patterns)
    await call.note(*_told(call, kind))
    await _begin(call, wanted)
    return await _led(call, wanted)


def _told(call: Call, kind: str) -> tuple[str, str, str, str]:
    """The audit's record of a body."""
    said = f"Rebalancing the leaders of {kind} queues"
    return "queues.rebalanced", "node", call.node.name, said


def _pattern(body: dict[str, Any], name: str) -> Pattern | None:
    """A regular expression of a body; None if there is none. Raises 400."""
    value = body.get(name)
    if value is None:
        return None
    try:
        return compile_pattern(str(value))
    except re.error as error:
        raise bad_request(f"{name} is not a regular expression: {error}") from None


class Wanted(NamedTuple):
    """Queues of a type, or of all, whose names match."""

    kind: str
    vhost_pattern: Pattern | None = None
    queue_pattern: Pattern | None = None

    def has(self, vhost: str, queue: QueueClient) -> bool:
        """Whether a queue is selected."""
        return (
            self.kind in (ALL_KINDS, queue.kind.name)
            and (self.vhost_pattern is None or self.vhost_pattern.matches(vhost))
            and (self.queue_pattern is None or self.queue_pattern.matches(queue.name))
        )


class Found(NamedTuple):
    """A replicated queue that is led. record: None for a quorum queue."""

    vhost: VirtualHost
    queue: QueueClient
    record: MirrorRecord | None


async def _found(call: Call, wanted: Wanted) -> list[Found]:
    found = []
    for vhost, queue in _queues(call):
        record = record_of(vhost, queue)
        is_led = record is not None and record.leader is not None
        if (is_led or queue.kind.name == QUORUM) and wanted.has(vhost.name, queue):
            found.append(Found(vhost, queue, record))
        await call.node.give_way()
    return found


def _queues(call: Call) -> list[tuple[VirtualHost, QueueClient]]:
    vhosts = call.broker.services.vhosts.values()
    return [(vhost, queue) for vhost in vhosts for queue in vhost.queues.values()]


def _begin(call: Call, wanted: Wanted) -> asyncio.Task[None]:
    """Rebalance queues in a task. Raises 409 if the node does so already."""
    before = call.node.rebalancing
    if before is not None and not before.done():
        raise conflict("this node is rebalancing queues already: wait for its end")
    task = asyncio.get_running_loop().create_task(_rebalance(call, wanted))
    call.node.rebalancing = task
    return task


async def _rebalance(call: Call, wanted: Wanted) -> None:
    cluster = call.node.cluster
    if cluster is None:
        return
    running = set(cluster.running) - cluster.states.under_maintenance
    found = [one for one in await _found(call, wanted) if one.record is not None]
    queues = [LedQueue(one.queue.placement.node, _able(one.record, running)) for one in found]
    for place, node in rebalancing(queues):
        await _promote(call, found[place], node)
        await call.node.give_way()


def _able(record: MirrorRecord | None, running: set[str]) -> tuple[str, ...]:
    """The nodes that can lead a queue now."""
    mirrors = () if record is None else record.mirrors
    return tuple(one.id.node for one in mirrors if one.is_synchronised and one.id.node in running)


async def _promote(call: Call, found: Found, node: str) -> None:
    """Make a node's mirror the leader of a queue. Refused if the queue has changed since."""
    vhost, queue, record = found
    what = resource(QUEUE, queue.name, vhost.name)
    assert record is not None, "a mirrored queue is chosen"
    assert record.leader is not None, "one that is led"
    mirror = record.on(node)
    assert mirror is not None, "a mirror is chosen"
    change = encode(Promote(mirror.id, record.leader))
    declaration = ChangePlacement(vhost.name, queue.name, queue.placement.identity, change)
    logger.info("%s is led by %s instead of %s", what, node, queue.placement.node)
    try:
        await in_task(call.broker.services.declarations.submit(declaration))
    except (Fault, MetadataError, ValueError) as error:
        logger.warning("%s stays where it is: %s", what, error)


async def _led(call: Call, wanted: Wanted) -> list[dict[str, Any]]:
    """How many of the queues each node leads; nodes without any are left out."""
    found = await _found(call, wanted)
    counts = Counter((one.queue.placement.node, one.queue.kind.name) for one in found)
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
        call, _needs_its_leader,
        "There are classic mirrored queues without online synchronised mirrors",
    )  # fmt: skip


@route("GET", "/health/checks/node-is-quorum-critical", answers_at_once=True)
async def check_quorums(call: Call) -> Any:
    """Check that no quorum queue would lose its quorum without this node."""
    return await _needed(
        call, _needs_its_member,
        "There are quorum queues that would lose their quorum if the target node is shut down",
    )  # fmt: skip


async def _needed(call: Call, is_critical: IsCritical, reason: str) -> Any:
    """Fail with the queues of this node that need it, unless it is the only one there is."""
    cluster = call.node.cluster
    if cluster is None or len(cluster.members) == 1:
        return {**OK, "reason": "single node cluster"}
    running = set(cluster.running)
    queues = []
    for vhost, queue in _queues(call):
        if queue.placement.node == call.node.name and is_critical(vhost, queue, running):
            queues.append(_critical(vhost.name, queue))
        await call.node.give_way()
    return failed(reason, queues=queues) if queues else OK


def _needs_its_member(_vhost: VirtualHost, queue: QueueClient, _running: set[str]) -> bool:
    """Whether a queue has its quorum on this node: a quorum queue has one member."""
    return queue.kind.name == QUORUM


def _needs_its_leader(vhost: VirtualHost, queue: QueueClient, running: set[str]) -> bool:
    """Whether a queue would lose messages, or be down, without its leader."""
    record = record_of(vhost, queue)
    if record is None:
        wanted = read_mirroring(merged(queue.policy, queue.operator_policy))
        return bool(wanted.mode) and may_be_mirrored(queue)
    return record.leader is not None and not _able(record, running)


def _critical(vhost: str, queue: QueueClient) -> dict[str, str]:
    return {
        "name": text(queue.name),
        "readable_name": text(resource(QUEUE, queue.name, vhost)),
        "type": queue.kind.name,
        "virtual_host": text(vhost),
    }
