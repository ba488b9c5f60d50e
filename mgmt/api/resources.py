"""The modules with routes, which add themselves to `routes.ROUTES` when they are imported.

An installed package names such a module in its entry points, in the group `leveret.api_routes`.
"""

import logging
from dataclasses import replace
from types import ModuleType

from leveret.broker.plugins.contributions import loaded
from leveret.broker.plugins.extensions import Extensions
from leveret.broker.plugins.known_plugins import PLUGINS
from leveret.broker.plugins.plugin import Plugin
from leveret.mgmt.api import (
    acting,
    authentication,
    clients,
    cluster,
    consumers,
    control,
    definitions,
    delayed,
    delayed_retries,
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
    retained,
    retrying,
    schema_replication,
    shovels,
    stream_messages,
    stream_positions,
    stream_replicas,
    streams,
    super_streams,
    trace_analyses,
    traces,
    unroutable,
    users,
    vhosts,
    workbench,
)
from leveret.mgmt.api.description import served
from leveret.mgmt.api.routes import ROUTES, ApiRoute

logger = logging.getLogger("leveret.plugins")

_OWN = (
    acting, authentication, clients, cluster, consumers, control, definitions, delayed,
    delayed_retries, discarded, exchanges, federation, health, overview, parameters, plan, plugins,
    queues, quorum_members,
    replicated_queues, retained, retrying, schema_replication, shovels, streams, stream_messages,
    stream_positions, stream_replicas, super_streams, trace_analyses, traces,
    unroutable, users, served,
    vhosts, workbench,
)  # fmt: skip

RESOURCES: Extensions[ModuleType] = Extensions(
    "leveret.api_routes", {one.__name__.rpartition(".")[2]: one for one in _OWN}
)


def all_routes() -> list[ApiRoute]:
    """The routes of Leveret, then those of installed packages."""
    RESOURCES.load_installed()
    for name, plugin in PLUGINS.load_installed().items():
        if isinstance(plugin, Plugin) and plugin.api_routes and not _has_routes(name):
            _load_routes(plugin)
    return ROUTES


def _has_routes(plugin: str) -> bool:
    return any(one.plugin == plugin for one in ROUTES)


def _load_routes(plugin: Plugin) -> None:
    """Add the routes of a plugin. A module that cannot be loaded is logged and left out."""
    before = len(ROUTES)
    for name, module in plugin.api_routes.items():
        # The module of a package may raise anything.
        try:
            loaded(module)
        except Exception as error:
            logger.error(
                "%r: its routes %s cannot be loaded: %s: %s",
                plugin, name, type(error).__name__, error,
            )  # fmt: skip
    ROUTES[before:] = [replace(one, plugin=plugin.name) for one in ROUTES[before:]]
