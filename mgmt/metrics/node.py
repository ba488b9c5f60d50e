"""The metrics of the node itself: what its process takes, what its store does, and who it is.

Where RabbitMQ tells of Erlang's runtime, Python's has its say if it has something of the kind: runs
of the garbage collector, context switches, actors that wait for their turn. What it has not
(reductions, reclaimed bytes, numbers of processes) is left out.
"""

import gc
import resource
import time

from broker.net.handshake import COMPATIBLE_VERSION
from mgmt.metrics import families as names
from mgmt.metrics.text import Exposition, Row, render_labels
from mgmt.node import Node, file_limit
from mgmt.views.connections import open_connections

RABBITMQ_PREFIX = "rabbitmq_"
PROTOCOL = (("protocol", "amqp091"),)
NO_STORE: Row = (0,) * len(names.STORE)


def add_node(page: Exposition, node: Node) -> None:
    """All of it."""
    add_process(page, node)
    add_alarms(page, node)
    add_churn(page, node)
    add_coarse(page, node)
    add_limits(page, node)
    add_store(page, node)
    add_auth(page, node)
    add_totals(page, node)
    page.add(names.UNREACHABLE, 0)
    add_identity(page, node)


def add_process(page: Exposition, node: Node) -> None:
    """What Prometheus's own libraries tell of a process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    page.add(names.PROCESS_START, round(node.started_at_s, 3), prefix="")
    page.add(names.PROCESS_CPU, round(used.ru_utime + used.ru_stime, 3), prefix="")


def add_alarms(page: Exposition, node: Node) -> None:
    """Which are in force; file descriptors have none."""
    alarms = node.sampler.broker.services.alarms
    page.add_row(names.ALARMS, (0, int(alarms.has("disk")), int(alarms.has("memory"))))


def add_churn(page: Exposition, node: Node) -> None:
    """What came and went."""
    page.add_row(names.CHURN, node.sampler.churn_row())


def add_coarse(page: Exposition, node: Node) -> None:
    """What the process has in use."""
    memory, files, sockets, _, free = node.node_row()
    collections = sum(generation["collections"] for generation in gc.get_stats())
    used = resource.getrusage(resource.RUSAGE_SELF)
    switches = used.ru_nvcsw + used.ru_nivcsw
    page.add_row(names.NODE_COARSE, (files, sockets, memory, free, collections, switches))


def add_limits(page: Exposition, node: Node) -> None:
    """What it may have, how busy it is and since when."""
    waiting = node.sampler.broker.services.turns.waiting
    uptime_s = round(time.time() - node.started_at_s, 3)
    page.add_row(
        names.NODE,
        (file_limit(), file_limit(), node.memory_limit, node.disk_limit, waiting, uptime_s),
    )


def add_store(page: Exposition, node: Node) -> None:
    """What the store has done to files. It never seeks or reopens, and has no queue index."""
    broker = node.sampler.broker
    store = broker.store
    if store is None:
        page.add_row(names.STORE, NO_STORE)
        return
    done, bodies = store.disk.counts, store.bodies
    page.add_row(names.STORE, (
        done.reads, done.read_bytes, done.writes, done.write_bytes, done.syncs, 0, 0,
        0, broker.services.metadata.changes, bodies.reads, bodies.writes, 0, 0,
        done.read_seconds, done.write_seconds, done.sync_seconds, 0.0,
    ))  # fmt: skip


def add_auth(page: Exposition, node: Node) -> None:
    """Logins."""
    limiter = node.sampler.broker.services.access.limiter
    succeeded, failed = limiter.succeeded, limiter.failed
    row = (succeeded + failed, succeeded, failed)
    page.add_row(names.AUTH, row, render_labels(PROTOCOL))


def add_auth_by_source(page: Exposition, node: Node) -> None:
    """Logins by the address that they came from."""
    limiter = node.sampler.broker.services.access.limiter
    attempts = limiter.by_address()
    labels = [render_labels((("remote_address", address), *PROTOCOL)) for address in attempts]
    rows = [(one.succeeded + one.failed, one.succeeded, one.failed) for one in attempts.values()]
    page.add_table(names.AUTH_BY_SOURCE, range(3), labels, rows)


def add_totals(page: Exposition, node: Node) -> None:
    """How many there are of what."""
    sampler = node.sampler
    connections = open_connections(sampler)
    vhosts = sampler.broker.services.vhosts.values()
    page.add_row(names.TOTALS, (
        len(connections),
        sum(len(one.channels) for one in connections),
        sum(len(queue.ring.consumers) for vhost in vhosts for queue in vhost.queues.values()),
        sum(len(vhost.queues) for vhost in vhosts),
    ))  # fmt: skip


def add_identity(page: Exposition, node: Node) -> None:
    """What dashboards join everything else with."""
    build = (
        ("rabbitmq_version", COMPATIBLE_VERSION),
        ("prometheus_plugin_version", COMPATIBLE_VERSION),
        ("prometheus_client_version", "0"),
        ("erlang_version", "0"),
    )
    identity = (
        ("rabbitmq_node", node.name),
        ("rabbitmq_cluster", node.cluster_name),
        ("rabbitmq_cluster_permanent_id", node.cluster_name),
    )
    page.add(names.BUILD_INFO, 1, render_labels(build), prefix=RABBITMQ_PREFIX)
    page.add(names.IDENTITY_INFO, 1, render_labels(identity), prefix=RABBITMQ_PREFIX)
