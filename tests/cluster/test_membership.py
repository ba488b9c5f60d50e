"""Nodes join and leave a cluster, stop, start and come back, as processes with real clients."""

import json

import pytest

from tests.cluster.clustered_nodes import ClusteredNode, form
from tests.ports import free_ports


@pytest.fixture
def running(tmp_path):
    """Starts nodes by their names, and stops all of them."""
    nodes = []

    def start(*names):
        made = form(tmp_path, *names)
        nodes.extend(made)
        return made

    yield start
    for node in nodes:
        node.stop()


def declare(node, queue):
    with node.connect() as connection:
        connection.channel().queue_declare(queue, durable=True)


def queues(node):
    return set(node.ctl("list_queues", "name", "--no-table-headers").split())


def test_what_is_declared_on_one_node_is_on_all(running):
    a, b = running("a", "b")
    declare(a, "of-a")
    declare(b, "of-b")
    b.ctl("add_user", "bob", "secret")
    assert queues(a) == queues(b) == {"of-a", "of-b"}
    assert "bob" in a.ctl("list_users")


def test_what_the_first_node_had_before_is_on_those_that_join(running, tmp_path):
    (a,) = running("a")
    declare(a, "old")
    b = ClusteredNode(tmp_path, "b")
    try:
        declare(b, "lost")
        b.join(a)
        assert queues(b) == queues(a) == {"old"}
    finally:
        b.stop()


def test_every_node_shows_the_whole_cluster(running):
    a, b = running("a", "b")
    for node in (a, b):
        shown = json.loads(node.ctl("cluster_status", "--formatter", "json"))
        assert shown["cluster_name"] == a.name
        assert shown["disk_nodes"] == [a.name, b.name]
        assert sorted(shown["running_nodes"]) == sorted(shown["listeners"]) == [a.name, b.name]
    b.stop()
    a.wait_until(
        lambda: (
            json.loads(a.ctl("cluster_status", "--formatter", "json"))["running_nodes"] == [a.name]
        ),
        "only one node runs",
    )


def test_a_node_that_was_down_learns_what_it_missed(running):
    a, b = running("a", "b")
    b.stop()
    declare(a, "missed")
    b.start()
    assert queues(b) == {"missed"}
    a.ctl("await_online_nodes", "2")


def test_the_node_that_stopped_last_starts_alone_and_the_other_waits_for_it(running):
    a, b = running("a", "b")
    b.stop()
    declare(a, "last")
    a.stop()
    b.start(waits=False)
    b.wait_for_log("Waiting for nodes")
    a.start()
    b.wait_for_log("ready in")
    assert queues(b) == {"last"}


def test_a_node_that_waits_for_others_stops_when_it_is_told_to(running):
    a, b = running("a", "b")
    b.stop()
    a.stop()
    b.start(waits=False)
    b.wait_for_log("Waiting for nodes")
    b.stop()
    assert b.process.returncode == 0
    assert "stopped while it was starting" in b.log


def test_force_boot_starts_a_node_whose_others_are_lost(running):
    a, b = running("a", "b")
    b.ctl("stop_app")
    a.stop()
    b.ctl("force_boot")
    b.ctl("start_app")
    declare(b, "alone")
    assert queues(b) == {"alone"}


def test_a_forgotten_node_is_told_so(running):
    a, b = running("a", "b")
    assert "is running. Stop it first" in a.ctl("forget_cluster_node", b.name, succeeds=False)
    b.stop()
    a.ctl("forget_cluster_node", b.name)
    assert "is not a member of this cluster" in a.ctl("forget_cluster_node", b.name, succeeds=False)
    b.start(waits=False)
    assert b.wait_for_end() != 0
    assert f"but {a.name} disagrees" in b.log


def test_a_node_that_is_reset_leaves_the_cluster(running):
    a, b = running("a", "b")
    declare(a, "shared")
    b.ctl("stop_app")
    b.ctl("reset")
    b.ctl("start_app")
    assert queues(b) == set()
    assert "is not a member of this cluster" in a.ctl("forget_cluster_node", b.name, succeeds=False)


def test_a_node_cannot_join_itself_or_nobody(running):
    (a,) = running("a")
    a.ctl("stop_app")
    assert "cannot cluster node with itself" in a.ctl("join_cluster", a.address, succeeds=False)
    a.ctl("start_app")


def test_new_nodes_that_list_each_other_form_one_cluster(tmp_path):
    ports = dict(zip(("a", "b", "c"), free_ports(3), strict=True))
    listed = "".join(
        f"cluster_formation.classic_config.nodes.{name} = {name}@127.0.0.1:{port}\n"
        for name, port in ports.items()
    )
    file = tmp_path / "leveret.conf"
    file.write_text(listed)
    nodes = [
        ClusteredNode(tmp_path, name, "--config", file, link_port=port, waits=False)
        for name, port in ports.items()
    ]
    try:
        for node in nodes:
            node.wait_for_log("ready in")
        nodes[2].ctl("await_online_nodes", "3")
        declare(nodes[1], "shared")
        assert queues(nodes[0]) == queues(nodes[2]) == {"shared"}
    finally:
        for node in nodes:
            node.stop()
