"""Commands for nodes that cannot be reached: the last node is lost, or the cluster has changed."""

import signal

from tests.cluster.clustered_nodes import ClusteredNode, declare, queues


def test_a_lost_node_is_forgotten_in_the_files_of_another_one(running):
    a, b, c = running("a", "b", "c")
    declare(a, "of-a")
    declare(c, "of-c")
    b.stop()
    a.stop()
    c.stop(signal.SIGKILL)
    own = ("--node", a.name)
    assert "is not a member of this cluster" in a.ctl(
        *own, "forget_cluster_node", "--offline", "x@127.0.0.1", succeeds=False
    )
    assert "cannot remove itself" in a.ctl(
        *own, "forget_cluster_node", "--offline", a.name, succeeds=False
    )
    a.ctl(*own, "forget_cluster_node", "--offline", c.name)
    a.start()
    assert queues(a) == {"of-a"}
    assert c.name not in a.ctl("cluster_status")
    # A member that was away learns of it like of anything else.
    b.start()
    assert queues(b) == {"of-a"}
    assert c.name not in b.ctl("cluster_status")
    c.start(waits=False)
    assert c.wait_for_end() != 0
    assert "disagrees: it was removed while it was down" in c.log


def test_the_files_of_a_running_node_are_not_touched(running):
    (a,) = running("a")
    text = a.ctl("--node", a.name, "forget_cluster_node", "--offline", "b@host", succeeds=False)
    assert "is in use by another server" in text


def test_a_node_whose_cluster_has_changed_is_told_which_node_to_ask(running, tmp_path):
    a, b = running("a", "b")
    a.ctl("stop_app")
    c = ClusteredNode(tmp_path, "c")
    try:
        c.join(b)
        b.ctl("stop_app")
        b.ctl("reset")
        declare(c, "of-c")
        assert "itself" in a.ctl("update_cluster_nodes", a.address, succeeds=False)
        a.ctl("update_cluster_nodes", c.address)
        a.ctl("start_app")
        assert queues(a) == {"of-c"}
        assert b.name not in a.ctl("cluster_status")
    finally:
        c.stop()


def test_a_node_in_no_cluster_or_in_another_one_is_told_to_join(running, tmp_path):
    a, b = running("a", "b")
    alone = ClusteredNode(tmp_path, "c")
    try:
        alone.ctl("stop_app")
        text = alone.ctl("update_cluster_nodes", a.address, succeeds=False)
        assert "the node is not in a cluster: use join_cluster" in text
        alone.ctl("start_app")
        b.ctl("stop_app")
        text = b.ctl("update_cluster_nodes", alone.address, succeeds=False)
        assert f"node {b.name} is not in the cluster of node {alone.name}" in text
    finally:
        alone.stop()
