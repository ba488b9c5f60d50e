"""The node as a whole: overview, nodes, cluster name, features."""

from typing import Any

from leveret.broker.amqp.json_form import text
from leveret.broker.declarations import PutParameter
from leveret.broker.policies.parameters import CLUSTER_NAME, GLOBAL, NO_VHOST
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import bad_request, not_found
from leveret.mgmt.api.routes import NoContent, route
from leveret.mgmt.api.windows import both, window
from leveret.mgmt.statistics.sampler import LENGTHS, MESSAGES, sums_of
from leveret.mgmt.statistics.series import SeriesSum
from leveret.mgmt.views import nodes
from leveret.mgmt.views.cluster import node_views

FEATURES = (
    ("classic_mirrored_queue_version", "Support setting version for classic mirrored queues"),
    ("classic_queue_type_delivery_support", "Bug fix for classic queue deliveries"),
    ("direct_exchange_routing_v2", "v2 direct exchange routing implementation"),
    ("drop_unroutable_metric", "Count unroutable publishes to be dropped in stats"),
    ("empty_basic_get_metric", "Count AMQP `basic.get` on empty queues in stats"),
    ("implicit_default_bindings", "Default bindings are now implicit, instead of being stored"),
    ("listener_records_in_ets", "Store listener records in ETS instead of Mnesia"),
    ("maintenance_mode_status", "Maintenance mode status"),
    ("restart_streams", "Support for restarting streams with optional preferred next leader"),
    ("stream_filtering", "Support for stream filtering"),
    ("tracking_records_in_ets", "Store tracking records in ETS instead of Mnesia"),
    ("user_limits", "Configure connection and channel limits for a user"),
    ("virtual_host_metadata", "Virtual host metadata (description, tags, etc)"),
)


@route("GET", "/overview")
async def overview(call: Call) -> Any:
    """The totals of the node, as far as the user may see them."""
    shown = nodes.overview(call.node, await call.node.sampler.queue_sums(), both(call))
    if not call.identity.is_monitor:
        for key in ("churn_rates", "listeners", "contexts"):
            shown.pop(key)
        await _only_own(call, shown)
    return shown


async def _only_own(call: Call, shown: dict[str, Any]) -> None:
    """Replace the totals by those of the user's vhosts and of its own connections."""
    vhosts = call.own_vhosts()
    sums = await sums_of(vhosts, call.node.give_way)
    mine = [
        one
        for one in call.broker.connections
        if one.login is None and one.user.name == call.identity.name
    ]
    shown["object_totals"] = {
        "channels": sum(len(one.channels) for one in mine),
        "connections": len(mine),
        "consumers": sums.consumers,
        "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
        "queues": sum(len(vhost.queues) for vhost in vhosts),
    }
    sampler, (messages, lengths) = call.node.sampler, both(call)
    now_ms = sampler.now_ms()
    published = SeriesSum(
        [sampler.vhosts[one.name] for one in vhosts if one.name in sampler.vhosts]
    )
    row = published.last
    shown["message_stats"] = (
        nodes.counted(MESSAGES, row, published, now_ms, messages) if row and any(row) else {}
    )
    known = sampler.vhost_lengths
    queued = SeriesSum([known[one.name] for one in vhosts if one.name in known])
    totals = (sums.messages, sums.ready, sums.unacked)
    shown["queue_totals"] = (
        nodes.counted(LENGTHS, totals, queued, now_ms, lengths) if vhosts else {}
    )


@route("GET", "/nodes")
async def list_nodes(call: Call) -> Any:
    """The nodes of the cluster."""
    call.require_monitor()
    return await node_views(call.node, nodes.node_view(call.node, window(call, "node_stats")))


@route("GET", "/nodes/{node}")
async def show_node(call: Call) -> Any:
    """One node."""
    call.require_monitor()
    require_this_node(call)
    shown = nodes.node_view(call.node, window(call, "node_stats"))
    if call.query("memory") == "true":
        shown["memory"] = nodes.memory_breakdown(call.node)
        shown["memory_estimated"] = list(nodes.ESTIMATED)
    return shown


def require_this_node(call: Call) -> None:
    """Raise 404 if the path names another node."""
    if call.path("node") != call.node.name:
        raise not_found()


@route("GET", "/nodes/{node}/memory")
async def show_memory(call: Call) -> Any:
    """The memory of the node in bytes, by category."""
    call.require_monitor()
    require_this_node(call)
    return {"memory": nodes.memory_breakdown(call.node)}


@route("GET", "/nodes/{node}/memory/relative")
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
    """The extensions of the management pages, in RabbitMQ's form."""
    return [{"javascript": "dispatcher.js"}]


@route("GET", "/feature-flags")
async def feature_flags(call: Call) -> Any:
    """RabbitMQ's feature flags, as far as this node has the features."""
    return [
        {
            "name": name, "desc": description, "doc_url": "", "state": "enabled",
            "stability": "stable", "provided_by": "rabbit",
        }
        for name, description in FEATURES
    ]  # fmt: skip


@route("PUT", "/feature-flags/{name}/enable")
async def enable_feature_flag(call: Call) -> Any:
    """Enable a feature flag; they all are enabled."""
    call.require_administrator()
    if call.path("name") not in dict(FEATURES):
        raise bad_request("unsupported")
    return NoContent()


@route("GET", "/deprecated-features", "/deprecated-features/used")
async def deprecated_features(call: Call) -> Any:
    """Deprecated features, of which this node has none."""
    return []


@route("DELETE", "/reset", "/reset/{node}")
async def reset_statistics(call: Call) -> Any:
    """Delete the samples of the statistics."""
    call.require_administrator()
    if "node" in call.request.match_info:
        require_this_node(call)
    await call.note("statistics.reset", "node", call.node.name, "Deleting the statistics")
    call.node.sampler.objects = {}
    return NoContent()


@route("POST", "/rebalance/queues")
async def rebalance(call: Call) -> Any:
    """Rebalance queues; nothing to do, since all queues are on this node."""
    call.require_administrator()
    return NoContent()


@route("GET", "/audit")
async def audit(call: Call) -> Any:
    """The audit log: who changed what on this node (docs/management.md)."""
    call.require_monitor()
    count = call.number("count", 100)
    await call.node.audit.wait_until_written()
    return call.node.audit.last(count)
