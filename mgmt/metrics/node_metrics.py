"""The metrics of the node itself: the resources of its process, its store, and its identity.

Metrics about Erlang's runtime have Python's figures where there is a counterpart: garbage
collections, context switches, queues that wait for their turn. Those without one (reclaimed bytes,
numbers of processes) are left out.
"""

import gc
import resource
import time

from leveret.broker.auth.attempt_counts import Outcomes
from leveret.broker.protocols.amqp091.connection.handshake import COMPATIBLE_VERSION
from leveret.broker.resources.file_descriptors import descriptor_limit, sockets_max
from leveret.mgmt.metrics import families as names
from leveret.mgmt.metrics.text import Exposition, Row, render_labels
from leveret.mgmt.running_node import RunningNode

RABBITMQ_PREFIX = "rabbitmq_"
NO_STORE: Row = (0,) * len(names.STORE)


def add_node(page: Exposition, node: RunningNode, consumers: int) -> None:
    """Add all metrics of the node to a page."""
    add_alarms(page, node)
    add_churn(page, node)
    add_coarse(page, node)
    add_limits(page, node)
    add_store(page, node)
    add_auth(page, node)
    add_loop(page, node)
    add_totals(page, node, consumers)
    page.add_row(names.RETAINED, node.sampler.facade.retained.all_counts())
    page.add(names.UNREACHABLE, _unreachable_peers(node))
    if node.cluster is not None:
        page.add(names.LATE_CONFIRMS, node.cluster.late_confirms_count)
    add_identity(page, node)


def _unreachable_peers(node: RunningNode) -> int:
    """The number of nodes of the cluster that do not run, as this one sees it."""
    cluster = node.cluster
    return 0 if cluster is None else len(cluster.members.keys() - set(cluster.running))


def add_alarms(page: Exposition, node: RunningNode) -> None:
    """The alarms that are in force. There is none for file descriptors."""
    alarms = node.sampler.facade.own_alarms
    page.add_row(names.ALARMS, (0, int("disk" in alarms), int("memory" in alarms)))


def add_churn(page: Exposition, node: RunningNode) -> None:
    """Connections, channels and queues that were opened and closed, and timeouts of consumers."""
    page.add_row(names.CHURN, node.sampler.churn_row())
    counts = node.sampler.facade.counts
    page.add_row(
        names.CONSUMER_TIMEOUTS, (counts.consumer_timeout_warnings, counts.consumer_timeouts)
    )


def add_coarse(page: Exposition, node: RunningNode) -> None:
    """The resources in use."""
    memory, files, sockets, _, free = node.node_row()
    collections = sum(generation["collections"] for generation in gc.get_stats())
    used = resource.getrusage(resource.RUSAGE_SELF)
    switches = used.ru_nvcsw + used.ru_nivcsw
    page.add_row(names.NODE_COARSE, (files, sockets, memory, free, collections, switches))


def add_limits(page: Exposition, node: RunningNode) -> None:
    """The limits on resources, the queues that wait for their turn, and the uptime."""
    waiting = node.sampler.facade.loop_figures().waiting
    uptime_s = round(time.time() - node.started_at_s, 3)
    limit = descriptor_limit()
    page.add_row(
        names.NODE,
        (
            limit,
            sockets_max(limit),
            node.memory_limit,
            node.disk_limit,
            waiting,
            uptime_s,
        ),
    )


def add_store(page: Exposition, node: RunningNode) -> None:
    """The store's file operations. It never seeks or reopens files, and has no queue index."""
    facade = node.sampler.facade
    done = facade.store_figures()
    if done is None:
        page.add_row(names.STORE, NO_STORE)
        return
    page.add_row(names.STORE, (
        done.reads, done.read_bytes, done.writes, done.write_bytes, done.syncs, 0, 0,
        0, facade.metadata_changes, done.bodies_read, done.bodies_written, 0, 0,
        done.read_seconds, done.write_seconds, done.sync_seconds, 0.0,
    ))  # fmt: skip


def add_loop(page: Exposition, node: RunningNode) -> None:
    """The turns of the event loop that took too long."""
    loop = node.sampler.facade.loop_figures()
    page.add_row(names.LOOP, (loop.long_turns, loop.long_seconds, loop.waits, loop.longest_seconds))


def add_auth(page: Exposition, node: RunningNode) -> None:
    """Login attempts."""
    counts = node.sampler.facade.access.attempts.by_protocol
    labels = [render_labels((("protocol", protocol),)) for protocol in counts]
    page.add_table(names.AUTH, range(3), labels, [_outcomes(one) for one in counts.values()])


def add_auth_by_source(page: Exposition, node: RunningNode) -> None:
    """Login attempts by the client's address."""
    counts = node.sampler.facade.access.attempts.by_source
    labels = [
        render_labels((("remote_address", address), ("protocol", protocol)))
        for address, protocol in counts
    ]
    rows = [_outcomes(one) for one in counts.values()]
    page.add_table(names.AUTH_BY_SOURCE, range(3), labels, rows)


def _outcomes(counted: Outcomes) -> Row:
    return counted.succeeded + counted.failed, counted.succeeded, counted.failed


def add_totals(page: Exposition, node: RunningNode, consumers: int) -> None:
    """The numbers of connections, channels, consumers and queues of this node."""
    facade = node.sampler.facade
    connections = facade.connections()
    channel_count = sum(one.channel_count for one in connections)
    row = (len(connections), channel_count, consumers, facade.own_queue_count())
    page.add_row(names.TOTALS, row)


def add_identity(page: Exposition, node: RunningNode) -> None:
    """Versions and names, with which dashboards join all other metrics."""
    build = (
        ("rabbitmq_version", COMPATIBLE_VERSION),
        ("prometheus_plugin_version", COMPATIBLE_VERSION),
        ("prometheus_client_version", "0"),
        ("erlang_version", "0"),
    )
    identity = (
        ("rabbitmq_node", node.name),
        ("rabbitmq_cluster", node.cluster_name),
        ("rabbitmq_cluster_permanent_id", node.cluster_id),
    )
    page.add(names.BUILD_INFO, 1, render_labels(build), prefix=RABBITMQ_PREFIX)
    page.add(names.IDENTITY_INFO, 1, render_labels(identity), prefix=RABBITMQ_PREFIX)
