"""A plugin: a part of Leveret, or a separate package, that operators enable and disable.

A package names its plugin in the entry-point group `leveret.plugins`, under the plugin's name:

    [project.entry-points."leveret.plugins"]
    greeter = "my_package.plugin:PLUGIN"

    PLUGIN = Plugin(
        name="greeter", description="Greets clients", version="1.0", interface=1,
        exchange_types={"x-first-word": "my_package.first_word:FirstWord"},
    )

The fields of `Plugin` describe the contributions of a plugin; docs/reference/plugins.md has an
example of each. A contribution is an object, or the text `module:name`. A module that is named is
imported where the object is used, so it costs nothing in commands, and in nodes that do not enable
the plugin.

`INTERFACE` is the version of this interface: of the fields here, and of the types that they refer
to. It changes when a plugin that was written for the previous version would no longer work.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Protocol

INTERFACE: Final = 1

Contributions = Mapping[str, Any]
"""The contributions of a plugin, by name: objects, or `module:name` for an object in a module."""
NONE: Final[Contributions] = MappingProxyType({})


class PluginNode(Protocol):
    """The node, as a plugin's own code sees it.

    name: of the node. config: its settings; `config.extension(Section)` has those of the plugin.
    services: shared by all connections (`leveret.broker.services.services.Services`).
    """

    name: str
    config: Any
    services: Any

    def run(self, work: Any, name: str = "") -> Any:
        """Run a coroutine as a task of the plugin, which is cancelled when the plugin stops.

        An error that it raises is logged with the plugin's name. Returns the `asyncio.Task`.
        """


Step = Callable[[PluginNode], Awaitable[None] | None]


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """A plugin. interface: the `INTERFACE` that it was written for. requires: the plugins that are
    enabled with it, and started before it.

    exchange_types: subclasses of `ExchangeType`, by the type in `exchange.declare`.
    queue_kinds: functions that make a `QueueFactory`, by the kind in `x-queue-type`.
    policy_keys: by the key in policies, a function that returns whether a value is valid, and a
    text that describes valid values.
    protocols: functions of the services and the set of the node's connections that make a
    `ServedProtocol`, by any name.
    interceptors, outgoing_interceptors: functions that get each message that a client publishes, or
    receives, as an `InterceptedMessage` (`leveret.broker.sessions.interceptors`) and may change it,
    by any name.
    event_listeners: functions that are called with each event of the node, a dict, by any name.
    api_routes: modules with functions that `leveret.mgmt.api.routes.route` decorates, by any name;
    they answer while the plugin runs.
    management_pages: paths of ES modules, `NAME.js`, by any name. Each adds a page to those of
    management (`addPage` in mgmt/ui/plugin_pages.js) while the plugin runs.
    settings: dataclasses of settings, by the name of the section. auth_backends, peer_discovery:
    functions that make a backend, by the name in the setting that chooses it. commands: modules
    that register a command of leveretctl, by its name. These four are available as soon as the
    package is installed, because a setting or a command line names them.
    start, stop: called with the node when all contributions are in place, and before they are
    removed; they may be coroutine functions.
    """

    name: str
    description: str
    version: str
    interface: int
    requires: tuple[str, ...] = ()
    exchange_types: Contributions = field(default_factory=dict)
    queue_kinds: Contributions = field(default_factory=dict)
    policy_keys: Contributions = field(default_factory=dict)
    protocols: Contributions = field(default_factory=dict)
    interceptors: Contributions = field(default_factory=dict)
    outgoing_interceptors: Contributions = field(default_factory=dict)
    event_listeners: Contributions = field(default_factory=dict)
    api_routes: Contributions = field(default_factory=dict)
    management_pages: Contributions = field(default_factory=dict)
    settings: Contributions = field(default_factory=dict)
    auth_backends: Contributions = field(default_factory=dict)
    peer_discovery: Contributions = field(default_factory=dict)
    commands: Contributions = field(default_factory=dict)
    start: Step | str | None = None
    stop: Step | str | None = None

    def __repr__(self) -> str:
        return f"plugin {self.name}"


def facts_of(name: str, plugin: Any) -> dict[str, Any]:
    """A plugin as lists show it. plugin: a `Plugin`, or another object in its place."""
    is_plugin = isinstance(plugin, Plugin)
    return {
        "name": name, "version": plugin.version if is_plugin else "",
        "description": plugin.description if is_plugin else "not a plugin",
        "requires": list(plugin.requires) if is_plugin else [],
    }  # fmt: skip
