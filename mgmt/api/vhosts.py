"""Vhosts, and what is counted in them."""

from typing import Any

from broker.amqp.erlang_terms import format_json
from broker.parameters import VHOST_METADATA
from broker.vhost import VirtualHost
from mgmt.api.call import Call
from mgmt.api.directly import truth_of
from mgmt.api.errors import bad_request, not_found
from mgmt.api.listing import Listing
from mgmt.api.routes import Created, NoContent, route
from mgmt.api.windows import both
from mgmt.statistics.sampler import CONNECTION, LENGTHS, MESSAGES
from mgmt.views.connections import open_connections
from mgmt.views.values import text

DEFAULT_QUEUE_TYPE = "default-queue-type"
QUEUE_TYPES = ("classic", "quorum", "stream")


def vhost_view(call: Call, vhost: VirtualHost) -> dict[str, Any]:
    """A vhost."""
    sampler = call.node.sampler
    message_window, length_window = both(call)
    queue_type = call.broker.services.parameters.get(VHOST_METADATA, vhost.name, DEFAULT_QUEUE_TYPE)
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
    _add_lengths(call, vhost, view, length_window)
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


def _add_lengths(call: Call, vhost: VirtualHost, view: dict[str, Any], window: Any) -> None:
    series = call.node.sampler.vhost_lengths.get(vhost.name)
    ready = sum(queue.backing.ready_count for queue in vhost.queues.values())
    unacked = sum(queue.backing.unacked_count for queue in vhost.queues.values())
    for column, (name, value) in enumerate(
        zip(LENGTHS, (ready + unacked, ready, unacked), strict=True)
    ):
        view[name] = value
        view[f"{name}_details"] = (
            {"rate": 0.0}
            if series is None
            else series.details(column, call.node.sampler.now_ms(), window)
        )


def _add_bytes(call: Call, vhost: VirtualHost, view: dict[str, Any]) -> None:
    """What the vhost's connections have received and sent, and their rates."""
    sampler = call.node.sampler
    mine = [one for one in open_connections(sampler) if one.vhost is vhost]
    for column, name in enumerate(CONNECTION):
        view[name] = sum((one.bytes_in, one.bytes_out)[column] for one in mine)
        known = [sampler.objects[one] for one in mine if one in sampler.objects]
        rate = sum(series.rate(column, sampler.now_ms()) for series in known)
        view[f"{name}_details"] = {"rate": round(rate, 2)}


@route("GET", "/vhosts")
async def list_vhosts(call: Call) -> Any:
    """Those that the user may see."""
    listing: Listing[VirtualHost] = Listing(
        lambda vhost: vhost.name, lambda vhost: vhost_view(call, vhost)
    )
    return await listing.answer(call, call.visible_vhosts())


@route("GET", "/vhosts/{vhost}")
async def show_vhost(call: Call) -> Any:
    """One vhost."""
    call.require_administrator()
    return vhost_view(call, call.vhost())


@route("PUT", "/vhosts/{vhost}")
async def put_vhost(call: Call) -> Any:
    """Add a vhost, or replace its description, tags, default queue type and tracing."""
    call.require_administrator()
    name = call.path("vhost")
    body = await call.body()
    description, tags = str(body.get("description") or ""), tags_of(body.get("tags")) or []
    is_traced = truth_of(body["tracing"]) if "tracing" in body else None
    queue_type = body.get("default_queue_type", body.get("defaultqueuetype"))
    if queue_type not in (None, "undefined", *QUEUE_TYPES):
        raise bad_request(f"default_queue_type must be one of {', '.join(QUEUE_TYPES)}")
    vhost = call.broker.services.vhosts.get(name)
    is_new = vhost is None
    if vhost is None:
        vhost = call.broker.add_vhost(name, description, ",".join(tags), call.identity.name)
    if not is_new or is_traced:
        vhost.description, vhost.tags = description, ",".join(tags)
        if is_traced is not None:
            call.broker.tracing.set_firehose(vhost, is_traced)
        call.broker.describe_vhost(vhost)
    if queue_type in QUEUE_TYPES:
        parameters = call.broker.services.parameters
        parameters.set(VHOST_METADATA, name, DEFAULT_QUEUE_TYPE, queue_type)
    return Created(is_new)


def tags_of(value: Any) -> list[str] | None:
    """Tags as a list, or as a text with commas. Raises 400."""
    if value is None:
        return None
    if isinstance(value, str):
        return [tag.strip() for tag in value.split(",") if tag.strip()]
    if isinstance(value, list) and all(isinstance(tag, str) for tag in value):
        return [tag.strip() for tag in value if tag.strip()]
    raise bad_request("tags must be a list of strings, or a string with commas")


@route("DELETE", "/vhosts/{vhost}")
async def delete_vhost(call: Call) -> Any:
    """Delete a vhost with all that is in it."""
    call.require_administrator()
    name = call.path("vhost")
    if name not in call.broker.services.vhosts:
        raise not_found()
    call.broker.delete_vhost(name)
    return NoContent()


@route("POST", "/vhosts/{vhost}/start/{node}")
async def restart_vhost(call: Call) -> Any:
    """A vhost here runs as long as the node does."""
    call.require_administrator()
    node, vhost = call.path("node"), call.path("vhost")
    failed = f"Request to node {node} failed with"
    if node != call.node.name:
        raise bad_request(f"{failed} nodedown")
    if vhost not in call.broker.services.vhosts:
        raise bad_request(f"{failed} {{no_such_vhost,{format_json(vhost)}}}")
    return NoContent()
