"""The broker: puts the parts together, opens its listeners, and stops in good order.

`Broker` needs a running event loop and nothing else: no process of its own, no signals, no global
state. `leveret serve` (mgmt/cli) runs one in a process; `EmbeddedBroker` (broker/testing.py) runs
one inside a test.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from broker.actor import Turns
from broker.alarms import DISK
from broker.amqp.field_table import decode_table
from broker.auth.access_control import AccessControl
from broker.auth.backends.chain import build_chain
from broker.auth.backends.internal import InternalBackend
from broker.auth.permissions import PermissionTable
from broker.auth.users import UserDirectory
from broker.clock import Clock, SystemClock, Timer
from broker.config import Config, Listener
from broker.disk_monitor import DiskMonitor, free_bytes
from broker.events import Events, acting_user
from broker.limits import Limits
from broker.memory_monitor import MemoryMonitor
from broker.net.connection import Connection
from broker.net.listeners import open_listener
from broker.net.tls import CertificateWatcher, make_server_context
from broker.net.tls_session import ServerContext
from broker.node_events import NodeEvents
from broker.object_events import vhost_created, vhost_deleted, vhost_updated
from broker.parameters import CLUSTER_NAME, GLOBAL, NO_VHOST, Parameters
from broker.policies import PolicyTable
from broker.policing import Policing
from broker.services import Services
from broker.tracing.tracer import Tracing
from broker.tracing.traces import Traces
from broker.vhost import VirtualHost
from storage.disk import Disk
from storage.metadata import Metadata, NoMetadata
from storage.metadata_rows import (
    BindingRow,
    Definitions,
    ExchangeRow,
    PermissionRow,
    QueueRow,
    VhostRow,
)
from storage.pager import Pager
from storage.store import Store

CONSUMER_TIMEOUT_CHECK_MS = 60_000
"""RabbitMQ looks for deliveries that were not settled in time once a minute."""
STOP_SECONDS_MAX = 3.0
"""How long clients may take to answer connection.close when the broker stops."""
ABORT_SECONDS_MAX = 1.0
"""How long it may take to let go of those that did not."""
SHUTDOWN_REASON = "broker forced connection closure with reason 'shutdown'"

InVhost = TypeVar("InVhost", ExchangeRow, QueueRow, BindingRow)

logger = logging.getLogger("leveret.broker")


def make_services(
    config: Config, metadata: Metadata, clock: Clock, loop: asyncio.AbstractEventLoop
) -> Services:
    """What all connections share, with nothing in it yet. Raises BackendError for bad backends."""
    events = Events(clock.wall_time_s, config.node_name)
    users, permissions = UserDirectory(metadata, events), PermissionTable(metadata, events)
    internal = InternalBackend(users, permissions)
    parameters = Parameters(metadata)
    chain = build_chain(config, clock, internal) if config.auth_backends_are_set else None
    return Services(
        config=config,
        clock=clock,
        turns=Turns(loop, clock.now_ms),
        metadata=metadata,
        users=users,
        permissions=permissions,
        access=AccessControl(config, clock, internal, chain),
        parameters=parameters,
        limits=Limits(parameters),
        policies=PolicyTable(parameters),
        events=events,
    )


class Broker:
    """One broker node.

    connections: those that are open, for operators and tests to look at. tracing: who is told
    what happens in its vhosts. traces: those that are written to files.
    """

    def __init__(
        self,
        config: Config,
        metadata: Metadata | None = None,
        clock: Clock | None = None,
        connection_type: type[Connection] = Connection,
        data_dir: Path | None = None,
        disk: Disk | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        metadata = metadata if metadata is not None else NoMetadata()
        self.config = config
        self.connections: set[Connection] = set()
        self._metadata = metadata
        self._connection_type = connection_type
        self._servers: list[asyncio.Server] = []
        self._tls_servers: list[asyncio.Server] = []
        self._tls_context: ServerContext | None = None
        self._suspended: tuple[Sequence[Listener], Sequence[Listener]] = ((), ())
        self._consumer_timer: Timer | None = None
        self.services = make_services(config, metadata, clock or SystemClock(loop), loop)
        self._store: Store | None = None
        self.monitors: list[MemoryMonitor | DiskMonitor] = []
        if data_dir is not None:
            self._store = self._make_store(data_dir, disk)
            self.monitors = self._make_monitors(data_dir, self._store.pager)
        self.failure: asyncio.Future[Exception] = loop.create_future()
        self.services.alarms.listen(self._alarms_changed)
        self.services.flow.listen(self._congestion_changed)
        self.services.permissions.listen(self._permissions_changed)
        self.policing = Policing(self.services)
        NodeEvents(self.services.events, self.services.parameters, self.services.alarms)
        self.certificates = CertificateWatcher(self.services.clock)
        self.tracing = Tracing(self.services.clock.wall_time_s(), config.node_name)
        self.traces = Traces(self.services, self.tracing, data_dir)

    def _make_store(self, data_dir: Path, disk: Disk | None) -> Store:
        services = self.services
        clock = services.clock
        store = Store(
            data_dir,
            self._metadata,
            services.header_cache.get,
            wall_offset_ms=int(clock.wall_time_s() * 1000) - clock.now_ms(),
            embed_below=self.config.queue_index_embed_below_bytes,
            disk=disk,
            log_file_bytes=self.config.message_log_file_bytes,
        )
        store.log.call_soon = services.turns.before_flush
        store.congestion_changed = lambda: services.flow.set_congested(store.is_congested)
        store.disk_filled = self._disk_filled
        store.failed = self._store_failed
        return store

    def _make_monitors(self, data_dir: Path, pager: Pager) -> list[MemoryMonitor | DiskMonitor]:
        config, clock, alarms = self.config, self.services.clock, self.services.alarms
        return [
            MemoryMonitor(
                config, clock, alarms, held=lambda: pager.memory_bytes, allow=pager.set_budget
            ),
            DiskMonitor(config, clock, alarms, lambda: free_bytes(data_dir)),
        ]

    # Starting

    async def start(self) -> None:
        """Bring back what was declared, then serve clients."""
        if self._store is not None:
            self._store.open()
        definitions = self._metadata.load()
        for problem in definitions.damaged:
            logger.error("%s", problem)
        if definitions.vhosts or definitions.damaged:
            self._restore(definitions)
        else:
            # All or nothing: a vhost without a user in it could never be used.
            with self._metadata.batch():
                self._make_defaults()
        if self._store is not None:
            # Messages of a queue whose declaration is damaged are kept, for a repair to find.
            self._store.all_restored(keeps_unclaimed=bool(definitions.damaged))
        self.traces.restore()
        for monitor in self.monitors:
            monitor.start()
        await self._open_listeners(self.config.tcp_listeners, self.config.tls_listeners)
        self._watch_consumers()

    async def _open_listeners(self, plain: Sequence[Listener], tls: Sequence[Listener]) -> None:
        for listener in plain:
            self._servers += await open_listener(listener, self.config, self._make_connection)
        if tls and self._tls_context is None:
            options = self.config.tls_options()
            self._tls_context = make_server_context(options)
            self.certificates.watch(self._tls_context, options)
        for listener in tls:
            self._tls_servers += await open_listener(
                listener, self.config, self._make_connection, self._tls_context
            )

    def suspend_listeners(self) -> None:
        """Accept no new clients, until `resume_listeners`; those that are connected stay."""
        if any(self._suspended):
            return
        self._suspended = self.listening_on, self.tls_listening_on
        for server in (*self._servers, *self._tls_servers):
            server.close()
        self._servers.clear()
        self._tls_servers.clear()

    async def resume_listeners(self) -> None:
        """Accept clients again, on the same ports. Raises OSError."""
        (plain, tls), self._suspended = self._suspended, ((), ())
        await self._open_listeners(plain, tls)

    @property
    def tls_listening_on(self) -> Sequence[Listener]:
        """Where clients can connect with TLS."""
        return _addresses(self._tls_servers)

    @property
    def listening_on(self) -> Sequence[Listener]:
        """Where clients can connect, with the ports that the system chose."""
        return _addresses(self._servers)

    def _make_connection(self) -> Connection:
        """Called by the event loop for each client that connects."""
        return self._connection_type(self.services, self.connections)

    def _make_defaults(self) -> None:
        """An empty data directory: one vhost, and one user who may do everything in it."""
        config = self.config
        services = self.services
        self.add_vhost(config.default_vhost)
        services.users.add(config.default_user, config.default_pass, config.default_user_tags)
        services.permissions.set(
            PermissionRow(
                config.default_vhost,
                config.default_user,
                config.default_permissions_configure,
                config.default_permissions_write,
                config.default_permissions_read,
            )
        )

    def _restore(self, definitions: Definitions) -> None:
        services = self.services
        for vhost_row in definitions.vhosts:
            vhost = self._new_vhost(vhost_row.name)
            vhost.description, vhost.tags = vhost_row.description, vhost_row.tags
        services.users.restore(definitions.users)
        services.permissions.restore(definitions.permissions, definitions.topic_permissions)
        services.parameters.restore(definitions.parameters)
        services.policies.restore()
        for exchange in self._in_a_vhost(definitions.exchanges):
            arguments = decode_table(exchange.arguments)[0]
            services.vhosts[exchange.vhost].restore_exchange(exchange, arguments)
        for queue in self._in_a_vhost(definitions.queues):
            services.vhosts[queue.vhost].restore_queue(queue, decode_table(queue.arguments)[0])
        for binding in self._in_a_vhost(definitions.bindings):
            arguments = decode_table(binding.arguments)[0]
            services.vhosts[binding.vhost].restore_binding(binding, arguments)

    def _in_a_vhost(self, rows: Sequence[InVhost]) -> Iterator[InVhost]:
        """The rows whose vhost is there; it may be missing if the metadata are damaged."""
        for row in rows:
            if row.vhost in self.services.vhosts:
                yield row
            else:
                logger.error("%r is left out: there is no vhost %r", row, row.vhost)

    # Virtual hosts

    def add_vhost(
        self, name: str, description: str = "", tags: str = "", maker: str = ""
    ) -> VirtualHost:
        """A new vhost, with the predeclared exchanges.

        tags: separated by commas. maker: the user who may do everything in it, as in RabbitMQ.
        """
        self._metadata.put_vhost(VhostRow(name, description, tags))
        vhost = self._new_vhost(name)
        vhost.description, vhost.tags = description, tags
        vhost_created(vhost, acting_user.get())
        if self.services.users.get(maker) is not None:
            self.services.permissions.set(PermissionRow(name, maker, ".*", ".*", ".*"))
        return vhost

    def describe_vhost(self, vhost: VirtualHost) -> None:
        """Keep what was changed of a vhost; but for its tracing, which a restart ends."""
        self._metadata.put_vhost(VhostRow(vhost.name, vhost.description, vhost.tags))
        vhost_updated(vhost, acting_user.get())

    @property
    def store(self) -> Store | None:
        """Where messages are kept; None if nothing is to survive."""
        return self._store

    @property
    def cluster_name(self) -> str:
        """A global parameter, or else the configuration's, or else the node's own name."""
        named = self.services.parameters.get(GLOBAL, NO_VHOST, CLUSTER_NAME)
        return str(named or self.config.cluster_name or self.config.node_name)

    def _new_vhost(self, name: str) -> VirtualHost:
        services = self.services
        vhost = VirtualHost(
            name, services.turns, services.clock, self._metadata, self._store, self.policing,
            services.counts, self.config.is_as_rabbitmq_4, services.events,
        )  # fmt: skip
        services.vhosts[name] = vhost
        return vhost

    def delete_vhost(self, name: str) -> None:
        """The vhost goes, with all in it; its connections are closed."""
        vhost = self.services.vhosts.pop(name)
        self._metadata.delete_vhost(name)
        self.services.permissions.forget_vhost(name)
        self.services.parameters.forget_vhost(name)
        self.services.policies.forget_vhost(name)
        for connection in tuple(self.connections):
            if connection.login is None and connection.vhost is vhost:
                connection.force_close(f"vhost '{name}' is deleted")
        vhost.delete()
        self.tracing.forget_vhost(vhost)
        self.traces.forget_vhost(name)
        vhost_deleted(vhost, acting_user.get())

    # Watching

    def _alarms_changed(self) -> None:
        for connection in tuple(self.connections):
            connection.alarms_changed()

    def _congestion_changed(self) -> None:
        for connection in tuple(self.connections):
            connection.congestion_changed()

    def _disk_filled(self, is_full: bool) -> None:
        """The store could not write for lack of space, or can again."""
        if is_full:
            self.services.alarms.set(DISK, "store")
        else:
            self.services.alarms.clear(DISK, "store")

    def _store_failed(self, error: Exception) -> None:
        """Nothing can be promised any more: whoever runs the broker has to stop it."""
        if not self.failure.done():
            self.failure.set_result(error)

    def _permissions_changed(self) -> None:
        """What publishers looked up may not be theirs to use any more."""
        for vhost in self.services.vhosts.values():
            vhost.routes_changed()

    def _watch_consumers(self) -> None:
        """Look, once a minute, for clients that sit on deliveries for too long."""
        if self.config.consumer_timeout_ms is None:
            return
        self._check_consumers(self.config.consumer_timeout_ms)
        self._consumer_timer = self.services.clock.call_later_ms(
            CONSUMER_TIMEOUT_CHECK_MS, self._watch_consumers
        )

    def _check_consumers(self, timeout_ms: int) -> None:
        for connection in tuple(self.connections):
            connection.check_consumer_timeout(timeout_ms)

    # Stopping

    async def stop(self) -> None:
        """Close the listeners, tell every client why, and wait a moment for their answers."""
        if self._consumer_timer is not None:
            self._consumer_timer.cancel()
        for monitor in self.monitors:
            monitor.stop()
        self.certificates.stop()
        for server in (*self._servers, *self._tls_servers):
            server.close()
        for connection in tuple(self.connections):
            connection.force_close(SHUTDOWN_REASON)
        await self._connections_end(STOP_SECONDS_MAX)
        for connection in tuple(self.connections):
            connection.abort()
        await self._connections_end(ABORT_SECONDS_MAX)
        for vhost in self.services.vhosts.values():
            vhost.close()
        # Nothing happens any more that traces would have to be told.
        self.tracing.stop()
        await self.traces.stop()
        if self._store is not None:
            await self._store.close()
        self._metadata.close()
        await self.services.access.close()

    async def _connections_end(self, seconds_max: float) -> None:
        deadline = asyncio.get_running_loop().time() + seconds_max
        while self.connections and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.005)


def _addresses(servers: Sequence[asyncio.Server]) -> list[Listener]:
    return [Listener(*socket.getsockname()[:2]) for server in servers for socket in server.sockets]
