"""The broker: composes its parts, opens its listeners, and shuts down in order.

`Broker` needs a running event loop and nothing else: no process of its own, no signals, no global
state. `leveret serve` (mgmt/cli) runs one in a process; `EmbeddedBroker` (leveret/testing) runs
one inside a test.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Protocol, TypeVar

from leveret.broker.amqp.content_header import read_stored
from leveret.broker.amqp.errors import Fault
from leveret.broker.auth.access_control import AccessControl
from leveret.broker.auth.backends.chain import build_chain
from leveret.broker.auth.backends.internal import InternalBackend
from leveret.broker.config import Config, Listener
from leveret.broker.declarations.audit import Audit
from leveret.broker.declarations.decided_replacements import DECIDED_REPLACEMENT
from leveret.broker.declarations.values import Declaration, PutExchange, PutQueue
from leveret.broker.events.alarm_events import AlarmEvents
from leveret.broker.events.events import Events
from leveret.broker.moving.moving import Moving
from leveret.broker.net.client_listeners import ClientListeners, over_tls
from leveret.broker.net.tls import CertificateWatcher
from leveret.broker.node.initial_declarations import initial_declarations, put_new_cluster_id
from leveret.broker.node.running_plugins import RunningPlugins
from leveret.broker.node.start_progress import StartProgress
from leveret.broker.policies.parameters import (
    GLOBAL,
    INTERNAL_CLUSTER_ID,
    NO_VHOST,
    REFUSE,
    UNROUTABLE_PUBLISHES,
    VHOST_METADATA,
)
from leveret.broker.protocols.amqp091.amqp091 import AMQP, amqp091
from leveret.broker.protocols.amqp091.connection.connection import Connection
from leveret.broker.protocols.mqtt.login import PROTOCOL as MQTT
from leveret.broker.protocols.mqtt.messages import header_after_delay
from leveret.broker.protocols.mqtt.topics import Topics
from leveret.broker.protocols.mqtt.wills import retain_delayed
from leveret.broker.protocols.stream.connection import STREAM
from leveret.broker.registry import stored, tables
from leveret.broker.registry.declaration_log import LocalDeclarationLog
from leveret.broker.registry.declaration_writer import DeclarationWriter
from leveret.broker.registry.registry import Registry
from leveret.broker.resources.alarms import DISK
from leveret.broker.resources.disk_monitor import DiskMonitor, disk_limit_bytes, free_bytes
from leveret.broker.resources.memory_monitor import MemoryMonitor
from leveret.broker.retained.retained_messages import FORGET_AFTER_MS
from leveret.broker.retained.retained_work import WorkInThread
from leveret.broker.runtime.clock import Clock, Timer
from leveret.broker.runtime.loop_watch import LoopWatch
from leveret.broker.runtime.names import EXCHANGE, QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.pending_in_task import in_task
from leveret.broker.runtime.system_clock import SystemClock
from leveret.broker.runtime.turns import Turns
from leveret.broker.services.client_addresses import own_address
from leveret.broker.services.clustering import Clustering
from leveret.broker.services.services import Services
from leveret.broker.sessions.outdated_targets import OutdatedTargets
from leveret.broker.sessions.served_connection import ServedConnection
from leveret.broker.tracing.sinks import Tracing
from leveret.broker.tracing.traces import TRACE_LOG, Traces
from leveret.broker.vhost.dead_letters.worker import WorkerSettings
from leveret.broker.vhost.shard_declarations import ShardDeclarations
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.storage.disk.disk import Disk
from leveret.storage.metadata.metadata import Metadata, NoMetadata
from leveret.storage.metadata.metadata_rows import Definitions
from leveret.storage.metadata.metadata_sync import MetadataSync
from leveret.storage.retained.retained_file import RETAINED_FILE
from leveret.storage.retained.retained_transaction import RetainedLimits
from leveret.storage.store.store import Store

CONSUMER_TIMEOUT_CHECK_MS = 60_000
"""RabbitMQ checks the consumer timeout once a minute."""
NO_TIMEOUT_MS = 1 << 62
STOP_SECONDS_MAX = 3.0
"""Time limit for clients to answer connection.close when the broker stops."""
ABORT_SECONDS_MAX = 1.0
"""Time limit for aborting the connections that did not answer."""
MEGABYTE = 1_000_000
SHUTDOWN_REASON = "broker forced connection closure with reason 'shutdown'"

HEADERS_KEPT = 64
"""Messages that are read from disk share properties objects with earlier, equal messages."""

logger = logging.getLogger("leveret.broker")


Outcome = TypeVar("Outcome")


class RestoreError(Exception):
    """A stored queue or exchange has a type that this node does not have."""

    def __init__(self, declaration: Declaration, fault: Fault) -> None:
        match declaration:
            case PutQueue():
                what = resource(QUEUE, declaration.name, declaration.vhost)
            case PutExchange():
                what = resource(EXCHANGE, declaration.name, declaration.vhost)
            case _:
                what = repr(declaration)
        super().__init__(
            f"{what} cannot be restored: {fault.explanation}; if its type is of a package that was "
            "removed, install the package again"
        )


class BrokerParts(tables.Dependents, Protocol):
    """The broker, as the registry sees it."""

    def make_vhost(self, name: str) -> VirtualHost:
        """Create the object of a vhost, with the predeclared exchanges."""

    def new_storage_id(self) -> int:
        """Allocate the number under which a new queue's messages are stored; 0 without a store."""


def make_services(
    config: Config,
    metadata: Metadata,
    sync: MetadataSync,
    clock: Clock,
    turns: Turns,
    node: BrokerParts,
) -> Services:
    """Create the empty services of all connections. Raises BackendError for invalid backends."""
    events = Events(clock.wall_time_s, config.node_name)
    registry = Registry(events, node.make_vhost, node, turns.call_soon)
    internal = InternalBackend(registry.users, registry.permissions)
    audit = Audit()
    writer = DeclarationWriter(registry, metadata, node.new_storage_id, audit)
    writer.checkpoint = partial(_checkpoint, sync)
    chain = build_chain(config, clock, internal) if config.authentication.has_backends else None
    return Services(
        config=config,
        clock=clock,
        turns=turns,
        metadata=metadata,
        registry=registry,
        declarations=LocalDeclarationLog(registry, writer, sync, turns),
        declaration_writer=writer,
        access=AccessControl(config, clock, internal, chain),
        events=events,
        audit=audit,
    )


def _checkpoint(sync: MetadataSync) -> Answer[None]:
    """Have a thread checkpoint the metadata; the answer is given when that has ended."""
    answer: Answer[None] = Answer()
    sync.checkpoint(lambda: answer.give(None))
    return answer


class Broker:
    """One broker node.

    connections: the open ones. plugins: those that it has enabled. tracing: the sinks that get the
    trace events of each vhost. traces: traces to files. links: shovels and federation. clustering:
    its membership; None without one.
    """

    def __init__(
        self,
        config: Config,
        metadata: Metadata | None = None,
        clock: Clock | None = None,
        connection_type: type[Connection] = Connection,
        data_dir: Path | None = None,
        disk: Disk | None = None,
        clustering: Clustering | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        metadata = metadata if metadata is not None else NoMetadata()
        self.config = config
        self.connections: set[ServedConnection] = set()
        self._topics = Topics(config.mqtt.sparkplug)
        self._metadata = metadata
        self._consumer_timer: Timer | None = None
        watch = LoopWatch(loop.call_later)
        turns = Turns(loop, watch, None if clock is None else clock.now_ms)
        clock = clock or SystemClock(loop, watch)
        self._sync = MetadataSync(metadata, loop)
        self._sync.call_soon = turns.before_flush
        self._sync.failed = self._store_failed
        if disk is not None:
            self._sync.passed = disk.passed
        self.plugins = RunningPlugins(config)
        self.services = make_services(config, metadata, self._sync, clock, turns, self)
        self.services.open_counts.connections = self.connections
        self._outdated_targets = OutdatedTargets(turns, self.connections)
        self.clustering = clustering
        local = self.services.declarations
        assert isinstance(local, LocalDeclarationLog), "a cluster's log is made of it"
        self._local_declarations = local
        if clustering is not None:
            clustering.failed = self._store_failed
            self.services.declarations = clustering.declaration_log(
                self.services, local, self._sync
            )
        self._shards = ShardDeclarations(
            self.services.vhosts, config.node_name, self.services.declarations.submit, clock, turns
        )
        self.services.registry.policing.exchange_changed = self._shards.exchange_changed
        self._has_retained: Callable[[], bool] = lambda: False
        self._store: Store | None = None
        self.monitors: list[MemoryMonitor | DiskMonitor] = []
        if data_dir is not None:
            self._store = self._make_store(data_dir, disk)
            self.monitors = self._make_monitors(data_dir, self._store)
        self.failure: asyncio.Future[Exception] = loop.create_future()
        self.services.alarms.listen(self._alarms_changed)
        self.services.flow.listen(self._congestion_changed)
        AlarmEvents(self.services.events, self.services.alarms)
        self.certificates = CertificateWatcher(self.services.clock)
        self.listeners = ClientListeners(config, self.certificates)
        self._accept = partial(connection_type, self.services, self.connections)
        self.tracing = Tracing(self.services.message_numbers, config.node_name)
        self._prepare_retained(data_dir)
        self.traces = Traces(self.services, self.tracing, data_dir, self.disk_limit_bytes)
        self.links = Moving(self.services, self._accept, lambda: self.cluster_name)
        self.shovels, self.federation = self.links.shovels, self.links.federation
        self.services.registry.policing.policy_changed = self.federation.changed
        if clustering is not None:
            self.links.take_part_in(clustering)

    def _make_store(self, data_dir: Path, disk: Disk | None) -> Store:
        services = self.services
        clock = services.clock
        store = Store(
            data_dir,
            self._metadata,
            lru_cache(HEADERS_KEPT)(read_stored),
            wall_offset_ms=int(clock.wall_time_s() * 1000) - clock.now_ms(),
            embed_below=self.config.queue_index_embed_below_bytes,
            disk=disk,
            log_file_bytes=self.config.message_log_file_bytes,
            keeps_reserve=True,
        )
        store.log.call_soon = services.turns.before_flush
        pressure = store.pressure
        pressure.congestion_changed = lambda: services.flow.set_congested(
            pressure.is_congested, pressure.is_memory_short
        )
        pressure.disk_filled = self._disk_filled
        services.declaration_writer.disk_filled = pressure.note_full
        store.failed = self._store_failed
        return store

    def _prepare_retained(self, data_dir: Path | None) -> None:
        retained, settings = self.services.retained, self.config.retained
        retained.finds_wildcards = settings.finds_wildcards
        retained.limits = RetainedLimits(settings.messages_max, settings.bytes_max)
        retained.call_soon = self.services.turns.before_flush
        if data_dir is not None:
            loop, path = asyncio.get_running_loop(), data_dir / RETAINED_FILE
            retained.make_work = lambda: WorkInThread(path, FORGET_AFTER_MS, loop)
            self._has_retained = path.exists

    def _make_monitors(self, data_dir: Path, store: Store) -> list[MemoryMonitor | DiskMonitor]:
        config, clock, alarms = self.config, self.services.clock, self.services.alarms
        pager = store.pager
        return [
            MemoryMonitor(
                config.memory, clock, alarms,
                held=lambda: pager.memory_bytes, allow=pager.set_budget,
            ),
            DiskMonitor(
                config, clock, alarms, lambda: free_bytes(data_dir), store.pressure.note_free_bytes
            ),
        ]  # fmt: skip

    # Starting

    async def start(self) -> None:
        """Recover the declared objects and messages, then accept clients."""
        # Stored objects may be of their types.
        self.plugins.prepare()
        progress = StartProgress()
        if self._store is not None:
            self._store.open(progress.of_step("reading the log", "MB", MEGABYTE))
        if self._has_retained():
            self.services.retained.open()
        definitions = self._metadata.load()
        for problem in definitions.damaged:
            logger.error("%s", problem)
        if self.clustering is not None:
            definitions = await self._or_stop(self.clustering.prepare(definitions, self._store))
        if definitions.vhosts or definitions.parameters or definitions.damaged:
            self._restore(definitions, progress)
        else:
            # In one transaction: a vhost without a user could never be used.
            submitted = self.services.declarations.submit(*initial_declarations(self.config))
            await self._or_stop(in_task(submitted))
        if self._store is not None:
            # So no declaration waits for the disk because of its queue's storage id.
            self._metadata.reserve_storage_ids()
            self._metadata.sync()
            # Messages of a queue whose declaration is damaged are kept for a repair.
            self._store.all_restored(keeps_unclaimed=bool(definitions.damaged))
        await self._or_stop(self._open(definitions))

    async def _or_stop(self, step: Awaitable[Outcome]) -> Outcome:
        """Await a step of the start. If it fails or is cancelled, nothing stays open."""
        try:
            return await step
        except BaseException:
            await self.stop()
            raise

    async def _open(self, definitions: Definitions) -> None:
        """Wait for the other nodes of the cluster, and accept clients."""
        for restored in self.services.seen_places.unrestored:
            await in_task(restored)
        if self.clustering is not None:
            await self.clustering.start(definitions)
        if not self.cluster_id:
            # An operator has deleted it, or an earlier release made the data directory.
            await in_task(self.services.declarations.submit(put_new_cluster_id()))
        self._shards.start()
        self.traces.restore()
        for monitor in self.monitors:
            monitor.start()
        # The turns of a start delay no client.
        self.services.turns.watch.start()
        self.listeners.open(amqp091(self.config, self._accept))
        await self.plugins.start(self.services, self.connections, self.listeners)
        if self.services.interceptors:
            # Clients may have published already.
            self._exchange_types_changed()
        self.plugins.listen(self._exchange_types_changed)
        self._advertise()
        self.plugins.listen(self._advertise)
        self._watch_consumers()
        self.links.start()

    def _exchange_types_changed(self) -> None:
        for vhost in self.services.vhosts.values():
            vhost.exchange_types_changed()

    def _advertise(self) -> None:
        """Tell clients of streams, MQTT and AMQP 1.0, of all nodes, where this node serves them."""
        config, services = self.config, self.services
        for protocol, settings, addresses in (
            (STREAM, config.stream, services.client_addresses),
            (MQTT, config.mqtt, services.mqtt_addresses),
            (AMQP, config.amqp10, services.amqp10_addresses),
        ):
            plain, tls = self.listeners.of(protocol), self.listeners.of(over_tls(protocol))
            addresses.set_own(own_address(settings, config.node_name, plain, tls))

    @property
    def listening_on(self) -> Sequence[Listener]:
        """The addresses on which AMQP clients can connect, with the ports that the system chose."""
        return self.listeners.of(AMQP)

    def _restore(self, definitions: Definitions, progress: StartProgress) -> None:
        registry, counts = self.services.registry, self.services.counts
        note, total = progress.of_step("restoring queues", "queues"), len(definitions.queues)
        for declaration in stored.declarations(definitions):
            try:
                registry.apply(declaration)
            except Fault as fault:
                raise RestoreError(declaration, fault) from None
            note(counts.queues_created, total)
        # Recovered queues do not count as created.
        counts.queues_created = 0
        if total:
            messages = 0 if self._store is None else self._store.ready_count
            logger.info("restored %d queues, with %d messages in classic queues", total, messages)

    # Virtual hosts

    @property
    def store(self) -> Store | None:
        """The message store; None if nothing survives a restart."""
        return self._store

    @property
    def disk_monitor(self) -> DiskMonitor | None:
        """None if the disk is not monitored."""
        return next((one for one in self.monitors if isinstance(one, DiskMonitor)), None)

    def disk_limit_bytes(self) -> int:
        """The limit of free disk space, which can change at any time."""
        monitor = self.disk_monitor
        return disk_limit_bytes(self.config) if monitor is None else monitor.limit_bytes

    @property
    def cluster_name(self) -> str:
        """The services that all connections share."""
        return self.services.cluster_name

    @property
    def cluster_id(self) -> str:
        """The id that identifies the cluster, which it has generated at random.

        It is empty between its deletion by an operator and the next start of a node.
        """
        return str(self.services.parameters.get(GLOBAL, NO_VHOST, INTERNAL_CLUSTER_ID) or "")

    def make_vhost(self, name: str) -> VirtualHost:
        """Create the object of a vhost, with the predeclared exchanges."""
        services = self.services
        vhost = VirtualHost(
            name, services.turns, services.clock, services.declarations.submit, self._store,
            services.registry.policing, services.counts, self.config.is_as_rabbitmq_4,
            services.events, services.queue_kinds,
            WorkerSettings(
                self.config.dead_letter_worker_consumer_prefetch,
                self.config.dead_letter_worker_retry_ms,
            ),
            services.flow, services.shared_features, services.seen_places,
        )  # fmt: skip
        vhost.expiry_listener = partial(retain_delayed, services, self._topics, name)
        vhost.header_after_delay = header_after_delay
        vhost.expires_on_time = self.config.expires_on_time
        return vhost

    def new_storage_id(self) -> int:
        """Allocate the number under which a new queue's messages are stored; 0 without a store."""
        if self._store is None:
            return 0
        return self._metadata.new_storage_id(above=self._store.highest_storage_id)

    def close_connections_to(self, vhost: VirtualHost) -> None:
        """A vhost is deleted: close the connections to it."""
        for connection in tuple(self.connections):
            if connection.is_logged_in and connection.vhost is vhost:
                connection.force_close(f"vhost '{vhost.name}' is deleted")

    def close_connections_of(self, user: str) -> None:
        """A user is deleted: close its connections."""
        for connection in tuple(self.connections):
            if connection.is_logged_in and connection.user.name == user:
                connection.force_close(f"user '{user}' is deleted")

    def end_traces_of(self, vhost: VirtualHost) -> None:
        """A vhost is deleted: end its traces."""
        self.tracing.forget_vhost(vhost)
        self.traces.forget_vhost(vhost.name)
        self.links.vhost_deleted(vhost.name)
        if self.services.retained.counts(vhost.name).messages:
            self.services.retained.remove_all(vhost.name)

    def parameter_changed(self, component: str, vhost: str, name: str) -> None:
        """A parameter was put or deleted: tell traces, conversions of queues, links, and vhosts."""
        if component == TRACE_LOG:
            self.traces.log_changed(vhost, name)
        if component == DECIDED_REPLACEMENT and self.clustering is not None:
            self.clustering.replacements_changed()
        if component == VHOST_METADATA and name == UNROUTABLE_PUBLISHES:
            self._unroutable_changed(vhost)
        self.links.parameter_changed(component, vhost, name)

    def _unroutable_changed(self, name: str) -> None:
        """A vhost begins or ceases to refuse publishers that do not ask for returns."""
        vhost = self.services.vhosts.get(name)
        if vhost is not None:
            value = self.services.parameters.get(VHOST_METADATA, name, UNROUTABLE_PUBLISHES)
            vhost.refuses_unroutable = value == REFUSE
            vhost.routes_changed()

    def resource_changed(self, kind: str, vhost: str, name: str) -> None:
        """An exchange or a queue was deleted, or a queue has another home."""
        self._outdated_targets.note_deletion()
        self.federation.changed(kind, vhost, name)
        if kind == QUEUE and self.clustering is not None:
            self.clustering.queue_changed(vhost, name)

    # Watching

    def _alarms_changed(self) -> None:
        if self._store is not None:
            self._store.set_disk_short(self.services.alarms.has(DISK))
        for connection in tuple(self.connections):
            connection.alarms_changed()

    def _congestion_changed(self) -> None:
        for connection in tuple(self.connections):
            connection.congestion_changed()

    def _disk_filled(self, is_full: bool) -> None:
        """The store cannot write because the disk is full, or can write again.

        The declarations are moved into their file while there is the reserve for that: SQLite's log
        then has the room for deletions.
        """
        self.services.declaration_writer.is_disk_full = is_full
        if is_full:
            self.services.alarms.set(DISK, "store")
            self._sync.checkpoint()
        else:
            self.services.alarms.clear(DISK, "store")

    def _store_failed(self, error: Exception) -> None:
        """The store failed and no confirm can be given: the owner of the broker must stop it."""
        if not self.failure.done():
            self.failure.set_result(error)

    def _watch_consumers(self) -> None:
        """Check the consumer timeout of all connections once a minute."""
        timeout_ms = self.config.consumer_timeout_ms
        self._check_consumers(NO_TIMEOUT_MS if timeout_ms is None else timeout_ms)
        self._consumer_timer = self.services.clock.call_later_ms(
            CONSUMER_TIMEOUT_CHECK_MS, self._watch_consumers
        )

    def _check_consumers(self, timeout_ms: int) -> None:
        for connection in tuple(self.connections):
            connection.check_consumer_timeout(timeout_ms)

    # Stopping

    async def stop(self) -> None:
        """Close the listeners, send connection.close to every client, and await the answers."""
        self.services.turns.watch.stop()
        self._shards.stop()
        if self._consumer_timer is not None:
            self._consumer_timer.cancel()
        for monitor in self.monitors:
            monitor.stop()
        self.certificates.stop()
        self.listeners.close()
        await self.links.stop()
        for connection in tuple(self.connections):
            connection.force_close(SHUTDOWN_REASON)
        await self._connections_end(STOP_SECONDS_MAX)
        for connection in tuple(self.connections):
            connection.abort()
        await self._connections_end(ABORT_SECONDS_MAX)
        await self.plugins.stop()
        if self.clustering is not None:
            await self.clustering.stop()
        for vhost in self.services.vhosts.values():
            vhost.close()
        self._local_declarations.close()
        # No more trace events occur.
        self.tracing.stop()
        await self.traces.stop()
        self.services.retained.close()
        if self._store is not None:
            await self._store.close()
        await self._sync.close()
        self._metadata.close()
        await self.services.access.close()

    async def _connections_end(self, seconds_max: float) -> None:
        deadline = asyncio.get_running_loop().time() + seconds_max
        while self.connections and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.005)
