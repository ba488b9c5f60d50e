"""Measures clusters of three nodes: how they form, loads, mirrors, declarations, a rejoin.

The loads are measured like those of single brokers (load_runs.py), with publishers on the first
node, consumers on the second and the queue on the third. Each cluster that is compared runs all
the time. Mirrors are brought messages by synchronisation.py. Last, a node is stopped, queues are
declared without it, and it starts again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import time

import pika

from . import clusters, generator, scenarios
from .brokers import HOST, BrokerFailed
from .clusters import Cluster
from .load_runs import run_loads
from .other_rabbitmq import root_of_other
from .plan import Plan, chosen, progress
from .samples import Results, SingleSample
from .synchronising import measure_synchronising

CLIENTS_OF_A_NODE = 5
DECLARED = 3000
DECLARED_MISSED = 10_000
FORMS_SECONDS_MAX = 2
THOUSAND_SECONDS_MAX = 1
REJOINS_SECONDS_MAX = 3
LIMIT = "--limit=600"


def run_clusters(plan: Plan, options: argparse.Namespace, results: Results) -> None:
    """Run the rows of clusters that are chosen."""
    loads = [
        load for load in scenarios.LOADS if load.is_clustered and chosen(load.name, options.only)
    ]
    names = scenarios.CLUSTER_FORMS, scenarios.CLUSTER_DECLARES, scenarios.CLUSTER_REJOINS
    wanted = {name for name, _ in (*names, scenarios.MIRRORED_SYNC) if chosen(name, options.only)}
    if options.attach or not (loads or wanted):
        return
    with contextlib.ExitStack() as stack:
        progress("clusters form")
        running = [stack.enter_context(clusters.leveret(source)) for source in options.sources]
        if not options.without_rabbitmq:
            root = root_of_other()
            for one in (None,) if root is None else (None, root):
                try:
                    running.append(stack.enter_context(clusters.rabbitmq(one)))
                except BrokerFailed as error:
                    results.notes.append(f"a cluster of RabbitMQ is missing: {error}")
        if scenarios.CLUSTER_FORMS[0] in wanted:
            _record_formation(running, results)
        run_loads(plan, loads, [cluster.broker for cluster in running], None, results)
        for cluster in running:
            if scenarios.MIRRORED_SYNC[0] in wanted:
                _measure_synchronising(plan, options, cluster, results)
            if scenarios.CLUSTER_DECLARES[0] in wanted:
                _measure_declarations(plan, cluster, results)
            if scenarios.CLUSTER_REJOINS[0] in wanted:
                _measure_rejoin(plan, cluster, results)


def _add(results: Results, title: str, cluster: Cluster, seconds: float, most: float) -> None:
    results.singles.setdefault(title, {})[cluster.name] = SingleSample(seconds, "s")
    results.limits[title] = most


def _record_formation(running: list[Cluster], results: Results) -> None:
    for cluster in running:
        title = scenarios.CLUSTER_FORMS[1]
        _add(results, title, cluster, cluster.formation_seconds, FORMS_SECONDS_MAX)


def _measure_synchronising(
    plan: Plan, options: argparse.Namespace, cluster: Cluster, results: Results
) -> None:
    count = scenarios.SYNC_MESSAGES // (scenarios.QUICK_SHARE if options.quick else 1)
    try:
        measure_synchronising(plan, cluster, results, count)
    except (generator.GeneratorFailed, pika.exceptions.AMQPError) as error:
        results.notes.append(f"{cluster.name}, {scenarios.MIRRORED_SYNC[1]}: {error!r}")


def _measure_declarations(plan: Plan, cluster: Cluster, results: Results) -> None:
    """Declare durable queues, one after the other on each of some connections to each node."""
    progress(f"{scenarios.CLUSTER_DECLARES[1]}, {cluster.name}")
    count = DECLARED // (CLIENTS_OF_A_NODE * len(cluster.nodes))
    clients = [
        subprocess.Popen(
            _declaring(plan, node.port, count, f"declared-{number}-{client}"),
            stdout=subprocess.PIPE,
        )
        for number, node in enumerate(cluster.nodes)
        for client in range(CLIENTS_OF_A_NODE)
    ]
    outputs = [client.communicate()[0] for client in clients]
    if any(client.returncode for client in clients):
        raise generator.GeneratorFailed(f"{cluster.name} did not declare the queues")
    longest = max(json.loads(output)["seconds"] for output in outputs)
    title = f"1,000 durable {scenarios.CLUSTER_DECLARES[1]}"
    _add(results, title, cluster, longest * 1000 / (count * len(clients)), THOUSAND_SECONDS_MAX)


def _declaring(plan: Plan, port: int, count: int, name: str) -> list[str]:
    words = [f"--host={HOST}", f"--port={port}", f"--declare={count}", "--durable", LIMIT]
    return [str(plan.program), *words, f"--name={name}"]


def _measure_rejoin(plan: Plan, cluster: Cluster, results: Results) -> None:
    """Declare queues while a node does not run, and start it."""
    progress(f"{scenarios.CLUSTER_REJOINS[1]}, {cluster.name}")
    first, *_, last = cluster.nodes
    last.stop()
    generator.run(plan.program, _declaring(plan, first.port, DECLARED_MISSED, "missed")[1:])
    since = time.monotonic()
    last.start()
    last.await_start()
    seconds = time.monotonic() - since
    with pika.BlockingConnection(pika.ConnectionParameters(HOST, last.port)) as connection:
        connection.channel().queue_declare(f"missed-{DECLARED_MISSED - 1}", passive=True)
    title = f"{scenarios.CLUSTER_REJOINS[1]}: {DECLARED_MISSED:,} queues"
    _add(results, title, cluster, seconds, REJOINS_SECONDS_MAX)
