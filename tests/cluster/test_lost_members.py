"""Members of quorum queues whose files are lost, old or another node's, and nodes that leave.

Each test ends with all three nodes in the cluster.
"""

import shutil
import signal

import pytest

from tests.cluster.clustered_nodes import form, queues
from tests.cluster.quorum_steps import bodies, declare, shown, wait_until_shown


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    nodes = form(tmp_path_factory.mktemp("lost"), "a", "b", "c")
    yield nodes
    for node in nodes:
        node.stop()


def come_back_empty(node, other):
    """A node without its data joins the cluster."""
    node.stop(signal.SIGKILL)
    shutil.rmtree(node.data_dir)
    node.start()
    node.join(other)


def lose_groups(node):
    """Remove what a stopped node has of groups: its log, and the rows of groups."""
    for path in (node.data_dir / "log", node.data_dir / "quorum"):
        shutil.rmtree(path)


def assert_has_everything(node, others, queue, *expected):
    """The member of a node goes on alone, and has these messages."""
    for other in others:
        node.ctl("delete_member", queue, other.name)
    wait_until_shown(node, queue, node, node)
    assert bodies(node, queue, len(expected)) == [*expected]


def test_a_node_that_is_removed_leaves_working_queues(cluster):
    a, b, c = cluster
    declare(a, "three", b"1")
    declare(c, "two", b"1", **{"x-quorum-initial-group-size": 2})
    declare(c, "only", b"1", **{"x-quorum-initial-group-size": 1})
    (other,) = set(shown(a, "two")[1]) - {c.name}
    c.stop(signal.SIGKILL)
    a.ctl_until_done("forget_cluster_node", c.name)
    assert "is deleted: its only member was on node" in a.log + b.log
    assert "only" not in queues(a)
    assert shown(a, "three")[1] == [a.name, b.name]
    (left,) = [node for node in (a, b) if node.name == other]
    wait_until_shown(a, "two", left, left)
    for queue in ("three", "two"):
        declare(a, queue, b"2", **({} if queue == "three" else {"x-quorum-initial-group-size": 2}))
        assert bodies(b, queue, 2) == [b"1", b"2"]
    # It comes back without its data, and gets members again.
    come_back_empty(c, a)
    a.ctl("grow", c.name, "all")
    assert c.name in shown(a, "two")[1]


def test_a_node_that_is_reset_leaves_its_queues(cluster):
    a, b, c = cluster
    declare(c, "left", b"1", b"2")
    for command in ("stop_app", "reset", "start_app"):
        c.ctl(command)
    assert shown(a, "left")[1] == [a.name, b.name]
    assert bodies(a, "left", 2) == [b"1", b"2"]
    c.join(a)
    a.ctl("add_member", "left", c.name)
    assert shown(c, "left")[1] == [a.name, b.name, c.name]


def test_a_member_whose_files_are_gone_gets_everything_again(cluster):
    a, b, c = cluster
    declare(a, "files", b"1", b"2")
    c.stop()
    lose_groups(c)
    c.start()
    a.wait_until(lambda: "a new member replaces it" in a.log + b.log, "it is replaced")
    assert_has_everything(c, [a, b], "files", b"1", b"2")


def test_a_member_with_a_damaged_entry_gets_everything_again(cluster):
    a, b, c = cluster
    declare(a, "damaged", b"1", b"the second message")

    def with_message():
        files = (c.data_dir / "log").glob("*.log")
        return [path for path in files if b"the second message" in path.read_bytes()]

    def have_synced():
        said = a.ctl("quorum_status", "damaged")
        return " lacks " not in said and "its lag is unknown" not in said

    # What the leader does not count on may be torn, and is not lost.
    c.wait_until(have_synced, "the leader knows that all members have the messages on their disks")
    c.stop(signal.SIGKILL)
    (path,) = with_message()
    path.write_bytes(path.read_bytes().replace(b"the second message", b"the secont message"))
    c.start()
    line = f"the member of quorum queue 'damaged' in vhost '/' on node {c.name} has lost its data"
    a.wait_until(lambda: line in a.log + b.log, "it is replaced")
    assert_has_everything(c, [a, b], "damaged", b"1", b"the second message")


def test_members_that_all_nodes_have_lost_begin_again(cluster):
    a, b, c = cluster
    declare(a, "all", b"1")
    for node in cluster:
        node.stop()
        lose_groups(node)
    for node in cluster:
        node.start(waits=False)
    for node in cluster:
        node.wait_for_log(" ready in")
    declare(b, "all", b"2")
    assert bodies(c, "all", 1) == [b"2"]
    assert "starts again without messages" in a.log


def test_a_node_with_an_old_directory_gets_what_it_lacks(cluster, tmp_path):
    a, b, c = cluster
    declare(a, "old", b"1")
    c.stop()
    shutil.copytree(c.data_dir, tmp_path / "old")
    c.start()
    declare(a, "old", b"2", b"3")
    c.wait_until(lambda: c.name in shown(c, "old")[1], "it runs")
    c.stop()
    shutil.rmtree(c.data_dir)
    shutil.copytree(tmp_path / "old", c.data_dir)
    c.start()
    assert_has_everything(c, [a, b], "old", b"1", b"2", b"3")


def test_a_directory_of_another_node_is_not_used(cluster):
    a, b, c = cluster
    declare(a, "copied", b"1")
    for node in (b, c):
        node.stop()
    shutil.rmtree(c.data_dir)
    shutil.copytree(b.data_dir, c.data_dir)
    b.start()
    c.start()
    assert "on node b@127.0.0.1, from which they were copied: this member is removed" in c.log
    assert_has_everything(c, [a, b], "copied", b"1")


def test_a_node_that_was_emptied_joins_again(cluster):
    a, b, c = cluster
    declare(c, "emptied", b"1", b"2")
    declare(c, "gone", b"1", **{"x-quorum-initial-group-size": 1})
    come_back_empty(c, a)
    assert "'emptied' in vhost '/' on node" not in a.log + b.log, "its new member is no surprise"
    assert_has_everything(c, [a, b], "emptied", b"1", b"2")
    declare(a, "gone", b"3", **{"x-quorum-initial-group-size": 1})
    assert bodies(c, "gone", 1) == [b"3"]


def test_a_queue_that_has_lost_most_members_says_what_to_do(cluster):
    a, b, c = cluster
    declare(b, "most", b"1", b"2")
    assert shown(a, "most")[0] == b.name
    for node in (c, b):
        node.stop(signal.SIGKILL)
    for node in (b, c):
        a.ctl_until_done("forget_cluster_node", node.name)
    a.wait_for_log("quorum queue 'most' in vhost '/' has no leader: most of its members are lost")
    a.ctl("force_shrink_member_to_current_member", "most")
    assert bodies(a, "most", 2) == [b"1", b"2"]
    for node in (b, c):
        come_back_empty(node, a)
