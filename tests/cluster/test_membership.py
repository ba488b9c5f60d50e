"""Nodes join and leave a cluster, stop, start and come back, as processes with real clients."""

import pika
import pytest

from tests.cluster.clustered_nodes import ClusteredNode, declare, queues
from tests.ports import free_ports


def test_a_declaration_on_one_node_is_made_on_all(running):
    a, b = running("a", "b")
    declare(a, "of-a")
    declare(b, "of-b")
    b.ctl("add_user", "bob", "secret")
    assert queues(a) == queues(b) == {"of-a", "of-b"}
    assert "bob" in a.ctl("list_users")


def test_objects_of_the_first_node_are_on_those_that_join(running, tmp_path):
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
        shown = node.ctl_json("cluster_status")
        assert shown["cluster_name"] == a.name
        assert shown["disk_nodes"] == [a.name, b.name]
        assert sorted(shown["running_nodes"]) == sorted(shown["listeners"]) == [a.name, b.name]
    b.stop()
    a.wait_until(
        lambda: a.ctl_json("cluster_status")["running_nodes"] == [a.name],
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
    b.wait_for_log(" ready in")
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


def test_a_node_gives_up_after_the_waits_that_are_configured(running, tmp_path):
    settings = tmp_path / "leveret.conf"
    settings.write_text(
        "mnesia_table_loading_retry_limit = 2\nmnesia_table_loading_retry_timeout = 100\n"
    )
    a, b = running("a", "b")
    b.stop()
    a.stop()
    b.start("--config", settings, waits=False)
    assert b.wait_for_end() == 1
    assert b.log.count(f"Waiting for nodes {a.name}") == 2
    assert f"Error while waiting for nodes {a.name}" in b.log
    assert "Traceback" not in b.log
    a.start()
    b.start()
    assert queues(b) == set()


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
    b.ctl("stop_app")
    a.ctl("forget_cluster_node", b.name)
    assert "is not a member of this cluster" in a.ctl("forget_cluster_node", b.name, succeeds=False)
    said = b.ctl("start_app", succeeds=False)
    assert f"but {a.name} disagrees" in said
    assert "move its data directory away" in said
    assert "Traceback" not in b.log
    b.stop()
    b.data_dir.rename(b.data_dir.with_name("away"))
    b.start()
    b.join(a)
    a.ctl("await_online_nodes", "2")


def test_a_node_that_is_reset_leaves_the_cluster(running):
    a, b = running("a", "b")
    declare(a, "shared")
    b.ctl("stop_app")
    b.ctl("reset")
    b.ctl("start_app")
    assert queues(b) == set()
    assert "is not a member of this cluster" in a.ctl("forget_cluster_node", b.name, succeeds=False)


def test_ram_nodes_route_without_a_disc_node_and_refuse_changes(running, tmp_path):
    (a,) = running("a")
    b = ClusteredNode(tmp_path, "b")
    try:
        b.join(a, "--ram")
        declare(b, "of-b")
        for command in (["change_cluster_node_type", "ram"], ["reset"]):
            a.ctl("stop_app")
            assert "the only disc node" in a.ctl(*command, succeeds=False)
            a.ctl("start_app")
        a.stop()
        b.wait_for_log(f"the link to node {a.name} is down")
        with b.connect() as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.basic_publish("", "of-b", b"routed", pika.BasicProperties(delivery_mode=2))
            with pytest.raises(pika.exceptions.AMQPError, match="no disc node is running"):
                channel.queue_declare("new", durable=True)
        assert "the only disc node" in b.ctl("forget_cluster_node", a.name, succeeds=False)
        b.stop()
        b.start(waits=False)
        b.wait_for_log(f"Waiting for nodes {a.name}")
        a.start()
        b.wait_for_log(" ready in")
        with a.connect() as connection:
            assert connection.channel().basic_get("of-b", auto_ack=True)[2] == b"routed"
    finally:
        b.stop()


def test_a_node_cannot_join_itself_or_an_unknown_node(running):
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
            node.wait_for_log(" ready in")
        nodes[2].ctl("await_online_nodes", "3")
        declare(nodes[1], "shared")
        assert queues(nodes[0]) == queues(nodes[2]) == {"shared"}
    finally:
        for node in nodes:
            node.stop()
