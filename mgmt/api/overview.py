"""The node as a whole: overview, nodes, cluster name, features."""

from typing import Any

from broker.parameters import CLUSTER_NAME, GLOBAL, NO_VHOST
from mgmt.api.call import Call
from mgmt.api.errors import bad_request, not_found
from mgmt.api.routes import NoContent, route
from mgmt.api.windows import both, window
from mgmt.views import nodes
from mgmt.views.values import text

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
    """The node's totals, as far as the user may see them."""
    shown = nodes.overview(call.node, both(call))
    if not call.identity.is_monitor:
        for key in ("churn_rates", "listeners", "contexts"):
            shown.pop(key)
        _only_own(call, shown)
    return shown


def _only_own(call: Call, shown: dict[str, Any]) -> None:
    """Totals of the vhosts that the user may open, and of its own connections."""
    vhosts = call.own_vhosts()
    queues = [queue for vhost in vhosts for queue in vhost.queues.values()]
    mine = [
        one
        for one in call.broker.connections
        if one.login is None and one.user.name == call.identity.name
    ]
    shown["object_totals"] = {
        "channels": sum(len(one.channels) for one in mine),
        "connections": len(mine),
        "consumers": sum(len(queue.ring.consumers) for queue in queues),
        "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
        "queues": len(queues),
    }
    ready = sum(queue.backing.ready_count for queue in queues)
    unacked = sum(queue.backing.unacked_count for queue in queues)
    shown["queue_totals"].update(
        messages=ready + unacked, messages_ready=ready, messages_unacknowledged=unacked
    )


@route("GET", "/nodes")
async def list_nodes(call: Call) -> Any:
    """All nodes: this one."""
    call.require_monitor()
    return [nodes.node_view(call.node, window(call, "node_stats"))]


@route("GET", "/nodes/{node}")
async def show_node(call: Call) -> Any:
    """One node: there is no other."""
    call.require_monitor()
    require_this_node(call)
    shown = nodes.node_view(call.node, window(call, "node_stats"))
    if call.query("memory") == "true":
        shown["memory"] = nodes.memory_breakdown(call.node)
    return shown


def require_this_node(call: Call) -> None:
    """Raise 404 if the path names another node."""
    if call.path("node") != call.node.name:
        raise not_found()


@route("GET", "/nodes/{node}/memory")
async def show_memory(call: Call) -> Any:
    """Bytes by category."""
    call.require_monitor()
    require_this_node(call)
    return {"memory": nodes.memory_breakdown(call.node)}


@route("GET", "/nodes/{node}/memory/relative")
async def show_relative_memory(call: Call) -> Any:
    """The same as percentages."""
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
    """There are no such tables here."""
    call.require_monitor()
    require_this_node(call)
    return {"ets_tables": "no_tables"}


@route("GET", "/cluster-name")
async def show_cluster_name(call: Call) -> Any:
    """What operators call the cluster."""
    return {"name": text(call.node.cluster_name)}


@route("PUT", "/cluster-name")
async def set_cluster_name(call: Call) -> Any:
    """Name the cluster."""
    call.require_administrator()
    body = await call.body("name")
    if not isinstance(body["name"], str):
        raise bad_request("name must be a string")
    call.broker.services.parameters.set(GLOBAL, NO_VHOST, CLUSTER_NAME, body["name"])
    return NoContent()


@route("GET", "/extensions")
async def extensions(call: Call) -> Any:
    """Extensions of RabbitMQ's own pages."""
    return [{"javascript": "dispatcher.js"}]


@route("GET", "/feature-flags")
async def feature_flags(call: Call) -> Any:
    """Those of RabbitMQ that stand for what this node does."""
    return [
        {
            "name": name, "desc": description, "doc_url": "", "state": "enabled",
            "stability": "stable", "provided_by": "rabbit",
        }
        for name, description in FEATURES
    ]  # fmt: skip


@route("PUT", "/feature-flags/{name}/enable")
async def enable_feature_flag(call: Call) -> Any:
    """They are all enabled."""
    call.require_administrator()
    if call.path("name") not in dict(FEATURES):
        raise bad_request("unsupported")
    return NoContent()


@route("GET", "/deprecated-features", "/deprecated-features/used")
async def deprecated_features(call: Call) -> Any:
    """None is going away here."""
    return []


@route("DELETE", "/reset", "/reset/{node}")
async def reset_statistics(call: Call) -> Any:
    """Forget the samples."""
    call.require_administrator()
    if "node" in call.request.match_info:
        require_this_node(call)
    call.node.sampler.objects = {}
    return NoContent()


@route("POST", "/rebalance/queues")
async def rebalance(call: Call) -> Any:
    """All queues are on this node."""
    call.require_administrator()
    return NoContent()


@route("GET", "/audit")
async def audit(call: Call) -> Any:
    """What was done to messages by hand."""
    call.require_monitor()
    return call.node.audit.last(call.number("count", 100))
