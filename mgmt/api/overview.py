"""The node as a whole: overview, nodes, cluster name, features."""

from typing import Any

import msgspec

from leveret.broker.amqp.json_form import text
from leveret.broker.declarations.values import PutParameter
from leveret.broker.policies.parameters import CLUSTER_NAME, GLOBAL, NO_VHOST
from leveret.cluster.node_status.feature_flags import ENABLED, FEATURE_FLAGS
from leveret.cluster.node_status.feature_flags import states as feature_states
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import ApiError, bad_request, not_found
from leveret.mgmt.api.other_nodes import ask_others, pass_on
from leveret.mgmt.api.plugin_pages import pages_of_plugins
from leveret.mgmt.api.routes import Answerer, NoContent, route
from leveret.mgmt.api.windows import both, window
from leveret.mgmt.statistics.sampler import LENGTHS, MESSAGES, sums_of
from leveret.mgmt.statistics.series import SeriesSum
from leveret.mgmt.statistics.sums import with_others
from leveret.mgmt.views import nodes


@route("GET", "/overview")
async def overview(call: Call) -> Any:
    """The totals of all nodes that the user may see."""
    shown = nodes.overview(call.node, await call.node.sampler.queue_sums(), both(call))
    if not call.identity.is_monitor:
        for key in ("churn_rates", "listeners", "contexts"):
            shown.pop(key)
        await _only_own(call, shown)
    for answer in (await ask_others(call, columns="")).values():
        _add_other(shown, msgspec.json.decode(answer, type=dict[str, Any]))
    return shown


SUMMED = ("message_stats", "churn_rates", "queue_totals")
SUMMED_OBJECTS = ("channels", "connections", "consumers")
"""Exchanges and queues are declared on all nodes."""
JOINED = ("listeners", "contexts")


def _add_other(shown: dict[str, Any], other: dict[str, Any]) -> None:
    """Add the counts and the ports of another node."""
    shown |= with_others(shown, [other], SUMMED)
    objects = shown["object_totals"]
    shown["object_totals"] = with_others(objects, [other["object_totals"]], SUMMED_OBJECTS)
    for name in JOINED:
        if name in shown:
            shown[name] = [*shown[name], *other.get(name, ())]


async def _only_own(call: Call, shown: dict[str, Any]) -> None:
    """Replace the totals by those of the user's vhosts and of its own connections."""
    vhosts = call.own_vhosts()
    sums = await sums_of(call.facade, vhosts, call.node.give_way)
    mine = [one for one in call.facade.connections() if one.user == call.identity.name]
    declared = [one for one in call.facade.vhosts() if one.name in vhosts]
    shown["object_totals"] = {
        "channels": sum(one.channel_count for one in mine),
        "connections": len(mine),
        "consumers": sums.consumers,
        "exchanges": sum(vhost.exchanges for vhost in declared),
        "queues": sum(vhost.queues for vhost in declared),
    }
    sampler, (messages, lengths) = call.node.sampler, both(call)
    now_ms = sampler.now_ms()
    published = SeriesSum([sampler.vhosts[vhost] for vhost in vhosts if vhost in sampler.vhosts])
    row = published.last
    shown["message_stats"] = (
        nodes.counted(MESSAGES, row, published, now_ms, messages) if row and any(row) else {}
    )
    known = sampler.vhost_lengths
    queued = SeriesSum([known[vhost] for vhost in vhosts if vhost in known])
    totals = (sums.messages, sums.ready, sums.unacked)
    shown["queue_totals"] = (
        nodes.counted(LENGTHS, totals, queued, now_ms, lengths) if vhosts else {}
    )


@route("GET", "/nodes")
async def list_nodes(call: Call) -> Any:
    """The nodes of the cluster."""
    call.require_monitor()
    own = nodes.node_view(call.node, window(call, "node_stats"))
    answers = await ask_others(call, columns="")
    if call.node.cluster is None or call.wants_only_own:
        return [own]
    views = {call.node.name: own}
    for name, answer in answers.items():
        views[name] = msgspec.json.decode(answer, type=list[dict[str, Any]])[0]
    members = call.node.cluster.members
    return [_as_member(call, name, views.get(name)) for name in sorted({*members, *views})]


def _as_member(call: Call, name: str, view: dict[str, Any] | None) -> dict[str, Any]:
    """A node as a member of the cluster. view: None if it does not run or does not answer."""
    cluster = call.node.cluster
    if cluster is None:
        raise not_found()
    if view is None:
        is_running = name in cluster.running
        view = {
            "name": name, "running": is_running, "answering": False, "partitions": [],
            "cluster_links": [],
        }  # fmt: skip
    return {**view, "type": "disc" if cluster.members.get(name, True) else "ram"}


@route("GET", "/nodes/{node}")
async def show_node(call: Call) -> Any:
    """One node."""
    call.require_monitor()
    name, cluster = call.path("node"), call.node.cluster
    if cluster is not None and name != call.node.name and name in cluster.members:
        try:
            return await pass_on(call, name)
        except ApiError as error:
            if error.status != 503:
                raise
            return _as_member(call, name, None)
    require_this_node(call)
    shown = nodes.node_view(call.node, window(call, "node_stats"))
    if cluster is not None:
        shown = _as_member(call, name, shown)
    if call.query("memory") == "true":
        shown["memory"] = nodes.memory_breakdown(call.node)
        shown["memory_estimated"] = list(nodes.ESTIMATED)
    return shown


def require_this_node(call: Call) -> None:
    """Raise 404 if the path names another node."""
    if call.path("node") != call.node.name:
        raise not_found()


@route("GET", "/nodes/{node}/memory", answered_by=Answerer.NODE_IN_PATH)
async def show_memory(call: Call) -> Any:
    """The memory of the node in bytes, by category."""
    call.require_monitor()
    require_this_node(call)
    return {"memory": nodes.memory_breakdown(call.node)}


@route("GET", "/nodes/{node}/memory/relative", answered_by=Answerer.NODE_IN_PATH)
async def show_relative_memory(call: Call) -> Any:
    """The memory of the node in percent, by category."""
    call.require_monitor()
    require_this_node(call)
    breakdown = nodes.memory_breakdown(call.node)
    total = max(1, breakdown["total"]["rss"])
    shares = {
        name: round(100 * value / total)
        for name, value in breakdown.items()
        if isinstance(value, int)
    }
    return {"memory": {**shares, "total": 100}}


@route(
    "GET", "/nodes/{node}/memory/ets", "/nodes/{node}/memory/ets/relative",
    "/nodes/{node}/memory/ets/{filter}", "/nodes/{node}/memory/ets/{filter}/relative",
    answered_by=Answerer.NODE_IN_PATH,
)  # fmt: skip
async def show_ets(call: Call) -> Any:
    """Erlang's ETS tables, of which this node has none."""
    call.require_monitor()
    require_this_node(call)
    return {"ets_tables_memory": "no_tables"}


@route("GET", "/cluster-name")
async def show_cluster_name(call: Call) -> Any:
    """The name of the cluster."""
    return {"name": text(call.node.cluster_name)}


@route("PUT", "/cluster-name")
async def set_cluster_name(call: Call) -> Any:
    """Set the name of the cluster."""
    call.require_administrator()
    body = await call.body("name")
    if not isinstance(body["name"], str):
        raise bad_request("name must be a string")
    await call.declare(
        PutParameter(GLOBAL, NO_VHOST, CLUSTER_NAME, body["name"], acting_user=call.identity.name)
    )
    return NoContent()


@route("GET", "/extensions")
async def extensions(call: Call) -> Any:
    """The extensions of the management pages, in RabbitMQ's form, and the pages of plugins."""
    return [{"javascript": "dispatcher.js"}, *pages_of_plugins(call.node)]


@route("GET", "/feature-flags")
async def feature_flags(call: Call) -> Any:
    """Those of RabbitMQ's feature flags whose features this node has."""
    states = _feature_states(call)
    return [
        {
            "name": name, "desc": description, "doc_url": "", "state": states[name],
            "stability": "stable", "provided_by": "rabbit",
        }
        for name, description in FEATURE_FLAGS
    ]  # fmt: skip


def _feature_states(call: Call) -> dict[str, str]:
    """Which features all nodes of the cluster have."""
    cluster = call.node.cluster
    return feature_states(()) if cluster is None else cluster.features


@route("PUT", "/feature-flags/{name}/enable")
async def enable_feature_flag(call: Call) -> Any:
    """Enable a feature flag: those that all nodes have are enabled."""
    call.require_administrator()
    if _feature_states(call).get(call.path("name")) != ENABLED:
        raise bad_request("unsupported")
    return NoContent()


@route("GET", "/deprecated-features", "/deprecated-features/used")
async def deprecated_features(call: Call) -> Any:
    """Deprecated features, of which this node has none."""
    return []


@route("DELETE", "/reset", "/reset/{node}", answered_by=Answerer.NODE_IN_PATH)
async def reset_statistics(call: Call) -> Any:
    """Delete the samples of the statistics."""
    call.require_administrator()
    if "node" in call.request.match_info:
        require_this_node(call)
    await call.note("statistics.reset", "node", call.node.name, "Deleting the statistics")
    call.node.sampler.forget_objects()
    if "node" not in call.request.match_info:
        await ask_others(call)
    return NoContent()


@route("GET", "/audit")
async def audit(call: Call) -> Any:
    """The audit log: who changed what, on whichever node (docs/operate/management.md)."""
    call.require_monitor()
    count = call.number("count", 100)
    await call.node.audit.wait_until_written()
    lines = [{**line, "node": call.node.name} for line in call.node.audit.last(count)]
    for answer in (await ask_others(call, columns="")).values():
        lines += msgspec.json.decode(answer, type=list[dict[str, Any]])
    return sorted(lines, key=lambda line: int(line["time"]), reverse=True)[:count]
