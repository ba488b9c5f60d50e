"""The modules with routes, which add themselves to `routes.ROUTES` when they are imported.

An installed package names such a module in its entry points, in the group `leveret.api_routes`.
"""

from types import ModuleType

from leveret.broker.plugins.extensions import Extensions
from leveret.mgmt.api import (
    acting,
    authentication,
    clients,
    cluster,
    consumers,
    control,
    definitions,
    discarded,
    exchanges,
    federation,
    health,
    overview,
    parameters,
    plan,
    plugins,
    queues,
    quorum_members,
    replicated_queues,
    retrying,
    schema_replication,
    shovels,
    stream_messages,
    stream_positions,
    stream_replicas,
    streams,
    super_streams,
    traces,
    users,
    vhosts,
    workbench,
)
from leveret.mgmt.api.description import served
from leveret.mgmt.api.routes import ROUTES, ApiRoute

_OWN = (
    acting, authentication, clients, cluster, consumers, control, definitions, discarded, exchanges,
    federation, health, overview, parameters, plan, plugins, queues, quorum_members,
    replicated_queues, retrying, schema_replication, shovels, streams, stream_messages,
    stream_positions, stream_replicas, super_streams, traces, users, served, vhosts, workbench,
)  # fmt: skip

RESOURCES: Extensions[ModuleType] = Extensions(
    "leveret.api_routes", {one.__name__.rpartition(".")[2]: one for one in _OWN}
)


def all_routes() -> list[ApiRoute]:
    """The routes of Leveret, then those of installed packages."""
    RESOURCES.load_installed()
    return ROUTES
