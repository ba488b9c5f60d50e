"""The plugins that can be enabled: Leveret's own, and those of installed packages.

Finding packages takes 5 to 30 ms, so it is done only if a name is looked up that is not Leveret's
own, or if all are listed. A package that cannot be loaded is logged, and treated as not installed.
"""

import logging
import sys
from collections.abc import Iterable

from leveret.broker.plugins.contributions import GROUP
from leveret.broker.plugins.extensions import Extensions
from leveret.broker.plugins.own_plugins import OWN
from leveret.broker.plugins.plugin import INTERFACE, Plugin

PLUGINS: Extensions[Plugin] = Extensions(GROUP, OWN)
"""All plugins, by name."""

logger = logging.getLogger("leveret.plugins")


class PluginError(ValueError):
    """A plugin cannot be enabled. The text names it, and the reason."""


def usable(name: str) -> Plugin:
    """The plugin of a name. Raises PluginError if it is missing or made for another interface."""
    plugin = PLUGINS.get(name)
    if plugin is None and name.startswith("rabbitmq_"):
        raise PluginError(f"Leveret has no counterpart of RabbitMQ's plugin {name}: disable it")
    if plugin is None:
        raise PluginError(
            f"plugin {name} is not installed: install its package for {sys.executable}, or disable "
            "the plugin"
        )
    if not isinstance(plugin, Plugin):
        raise PluginError(f"plugin {name} is not a leveret.broker.plugins.plugin.Plugin")
    if plugin.name != name:
        raise PluginError(
            f"plugin {name} has the name {plugin.name}: its entry point needs the same name"
        )
    if plugin.interface != INTERFACE:
        raise PluginError(
            f"plugin {name} {plugin.version} is written for version {plugin.interface} of the "
            f"plugin interface, and this node has version {INTERFACE}: install a version of the "
            "plugin that supports it"
        )
    return plugin


def with_required(names: Iterable[str]) -> list[str]:
    """The names, each after those that it requires. Names that are not installed stay."""
    ordered: dict[str, None] = {}
    beginning: set[str] = set()

    def add(name: str) -> None:
        if name in ordered or name in beginning:
            return
        beginning.add(name)
        plugin = PLUGINS.get(name)
        if isinstance(plugin, Plugin):
            for one in plugin.requires:
                add(one)
        ordered[name] = None

    for name in names:
        add(name)
    return list(ordered)


def requiring(name: str, among: Iterable[str]) -> set[str]:
    """The given plugins that need a plugin: the plugin itself, and those that require it."""
    return {one for one in among if name in with_required([one])}
