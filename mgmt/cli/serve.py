"""`leveret serve`: one broker in a process of its own, until a signal stops it.

This is the composition root: it reads the configuration, locks the data directory, opens the
metadata store, makes the `Broker` with them, and adds management.
"""

import asyncio
import ctypes
import itertools
import logging
import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter

import uvloop

from leveret import __version__
from leveret.broker.config import Config, Listener
from leveret.broker.node.broker import Broker
from leveret.broker.resources.garbage_collections import GarbageCollections
from leveret.broker.runtime.loop_watch import LoopWatch
from leveret.broker.services.clustering import Clustering
from leveret.cluster.links.configured_links import port_of
from leveret.cluster.node.cluster_node import ClusterNode
from leveret.cluster.node.lone_node import LoneNode
from leveret.compiled import build
from leveret.mgmt.cli.freed_memory import Allocator, FreedMemory
from leveret.mgmt.cli.systemd import READY, STOPPING, tell_systemd
from leveret.mgmt.events.event_exchange import publish_events
from leveret.mgmt.log.outputs import LogOutputs
from leveret.mgmt.management import Management
from leveret.mgmt.metrics.allocators import find_mallinfo
from leveret.mgmt.running_node import METADATA_FILE, RunningNode, StartEnded
from leveret.storage.disk.data_directory import DataDirectoryLock
from leveret.storage.disk.disk import Disk, StoreError
from leveret.storage.disk.reserve import make_room_to_start
from leveret.storage.metadata.metadata import MetadataError, SqliteMetadata

CHECKPOINT_SECONDS = 30
GIVE_BACK_SECONDS = 10
LISTENERS = {
    "amqp": "AMQP", "amqp/ssl": "AMQP with TLS", "clustering": "links of other nodes",
    "mqtt": "MQTT", "mqtt/ssl": "MQTT with TLS", "stomp": "STOMP", "stomp/ssl": "STOMP with TLS",
    "http/web-mqtt": "MQTT over WebSockets", "https/web-mqtt": "MQTT over WebSockets with TLS",
    "http/web-stomp": "STOMP over WebSockets",
    "https/web-stomp": "STOMP over WebSockets with TLS",
    "stream": "the stream protocol", "stream/ssl": "the stream protocol with TLS",
}  # fmt: skip
WILDCARDS = (None, "0.0.0.0", "::")

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt (its malloc.h)."""
MAPPED_BLOCK_BYTES_MIN = 4 * 1024 * 1024
KEPT_BYTES_MAX = 32 * 1024 * 1024

logger = logging.getLogger("leveret")


def serve(config: Config) -> None:
    """Run a broker until SIGTERM or SIGINT. Raises OSError and the errors of the storage."""
    outputs = LogOutputs(config)
    started_at = perf_counter()
    logger.info(
        "Leveret %s (%s), node %s, data directory %s",
        __version__,
        build(),
        config.node_name,
        config.data_dir,
    )
    for ignored in config.settings_without_effect:
        logger.warning("%s: %s %s", ignored.place, ignored.key, ignored.reason)
    if config.advanced.not_read:
        logger.warning(
            "%s: settings that Leveret does not read from this file are ignored: %s",
            config.advanced.file, ", ".join(config.advanced.not_read),
        )  # fmt: skip
    raise_file_limit()
    keep_freed_memory()
    lock = DataDirectoryLock(config.data_dir)
    lock.acquire()
    # Before the control socket, which is a file, too.
    make_room_to_start(Path(config.data_dir))
    try:
        uvloop.run(_run(config, started_at, outputs))
    finally:
        lock.release()
        outputs.close()


async def _run(config: Config, started_at: float, outputs: LogOutputs) -> None:
    loop = asyncio.get_running_loop()
    data_dir = Path(config.data_dir)
    disk = Disk(crash_point())

    def make_broker() -> Broker:
        make_room_to_start(data_dir)
        node.cluster = None
        clustering: Clustering = LoneNode(config, data_dir)
        if port_of(config):
            clustering = node.cluster = _cluster_node(config, data_dir, node)
        metadata = SqliteMetadata(data_dir / METADATA_FILE)
        return Broker(
            node.config_of_broker(), metadata, data_dir=data_dir, disk=disk, clustering=clustering
        )

    node = RunningNode(config, make_broker, data_dir)
    node.rotate_logs = outputs.reopen
    node.recent_log = outputs.recent
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, node.stop_requested.set)
    management = Management(node)

    async def broker_started(broker: Broker) -> None:
        await outputs.attach(broker)
        await management.broker_started(broker)
        await publish_events(broker)

    node.after_start = broker_started
    await management.start_control()
    broker = await _started_unless_stopped(node)
    if broker is None and node.stop_requested.is_set():
        await management.stop()
        logger.info("stopped while it was starting")
        return
    await management.start()
    start_collections(None if broker is None else broker.services.turns.watch)
    _announce(node, started_at)
    upkeep = asyncio.gather(_checkpoint_now_and_then(node), _give_back_memory_now_and_then(node))
    await node.stop_requested.wait()
    logger.info("stopping")
    tell_systemd(STOPPING)
    # Ending management waits for requests, one of which may have caused this start.
    node.end_start()
    upkeep.cancel()
    with suppress(asyncio.CancelledError):
        await upkeep
    failure = node.broker.failure if node.broker is not None else None
    try:
        await management.stop()
    finally:
        # Even after a failure, clients are told, and the store is closed.
        await node.stop_broker()
    if failure is not None and failure.done():
        raise StoreError(f"the node stopped because its store failed: {failure.result()}")
    logger.info("stopped")


def _announce(node: RunningNode, started_at: float) -> None:
    """Tell the log and systemd that the node has started, with or without its broker."""
    for protocol, listener in node.listeners:
        logger.info("listening for %s", described(protocol, listener, node.config))
    if node.broker is None:
        logger.warning("the broker is stopped: 'leveretctl start_app' starts it")
    else:
        if not node.listeners:
            logger.warning("no port is configured: the node serves only the control socket")
        logger.info("ready in %.0f ms", (perf_counter() - started_at) * 1000)
    tell_systemd(READY)


def _cluster_node(config: Config, data_dir: Path, node: RunningNode) -> ClusterNode:
    cluster = ClusterNode(config, data_dir, node.take_start_as())
    cluster.restart_wanted = node.restart
    return cluster


async def _started_unless_stopped(node: RunningNode) -> Broker | None:
    """Start the broker, which may have to wait for other nodes.

    None if it was stopped meanwhile, by an operator or because the process has to end.
    """
    starting = asyncio.ensure_future(node.start_broker())
    stopping = asyncio.ensure_future(node.stop_requested.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        await node.stop_broker()
    try:
        return await starting
    except StartEnded:
        return None


def described(protocol: str, listener: Listener, config: Config) -> str:
    """The purpose of a listener, and its address; for management the URL of the web pages."""
    if protocol in LISTENERS or not protocol.startswith("http"):
        return f"{LISTENERS.get(protocol, protocol)} on {listener}"
    scheme, _, metrics = protocol.partition("/")
    path = config.prometheus.path if metrics else config.management.path_prefix.rstrip("/") + "/"
    is_wildcard = listener.host in WILDCARDS
    reached = Listener("localhost", listener.port) if is_wildcard else listener
    return (
        f"{'metrics' if metrics else 'web pages and the HTTP API'} on {scheme}://{reached}{path}"
        f"{' (all interfaces)' if is_wildcard else ''}"
    )


def crash_point() -> Callable[[str], None] | None:
    """For tests: kill the process when it passes a point of the store for the nth time.

    LEVERET_CRASH_AT is one of `leveret.storage.disk.disk.POINTS`, a colon and a number.
    """
    point, _, count = os.environ.get("LEVERET_CRASH_AT", "").partition(":")
    if not point:
        return None
    left = itertools.count(int(count or 1) - 1, -1)

    def passed(name: str) -> None:
        if name == point and not next(left):
            os.kill(os.getpid(), signal.SIGKILL)

    return passed


async def _checkpoint_now_and_then(node: RunningNode) -> None:
    """Checkpoint the metadata regularly, in a worker thread since that waits for the disk."""
    while True:
        await asyncio.sleep(CHECKPOINT_SECONDS)
        if node.broker is None:
            continue
        try:
            await asyncio.to_thread(node.broker.services.metadata.checkpoint)
        except MetadataError as error:
            logger.error("failed to make a checkpoint; retrying: %s", error)


async def _give_back_memory_now_and_then(node: RunningNode) -> None:
    """Give freed memory back to the system when the node has little to do."""
    info = find_mallinfo()
    if info is None:
        # Not glibc, or an old one.
        return

    def rounds() -> int:
        return 0 if node.broker is None else node.broker.services.turns.rounds

    freed = FreedMemory(Allocator(info), rounds)
    while True:
        await asyncio.sleep(GIVE_BACK_SECONDS)
        if freed.is_idle(GIVE_BACK_SECONDS):
            await asyncio.to_thread(freed.give_back)


def start_collections(watch: LoopWatch | None) -> None:
    """Collect garbage, and from now on a little at a time.

    watch: of a running broker. No client waits during the first collection, so it is not counted
    as a turn of the loop.
    """
    collections = GarbageCollections(asyncio.get_running_loop().call_later)
    if watch is not None:
        watch.stop()
    collections.start()
    if watch is not None:
        watch.start()


def keep_freed_memory() -> None:
    """Make the C library keep large freed blocks instead of returning them to the kernel at once.

    A read from a socket is a quarter of a megabyte. By default glibc maps memory for each one, and
    the kernel clears the pages: half of the CPU time of 100 KB messages
    (docs/reference/performance.md).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        # Not glibc: other C libraries have no such parameter.
        return
    mallopt(M_MMAP_THRESHOLD, MAPPED_BLOCK_BYTES_MIN)
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES_MAX)


def raise_file_limit() -> None:
    """Raise the limit on open files to the highest that the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
