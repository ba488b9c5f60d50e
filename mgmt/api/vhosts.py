"""Vhosts, with the sums over their queues and connections."""

from typing import Any

from leveret.broker.amqp.json_form import text
from leveret.broker.declarations.values import DeleteVhost, PutParameter, PutVhost
from leveret.broker.erlang.terms import format_term
from leveret.broker.policies.parameters import (
    DEFAULT_QUEUE_TYPE,
    UNROUTABLE_HANDLINGS,
    UNROUTABLE_PUBLISHES,
    VHOST_METADATA,
)
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.directly import truth_of
from leveret.mgmt.api.errors import bad_request, not_found
from leveret.mgmt.api.joint_listing import SummedListing, summed
from leveret.mgmt.api.listing import Listing
from leveret.mgmt.api.routes import Answerer, Created, NoContent, route
from leveret.mgmt.api.windows import both
from leveret.mgmt.node_facade.facts import VhostFacts
from leveret.mgmt.statistics.sampler import CONNECTION, LENGTHS, MESSAGES, QueueSums, sums_of
from leveret.mgmt.statistics.series import SampleWindow

QUEUE_TYPES = ("classic", "quorum", "stream")
COUNTED = (*LENGTHS, *CONNECTION)
SUMMED = (
    *COUNTED, *(f"{name}_details" for name in COUNTED), "message_stats", "cluster_state"
)  # fmt: skip
"""The columns of a vhost that are sums over the nodes."""


def vhost_view(call: Call, vhost: VhostFacts, sums: QueueSums) -> dict[str, Any]:
    """A vhost as JSON. sums: over its queues."""
    sampler = call.node.sampler
    message_window, length_window = both(call)
    queue_type = call.facade.parameters.get(VHOST_METADATA, vhost.name, DEFAULT_QUEUE_TYPE)
    tags = [tag for tag in vhost.tags.split(",") if tag]
    view: dict[str, Any] = {
        "name": text(vhost.name),
        "description": text(vhost.description),
        "tags": tags,
        "default_queue_type": queue_type or "undefined",
        "metadata": {"description": text(vhost.description), "tags": tags},
        "tracing": vhost.is_traced,
        "cluster_state": {call.node.name: "running"},
    }
    if queue_type:
        view["metadata"]["default_queue_type"] = queue_type
    unroutable = call.facade.parameters.get(VHOST_METADATA, vhost.name, UNROUTABLE_PUBLISHES)
    if unroutable:
        view["metadata"]["unroutable_publishes"] = unroutable
    _add_lengths(call, vhost, sums, view, length_window)
    _add_bytes(call, vhost, view)
    series = sampler.vhosts.get(vhost.name)
    row = series.last if series is not None else None
    if series is not None and row is not None and any(row):
        stats: dict[str, Any] = {}
        for column, name in enumerate(MESSAGES):
            stats[name] = row[column]
            stats[f"{name}_details"] = series.details(column, sampler.now_ms(), message_window)
        view["message_stats"] = stats
    return view


def _add_lengths(
    call: Call,
    vhost: VhostFacts,
    sums: QueueSums,
    view: dict[str, Any],
    window: SampleWindow | None,
) -> None:
    series = call.node.sampler.vhost_lengths.get(vhost.name)
    numbers = (sums.messages, sums.ready, sums.unacked)
    for column, (name, value) in enumerate(zip(LENGTHS, numbers, strict=True)):
        view[name] = value
        view[f"{name}_details"] = (
            {"rate": 0.0}
            if series is None
            else series.details(column, call.node.sampler.now_ms(), window)
        )


def _add_bytes(call: Call, vhost: VhostFacts, view: dict[str, Any]) -> None:
    """Add the bytes that the connections of the vhost have received and sent, and their rates."""
    sampler = call.node.sampler
    mine = [one for one in call.facade.connections() if one.vhost == vhost.name]
    rows = {one.name: one.traffic[: len(CONNECTION)] for one in mine}
    found = [sampler.objects.connection(name, row) for name, row in rows.items()]
    known = [series for series in found if series is not None]
    for column, name in enumerate(CONNECTION):
        view[name] = sum(row[column] for row in rows.values())
        rate = sum(series.rate(column, sampler.now_ms()) for series in known)
        view[f"{name}_details"] = {"rate": round(rate, 2)}


@route("GET", "/vhosts")
async def list_vhosts(call: Call) -> Any:
    """The vhosts that the user may see."""
    found = [(vhost, await _sums(call, vhost)) for vhost in call.visible_vhosts()]

    def render(pair: tuple[str, QueueSums]) -> dict[str, Any] | None:
        vhost = call.facade.vhost(pair[0])
        return None if vhost is None else vhost_view(call, vhost, pair[1])

    listing: Listing[tuple[str, QueueSums]] = Listing(lambda pair: pair[0], render)
    return await SummedListing(listing, SUMMED).answer(call, found)


async def _sums(call: Call, vhost: str) -> QueueSums:
    return await sums_of(call.facade, [vhost], call.node.give_way)


@route("GET", "/vhosts/{vhost}")
async def show_vhost(call: Call) -> Any:
    """One vhost."""
    call.require_administrator()
    name = call.vhost()
    sums, vhost = await _sums(call, name), call.facade.vhost(name)
    if vhost is None:
        raise not_found()
    return await summed(call, vhost_view(call, vhost, sums), SUMMED)


@route("PUT", "/vhosts/{vhost}")
async def put_vhost(call: Call) -> Any:
    """Add a vhost, or replace its description, tags, default queue type, tracing, and what is done
    with publishes that may be unroutable.
    """
    call.require_administrator()
    name = call.path("vhost")
    body = await call.body()
    description, tags = str(body.get("description") or ""), tags_of(body.get("tags")) or []
    is_traced = truth_of(body["tracing"]) if "tracing" in body else None
    queue_type = body.get("default_queue_type", body.get("defaultqueuetype"))
    if queue_type not in (None, "undefined", *QUEUE_TYPES):
        raise bad_request(f"default_queue_type must be one of {', '.join(QUEUE_TYPES)}")
    unroutable = body.get("unroutable_publishes")
    if unroutable not in (None, *UNROUTABLE_HANDLINGS):
        names = ", ".join(UNROUTABLE_HANDLINGS)
        raise bad_request(f"unroutable_publishes must be one of {names}")
    facade, user = call.facade, call.identity.name
    before = facade.vhost(name)
    is_new = before is None
    put = PutVhost(name, description, ",".join(tags), acting_user=user)
    if is_new:
        await call.declare(*facade.new_vhost(name, description, put.tags, user))
    if is_traced is not None and is_traced != (before is not None and before.is_traced):
        await _set_firehose(call, name, is_traced)
    if not is_new or is_traced:
        await call.declare(put)
    if queue_type in QUEUE_TYPES:
        await call.declare(
            PutParameter(VHOST_METADATA, name, DEFAULT_QUEUE_TYPE, queue_type, acting_user=user)
        )
    if unroutable is not None:
        await call.declare(
            PutParameter(VHOST_METADATA, name, UNROUTABLE_PUBLISHES, unroutable, acting_user=user)
        )
    return Created(is_new)


async def _set_firehose(call: Call, vhost: str, is_traced: bool) -> None:
    doing = "Enabling" if is_traced else "Disabling"
    text = f"{doing} tracing for vhost '{vhost}'"
    await call.note("vhost.tracing.set", "vhost", vhost, text, vhost)
    call.facade.set_firehose(vhost, is_traced)


def tags_of(value: Any) -> list[str] | None:
    """The tags in a list, or in a string with commas. Raises 400 for other values."""
    if value is None:
        return None
    if isinstance(value, str):
        return [tag.strip() for tag in value.split(",") if tag.strip()]
    if isinstance(value, list) and all(isinstance(tag, str) for tag in value):
        return [tag.strip() for tag in value if tag.strip()]
    raise bad_request("tags must be a list of strings, or a string with commas")


@route("DELETE", "/vhosts/{vhost}")
async def delete_vhost(call: Call) -> Any:
    """Delete a vhost with everything in it."""
    call.require_administrator()
    name = call.path("vhost")
    if not call.facade.has_vhost(name):
        raise not_found()
    await call.declare(DeleteVhost(name, acting_user=call.identity.name))
    return NoContent()


@route("POST", "/vhosts/{vhost}/start/{node}", answered_by=Answerer.NODE_IN_PATH)
async def restart_vhost(call: Call) -> Any:
    """Start a vhost; nothing to do, since a vhost runs as long as the node."""
    call.require_administrator()
    node, vhost = call.path("node"), call.path("vhost")
    failed = f"Request to node {node} failed with"
    if node != call.node.name:
        raise bad_request(f"{failed} nodedown")
    if not call.facade.has_vhost(vhost):
        raise bad_request(f"{failed} {{no_such_vhost,{format_term(vhost)}}}")
    return NoContent()
