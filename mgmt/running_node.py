"""The node as operators see it: a broker that can be stopped and started, and its statistics.

The HTTP API, the metrics and the control socket all work on a `RunningNode`. While its broker is
stopped (`stop_app`) the process stays, and only those routes of the control socket answer that are
about the node itself.
"""

import asyncio
import logging
import shutil
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from leveret.broker.auth.identity import Identity
from leveret.broker.config import Config, Listener
from leveret.broker.config.plugins import FILE_NAME as ENABLED_PLUGINS_FILE
from leveret.broker.node.broker import Broker
from leveret.broker.resources.disk_monitor import DiskMonitor, free_bytes
from leveret.broker.resources.file_descriptors import open_descriptors
from leveret.broker.resources.memory_measures import resident_bytes
from leveret.broker.resources.memory_monitor import (
    MemoryMonitor,
    memory_limit_bytes,
    total_memory_bytes,
)
from leveret.broker.runtime.loop_watch import LoopWatch
from leveret.broker.runtime.system_clock import SystemClock
from leveret.broker.tracing.traces import TRACE_DIRECTORY
from leveret.cluster.links.addresses import ADDRESSES_FILE
from leveret.cluster.links.cookie import COOKIE_FILE
from leveret.cluster.links.incarnation import INCARNATION_FILE
from leveret.cluster.node.cluster_node import ClusterNode
from leveret.cluster.partitions.leftovers.files import DIRECTORY as DISCARDED_DIRECTORY
from leveret.cluster.startup.joining import StoppedNode
from leveret.cluster.startup.start_as import NORMALLY, StartAs
from leveret.mgmt.analysis.trace_analyses import TraceAnalyses
from leveret.mgmt.events.audit import AuditLog
from leveret.mgmt.log.recent_lines import RecentLines
from leveret.mgmt.node_facade.facade import NodeFacade
from leveret.mgmt.slices import Slices
from leveret.mgmt.standby.follower import Follower
from leveret.mgmt.statistics.sampler import Sampler
from leveret.mgmt.statistics.series import Row
from leveret.storage.disk.data_directory import LOCK_FILE

NODE = ("mem_used", "fd_used", "sockets_used", "proc_used", "disk_free")
"""The columns of the node's series."""
METADATA_FILE = "metadata.sqlite"
NOTHING_EXPORTED = (-1, "")
KEPT_ON_RESET = (
    LOCK_FILE, "control.socket", "audit.log", TRACE_DIRECTORY, COOKIE_FILE, INCARNATION_FILE,
    ADDRESSES_FILE, DISCARDED_DIRECTORY, ENABLED_PLUGINS_FILE,
)  # fmt: skip

logger = logging.getLogger("leveret")

MakeBroker = Callable[[], Broker]


class CertificateFiles(NamedTuple):
    """The files of a TLS listener: its own certificate, and the certificates that it trusts."""

    certfile: Path | None
    cacertfile: Path | None


class NodeError(Exception):
    """The node cannot perform the operation in its present state."""


class StartEnded(NodeError):
    """The broker did not start, since `stop_broker` was called before it was up."""


class RunningNode:
    """A broker in its process.

    broker: None while it is stopped. facade: the broker as management reads it, or None.
    is_booting: it is being started. is_under_maintenance: clients were disconnected and are refused
    (`drain`). listeners: the open ports with their protocols; the code that opens a port adds it,
    and its certificates. memory_watermark: the one that was set at run time instead of the
    configured one. exported: how much had been declared before the last export of all definitions,
    and its ETag. recent_log: the last lines of the log, if it has no file. rebalancing: the leaders
    of queues are being spread over the nodes. users_passed_on: users whose requests other nodes are
    answering, by the numbers under which they are known there. analyses: those of its trace logs,
    which end when the broker stops. enabled_plugins: those that were
    enabled since the process started, for the next start of the broker; None if they are as
    configured. stop_requested: set when the process
    has to end.
    """

    def __init__(self, config: Config, make_broker: MakeBroker, data_dir: Path | None) -> None:
        self.config = config
        self.data_dir = data_dir
        self.broker: Broker | None = None
        self.facade: NodeFacade | None = None
        self.is_booting = False
        self.is_under_maintenance = False
        self.memory_watermark: tuple[str, float] | None = None
        self.exported: tuple[int, str] = NOTHING_EXPORTED
        self.stop_requested = asyncio.Event()
        self.started_at_s = time.time()
        self.listeners: list[tuple[str, Listener]] = []
        self.certificates: dict[str, CertificateFiles] = {}
        self.rotate_logs: Callable[[], object] = lambda: None
        self.recent_log: RecentLines | None = None
        self.cluster: ClusterNode | None = None
        self.audit = AuditLog(None if data_dir is None else data_dir / "audit.log")
        self.analyses = TraceAnalyses(data_dir)
        self.rebalancing: asyncio.Task[None] | None = None
        self.users_passed_on: dict[int, Identity] = {}
        self.enabled_plugins: tuple[str, ...] | None = None
        self.after_start: Callable[[Broker], Coroutine[Any, Any, None]] | None = None
        self.give_way = Slices().give_way
        self._make_broker = make_broker
        self._start_as = NORMALLY
        # Held by code that starts or stops the broker, or needs it to stay stopped.
        self._changing = asyncio.Lock()
        self._is_membership_changing = False
        # How many stops were requested: a start that was requested before the last one ends.
        self._stops = 0
        self._attempt: asyncio.Task[Broker] | None = None
        self._restarting: asyncio.Task[None] | None = None
        self._sampler: Sampler | None = None
        self._follower: Follower | None = None

    @property
    def name(self) -> str:
        """`leveret@host`."""
        return self.config.node_name

    @property
    def sampler(self) -> Sampler:
        """The statistics. Raises NodeError while the broker is stopped."""
        if self._sampler is None:
            raise NodeError("the broker is stopped on this node")
        return self._sampler

    @property
    def follower(self) -> Follower:
        """The follower of an upstream. Raises NodeError while the broker is stopped."""
        if self._follower is None:
            raise NodeError("the broker is stopped on this node")
        return self._follower

    # Starting and stopping

    def config_of_broker(self) -> Config:
        """The configuration for the next start of the broker."""
        if self.enabled_plugins is None:
            return self.config
        return replace(self.config, plugins=self.enabled_plugins)

    @property
    def is_stopped(self) -> bool:
        """Whether the broker is stopped, and neither being started nor being stopped."""
        return self.broker is None and not self._changing.locked()

    async def start_broker(self) -> Broker:
        """Start the broker, if it is stopped; a `restart` during the start begins it again.

        Raises StartEnded if `stop_broker` or `end_start` is called during the start.
        """
        stops = self._stops
        async with self._changing:
            return self.broker or await self._start(stops)

    async def _start(self, stops: int) -> Broker:
        """Start the broker. Raises StartEnded if it was to be stopped more often than `stops`."""
        self.is_booting = True
        try:
            while self._stops == stops:
                attempt = asyncio.get_running_loop().create_task(self._start_once())
                self._attempt = attempt
                await _ended(attempt)
                if not attempt.cancelled():
                    return attempt.result()
        finally:
            self.is_booting = False
            self._attempt = None
        error = StartEnded("the broker was stopped while it was starting")
        logger.info("%s", error)
        raise error

    async def _start_once(self) -> Broker:
        """Start a broker. If that fails or is cancelled, nothing of it is left."""
        broker = self._make_broker()
        await broker.start()
        self.attach(broker)
        try:
            if self.after_start is not None:
                await self.after_start(broker)
        except BaseException:
            await self._stop_running()
            raise
        self.follower.start()
        return broker

    def attach(self, broker: Broker) -> None:
        """Take statistics of a running broker, and stop the node when it fails."""
        self.broker = broker
        self.exported = NOTHING_EXPORTED
        broker.services.audit.listen(self.audit.add)
        self.facade = NodeFacade(broker)
        interval_ms = self.config.collect_statistics_interval_ms
        self._sampler = Sampler(self.facade, interval_ms, self.node_row)
        self._sampler.start()
        self._follower = Follower(self.facade, self.give_way, self._running_nodes)
        broker.failure.add_done_callback(lambda _: self.stop_requested.set())

    def _running_nodes(self) -> tuple[str, ...]:
        return (self.name,) if self.cluster is None else self.cluster.running

    async def stop_broker(self) -> None:
        """Stop the broker, also one that is starting; the process stays."""
        self.end_start()
        async with self._changing:
            await self._stop_running()

    def end_start(self) -> None:
        """End the broker's start; a restart under way does not start it either."""
        self._stops += 1
        self._start_as = NORMALLY
        attempt = self._attempt
        if attempt is not None and not attempt.done():
            _cancel_once(attempt)

    async def _stop_running(self) -> None:
        if self._sampler is not None:
            self._sampler.stop()
        if self._follower is not None:
            await self._follower.stop()
        await self.analyses.close()
        broker, self.broker = self.broker, None
        self.facade = None
        self._sampler = self._follower = None
        self.is_under_maintenance = False
        self.memory_watermark = None
        if broker is not None:
            await broker.stop()
        await self.audit.wait_until_written()

    def restart(self, start_as: StartAs) -> None:
        """Stop the broker and start it again, as the cluster asks for.

        If the broker is still starting, its start is cancelled. A restart that is already under way
        is not repeated, and the broker is not started if an operator stops it.
        """
        attempt = self._attempt
        if attempt is not None and not attempt.done():
            if not attempt.cancelling():
                self._start_as = start_as
                attempt.cancel()
        elif self.broker is not None and (self._restarting is None or self._restarting.done()):
            self._start_as = start_as
            steps = self._restart(self._stops)
            self._restarting = asyncio.get_running_loop().create_task(steps)

    async def _restart(self, stops: int) -> None:
        try:
            async with self._changing:
                await self._stop_running()
                await self._start(stops)
        except StartEnded:
            # An operator has stopped the broker, which stays stopped.
            return
        except Exception:
            logger.exception("the broker did not start again: the node stops")
            self.stop_requested.set()

    def take_start_as(self) -> StartAs:
        """Take the mode of the next start; later starts are as usual."""
        start_as, self._start_as = self._start_as, NORMALLY
        return start_as

    def set_under_maintenance(self, is_under_maintenance: bool) -> None:
        """Note it, and tell the other nodes of the cluster. It ends with this run of the broker."""
        self.is_under_maintenance = is_under_maintenance
        if self.cluster is not None:
            self.cluster.states.set_under_maintenance(is_under_maintenance)

    def reset(self) -> None:
        """Remove all definitions and messages. Raises NodeError unless the broker is stopped."""
        self._require_stopped()
        self._remove_data()

    def _remove_data(self) -> None:
        if self.data_dir is None:
            return
        log_directory = self.config.log.directory(self.data_dir)
        for path in self.data_dir.iterdir():
            if path.name in KEPT_ON_RESET or path.absolute() == log_directory:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        logger.warning("the node was reset: all definitions and messages are deleted")

    @asynccontextmanager
    async def while_stopped(self) -> AsyncIterator[StoppedNode]:
        """The operations on the node's membership; the broker stays stopped in the block.

        Operations that would start it or change its data wait for the end of the block or are
        refused. Raises NodeError if the broker runs.
        """
        self._require_stopped()
        if self.data_dir is None:
            raise NodeError("a node without a data directory cannot be in a cluster")
        loop = asyncio.get_running_loop()
        clock = SystemClock(loop, LoopWatch(loop.call_later))
        async with self._changing:
            self._is_membership_changing = True
            try:
                yield StoppedNode(
                    self.config, self.data_dir, clock, self.data_dir / METADATA_FILE,
                    self._remove_data,
                )  # fmt: skip
            finally:
                self._is_membership_changing = False

    def _require_stopped(self) -> None:
        if self._is_membership_changing:
            raise NodeError(
                "another command is changing the node's membership of its cluster: wait for its end"
            )
        if not self.is_stopped:
            state = "starting" if self.is_booting else "running"
            raise NodeError(f"the broker is {state}: stop it first (stop_app)")

    # After a suspension of the process (cluster/partitions/suspension.py)

    @property
    def is_holding_clients(self) -> bool:
        """Whether clients wait, since the node was suspended and does not know its place."""
        cluster = self.cluster
        return self.broker is not None and cluster is not None and cluster.suspension.is_holding

    async def place_known(self) -> None:
        """Wait until a suspended node knows whether the other nodes have gone on without it."""
        if self.broker is not None and self.cluster is not None:
            await self.cluster.suspension.place_known()

    # Resources of the process

    def node_row(self) -> Row:
        """In the order of `NODE`."""
        return (
            resident_bytes(), open_descriptors(), self.connection_count, 0, self.disk_free,
        )  # fmt: skip

    @property
    def connection_count(self) -> int:
        """How many connections clients have, also such whose handshake is not over."""
        return 0 if self.broker is None else len(self.broker.connections)

    @property
    def memory_monitor(self) -> MemoryMonitor | None:
        """None if memory is not monitored (an embedded broker)."""
        monitors = self.broker.monitors if self.broker is not None else []
        return next((one for one in monitors if isinstance(one, MemoryMonitor)), None)

    @property
    def disk_monitor(self) -> DiskMonitor | None:
        """None if the disk is not monitored."""
        return None if self.broker is None else self.broker.disk_monitor

    @property
    def memory_limit(self) -> int:
        """The memory limit (high watermark), in bytes."""
        monitor = self.memory_monitor
        return (
            monitor.limit_bytes if monitor is not None else memory_limit_bytes(self.config.memory)
        )

    @property
    def total_memory(self) -> int:
        """The memory that relative limits refer to, in bytes."""
        return total_memory_bytes(self.config.memory)

    @property
    def disk_free(self) -> int:
        """Free bytes on the file system of the data directory."""
        monitor = self.disk_monitor
        if monitor is not None and monitor.free:
            return monitor.free
        try:
            return free_bytes(self.data_dir or Path())
        except OSError:
            return 0

    @property
    def disk_limit(self) -> int:
        """Free bytes below which publishers are blocked."""
        monitor = self.disk_monitor
        return monitor.limit_bytes if monitor is not None else 0

    @property
    def cluster_id(self) -> str:
        """The id of this node's cluster; empty while the broker is stopped."""
        return "" if self.broker is None else self.broker.cluster_id

    @property
    def cluster_name(self) -> str:
        """The name that operators gave this node's cluster."""
        if self.broker is not None:
            return self.broker.cluster_name
        return self.config.cluster_name or self.name


async def _ended(task: asyncio.Task[Broker]) -> None:
    """Wait for the end of a task. A cancelled waiter cancels the task, and waits for it."""
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        _cancel_once(task)
        await asyncio.wait((task,))
        raise


def _cancel_once(task: asyncio.Task[Broker]) -> None:
    """Cancel a task, unless it is cancelled: a second cancellation would interrupt its cleanup."""
    if not task.cancelling():
        task.cancel()
