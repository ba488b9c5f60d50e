"""Nodes that find each other in Consul remove one that is down when Consul no longer lists it."""

import signal

import pytest
from aiohttp import web

from tests.cluster.clustered_nodes import ClusteredNode, declare, members, queues
from tests.cluster.namespaces import Host
from tests.feature.served import served
from tests.unit.cluster.discovery.consul_server import ConsulServer

LIST = "GET /v1/health/service/rabbitmq"


@pytest.fixture
def consul():
    """A Consul agent in a thread."""
    server = ConsulServer()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.handle)
    with served(application) as server.url:
        yield server


@pytest.fixture
def nodes(tmp_path, consul):
    """Three nodes, on an address of the loopback interface each, which look every second."""
    file = tmp_path / "leveret.conf"
    lines = (
        "cluster_formation.peer_discovery_backend = consul",
        f"cluster_formation.consul.host = {consul.host_and_port['host']}",
        f"cluster_formation.consul.port = {consul.host_and_port['port']}",
        "cluster_formation.consul.svc_addr_auto = true",
        "cluster_formation.consul.svc_addr_use_nodename = true",
        "cluster_formation.node_cleanup.interval = 1",
        "cluster_formation.node_cleanup.only_log_warning = false",
    )
    file.write_text("\n".join(lines) + "\n")
    nodes = []
    try:
        for number in (1, 2, 3):
            directory = tmp_path / f"{number}"
            directory.mkdir()
            host = Host(f"127.0.0.{number}")
            nodes.append(
                ClusteredNode(directory, "rabbit", "--config", file, host=host, waits=False)
            )
        for node in nodes:
            node.wait_for_log(" ready in")
        yield nodes
    finally:
        for node in nodes:
            node.stop(signal.SIGKILL)


def test_a_killed_node_is_removed_when_it_is_no_longer_listed(nodes, consul):
    first, _, gone = nodes
    declare(gone, "lives-on-the-third")
    gone.stop(signal.SIGKILL)
    for node in nodes[:2]:
        node.wait_for_log(f"node {gone.name} is down")
    # A node that is down and listed may come back.
    seen = consul.lines.count(LIST)
    first.wait_until(lambda: consul.lines.count(LIST) >= seen + 4, "both have looked again")
    assert all(gone.name in members(node) for node in nodes[:2])
    assert queues(first) == {"lives-on-the-third"}
    (service,) = [key for key, one in consul.services.items() if one["Address"] == "127.0.0.3"]
    del consul.services[service]
    left = {node.name for node in nodes[:2]}
    for node in nodes[:2]:
        node.wait_until(lambda one=node: gone.name not in members(one), "the node is removed")
        assert members(node) == left
    assert queues(first) == set()
    removed = f"node {gone.name} is down and not listed by consul: it is removed from the cluster"
    assert any(removed in node.log for node in nodes[:2])
