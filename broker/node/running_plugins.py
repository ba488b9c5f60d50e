"""The plugins of a running node: their contributions, and their own tasks.

`prepare` adds the contributions of the enabled plugins to the tables of exchange types, kinds of
queues and so on, before the node restores its objects, which need them. `start` opens the listeners
of their protocols and calls their `start`; clients can connect by then. `change` does both for
a plugin that is enabled while the node runs, and the reverse for one that is disabled: its
listeners close, its clients are disconnected, its tasks are cancelled.

A plugin that is missing, incompatible, or fails is logged and not run, and neither are those that
require it; the node and the other plugins are not affected. `failures` has the reasons. Each error
that a plugin's code raises is logged with the plugin's name.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator
from inspect import isawaitable
from operator import attrgetter
from typing import Any

from leveret.broker.config import Config, Listener, SettingError, explain
from leveret.broker.config.plugins import USUAL_PORTS
from leveret.broker.events.events import Event
from leveret.broker.net.client_listeners import ClientListeners, ServedProtocol
from leveret.broker.node.guarded_plugins import (
    guarded,
    guarded_interceptor,
    guarded_listener,
    measured,
)
from leveret.broker.node.own_interceptors import incoming, outgoing
from leveret.broker.plugins.contributions import loaded
from leveret.broker.plugins.extensions import contribute, withdraw
from leveret.broker.plugins.known_plugins import PluginError, requiring, usable, with_required
from leveret.broker.plugins.own_plugins import BUILT_IN, OF_VERSION_4
from leveret.broker.plugins.plugin import Contributions, Plugin, Step
from leveret.broker.services.services import Services
from leveret.broker.sessions.interceptors import Interceptor
from leveret.broker.sessions.served_connection import ServedConnection

CONTRIBUTED = ("exchange_types", "queue_kinds", "policy_keys")
"""The fields of a plugin whose contributions are added to the tables of the group of this name."""
STEP_SECONDS_MAX = 10.0
"""Time limit for a plugin's `start` or `stop`."""
TASKS_SECONDS_MAX = 3.0
"""Time limit for a plugin's tasks to end after they were cancelled."""
STOPPED_REASON = "plugin {} is stopped"

logger = logging.getLogger("leveret.plugins")


class NodeOfPlugin:
    """The node, for the code of one plugin (`leveret.broker.plugins.plugin.PluginNode`)."""

    def __init__(self, plugin: Plugin, config: Config) -> None:
        self.name = config.node_name
        self.config = config
        self.services: Any = None
        self._plugin = plugin
        self._tasks: set[asyncio.Task[Any]] = set()

    def run(self, work: Coroutine[Any, Any, Any], name: str = "") -> asyncio.Task[Any]:
        """Run a coroutine as a task of the plugin, which is cancelled when the plugin stops."""
        steps = measured(work, self.services.turns.watch, self._plugin)
        task = asyncio.get_running_loop().create_task(steps, name=name or f"{self._plugin}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        # It was not begun if the task was cancelled before its first step.
        task.add_done_callback(lambda _: work.close())
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error(
                "%r: task %s failed: %s", self._plugin, task.get_name(), _said(error),
                exc_info=error,
            )  # fmt: skip

    async def end_tasks(self) -> None:
        """Cancel the tasks, and name those that do not end."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if not tasks:
            return
        _, left = await asyncio.wait(tasks, timeout=TASKS_SECONDS_MAX)
        for task in left:
            logger.error(
                "%r: task %s did not end within %.0f s of being cancelled",
                self._plugin, task.get_name(), TASKS_SECONDS_MAX,
            )  # fmt: skip


class _Running:
    """A plugin whose contributions are in place. protocols: the protocols that it serves.
    is_started: its `start` was called, so its `stop` has to be called.
    """

    def __init__(self, plugin: Plugin, node: NodeOfPlugin) -> None:
        self.plugin = plugin
        self.node = node
        self.is_started = False
        self.contributed: list[tuple[str, str]] = []
        self.protocols: list[ServedProtocol] = []
        self.listeners: list[Callable[[Event], object]] = []
        self.incoming: tuple[Interceptor, ...] = ()
        self.outgoing: tuple[Interceptor, ...] = ()

    def contribute(self) -> None:
        """Add the contributions to their tables. Raises what loading them raises."""
        for field in CONTRIBUTED:
            for name, contribution in getattr(self.plugin, field).items():
                group = f"leveret.{field}"
                extension = loaded(contribution)
                if field == "exchange_types":
                    extension = guarded(extension, name, self.plugin)
                contribute(group, name, extension, self.plugin.name)
                self.contributed.append((group, name))

    def withdraw(self) -> None:
        """Remove the contributions from their tables."""
        while self.contributed:
            withdraw(*self.contributed.pop())


class RunningPlugins:
    """The plugins of one node.

    enabled: the names that are enabled explicitly in this run. failures: why enabled plugins do not
    run, by name.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self.enabled = _enabled(config)
        self.failures: dict[str, str] = {}
        self._running: dict[str, _Running] = {}
        self._of_version = _Running(OF_VERSION_4, NodeOfPlugin(OF_VERSION_4, config))
        self._changing = asyncio.Lock()
        self._changed: list[Callable[[], object]] = []

    def listen(self, changed: Callable[[], object]) -> None:
        """Call `changed` after the plugins, and so the listeners, have changed."""
        self._changed.append(changed)

    @property
    def running(self) -> list[str]:
        """The plugins that run, except the built-in ones."""
        return sorted(self._running)

    def prepare(self) -> None:
        """Put the contributions of the enabled plugins in place."""
        if self._config.is_as_rabbitmq_4:
            self._of_version.contribute()
        for name in with_required(self.enabled):
            self._add(name)

    async def start(
        self, services: Services, connections: set[ServedConnection], listeners: ClientListeners
    ) -> None:
        """Start the prepared plugins. connections: all connections of the node."""
        self._services, self._connections, self._listeners = services, connections, listeners
        self._intercept()
        for name in tuple(self._running):
            await self._start(name)

    async def change(self, enabled: Iterable[str]) -> tuple[list[str], list[str]]:
        """Enable these plugins and no others; return those that were started, and stopped."""
        async with self._changing:
            self.enabled = tuple(enabled)
            wanted = with_required(self.enabled)
            self.failures = {name: text for name, text in self.failures.items() if name in wanted}
            stopped = [name for name in reversed(self._running) if name not in wanted]
            for name in stopped:
                await self._stop(name)
            started = [name for name in wanted if name not in self._running and self._add(name)]
            for name in started:
                await self._start(name)
            for changed in self._changed:
                changed()
            return [name for name in started if name in self._running], stopped

    async def stop(self) -> None:
        """Stop all plugins."""
        async with self._changing:
            for name in tuple(reversed(self._running)):
                await self._stop(name)
            self._of_version.withdraw()

    # One plugin

    def _add(self, name: str) -> bool:
        """Put the contributions of a plugin in place; return whether that succeeded."""
        if name in BUILT_IN:
            return False
        try:
            plugin = usable(name)
            for required in plugin.requires:
                if required not in self._running and required not in BUILT_IN:
                    raise PluginError(f"plugin {name} requires {required}, which is not running")
        except PluginError as error:
            self._fail(name, str(error))
            return False
        running = _Running(plugin, NodeOfPlugin(plugin, self._config))
        # The modules of a package may raise anything.
        try:
            running.contribute()
        except Exception as error:
            running.withdraw()
            self._fail(name, f"plugin {name} cannot be loaded: {_said(error)}")
            return False
        self._running[name] = running
        return True

    async def _start(self, name: str) -> None:
        running = self._running.get(name)
        if running is None:
            # A plugin that it requires has failed.
            return
        running.node.services = self._services
        try:
            for make in running.plugin.protocols.values():
                self._serve(running, loaded(make)(self._services, self._connections))
            self._listen(running)
            running.is_started = True
            await _take(running.plugin.start, running.node)
        except SettingError as error:
            reason = f"plugin {name} cannot start: {explain(self._config, error)}"
        except Exception as error:
            reason = f"plugin {name} cannot start: {_said(error)}"
        else:
            self.failures.pop(name, None)
            logger.info("started plugin %s %s", name, running.plugin.version)
            return
        self._fail(name, reason)
        for one in sorted(requiring(name, self._running)):
            await self._stop(one, calls_stop=one != name)
            if one != name:
                self._fail(one, f"plugin {one} requires {name}, which is not running")

    def _listen(self, running: _Running) -> None:
        """Pass events and messages to the plugin."""
        plugin = running.plugin
        running.incoming = tuple(_interceptors(plugin.interceptors, plugin))
        running.outgoing = tuple(_interceptors(plugin.outgoing_interceptors, plugin))
        self._intercept()
        for contribution in plugin.event_listeners.values():
            listener = guarded_listener(loaded(contribution), plugin)
            self._services.events.listen(listener)
            running.listeners.append(listener)

    def _intercept(self) -> None:
        """Pass messages to the interceptors of the settings and of the running plugins.

        A change of those for incoming messages takes effect when routes are looked up again.
        """
        services, running = self._services, self._running.values()
        clock, had_outgoing = services.clock, bool(services.outgoing_interceptors)
        services.interceptors = (
            *incoming(self._config, clock), *(one for each in running for one in each.incoming)
        )  # fmt: skip
        services.outgoing_interceptors = (
            *outgoing(self._config, clock), *(one for each in running for one in each.outgoing)
        )  # fmt: skip
        intercepts = bool(services.outgoing_interceptors)
        if intercepts == had_outgoing:
            return
        for connection in self._connections:
            for session in connection.sessions:
                session.intercepts_outgoing = intercepts

    def _serve(self, running: _Running, protocol: ServedProtocol) -> None:
        protocol = _with_usual_port(protocol, self._config)
        self._listeners.open(protocol)
        running.protocols.append(protocol)

    async def _stop(self, name: str, *, calls_stop: bool = True) -> None:
        running = self._running.pop(name, None)
        if running is None:
            return
        for protocol in running.protocols:
            self._disconnect(name, self._listeners.close_protocol(protocol.name))
        for listener in running.listeners:
            self._services.events.forget(listener)
        if running.incoming or running.outgoing:
            self._intercept()
        if calls_stop and running.is_started:
            try:
                await _take(running.plugin.stop, running.node)
            except Exception as error:
                logger.error("%r failed to stop: %s", running.plugin, _said(error))
        await running.node.end_tasks()
        running.withdraw()
        logger.info("stopped plugin %s", name)

    def _disconnect(self, name: str, ports: set[int]) -> None:
        for connection in tuple(self._connections):
            if _own_port(connection) in ports:
                connection.force_close(STOPPED_REASON.format(name))

    def _fail(self, name: str, reason: str) -> None:
        self.failures[name] = reason
        logger.error("%s", reason)


def _interceptors(contributions: Contributions, plugin: Plugin) -> Iterator[Interceptor]:
    for contribution in contributions.values():
        yield guarded_interceptor(loaded(contribution), plugin)


def _enabled(config: Config) -> tuple[str, ...]:
    """The plugins that the configuration lists, or for which it has a listener."""
    if config.plugins is not None:
        return config.plugins
    return tuple(plugin for plugin in USUAL_PORTS if any(_listeners(config, plugin)))


def _listeners(config: Config, plugin: str) -> Iterator[tuple[Listener, ...]]:
    plain, tls, _ = USUAL_PORTS[plugin]
    for attribute in (plain, tls):
        yield attrgetter(attribute)(config)


def _with_usual_port(protocol: ServedProtocol, config: Config) -> ServedProtocol:
    """The protocol, on its usual port if no listener of it is configured."""
    if protocol.plain or protocol.plain_setting in config.origins:
        return protocol
    for plain, _, port in USUAL_PORTS.values():
        if plain == protocol.plain_setting:
            return protocol._replace(plain=(Listener(config.bind, port),))
    return protocol


def _own_port(connection: ServedConnection) -> int:
    """The node's port of a connection, whose name is `client:port -> node:port`."""
    port = connection.name.rpartition(":")[2]
    return int(port) if port.isdecimal() else 0


async def _take(step: Step | str | None, node: NodeOfPlugin) -> None:
    if step is None:
        return
    taken = loaded(step)(node)
    if isawaitable(taken):
        async with asyncio.timeout(STEP_SECONDS_MAX):
            await taken


def _said(error: BaseException) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return f"it took longer than {STEP_SECONDS_MAX:.0f} s"
    return f"{type(error).__name__}: {error}"
