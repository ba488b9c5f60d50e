"""Two nodes with a mirrored queue stop, one after the other, and come back or are lost."""

import shutil
import signal

import pytest

from tests.cluster.clustered_nodes import ClusteredNode
from tests.cluster.mirrored import (
    HA_ALL,
    consumed,
    declared,
    log_of,
    publish,
    wait_until_mirrored,
    wait_until_synchronised,
)


@pytest.fixture
def stopped(running):
    """Two nodes: a has stopped with the messages 1 and 2, and b after it, with 3 as well."""
    a, b = running("a", "b")
    a.ctl(*HA_ALL)
    publisher = declared(a)
    wait_until_synchronised(a, b)
    publish(publisher, b"1", b"2")
    a.stop()
    b.wait_for_log(f"{log_of()} promoting the mirror on node {b.name} to leader")
    publish(declared(b), b"3")
    b.stop()
    return a, b


def bodies(node, count):
    return [body for body, _ in consumed(node, count)]


def forget_offline(node, lost):
    """Remove a lost node in the files of another one, which is stopped."""
    node.ctl("--node", node.name, "forget_cluster_node", "--offline", lost.name)


def test_the_first_to_stop_waits_for_the_last(stopped):
    a, b = stopped
    a.start(waits=False)
    a.wait_for_log("restored 1 queues, with 2 messages in classic queues")
    b.start()
    a.wait_for_log(" ready in")
    assert bodies(a, 3) == [b"1", b"2", b"3"]


def test_the_first_to_stop_is_lost_and_another_node_comes(stopped, tmp_path, request):
    a, b = stopped
    b.start()
    b.ctl("forget_cluster_node", a.name)
    c = ClusteredNode(tmp_path, "c")
    request.addfinalizer(c.stop)
    c.join(b)
    wait_until_mirrored(b, c)
    b.ctl("sync_queue", "mirrored")
    b.stop(signal.SIGKILL)
    assert bodies(c, 3) == [b"1", b"2", b"3"]


def test_the_last_to_stop_is_lost(stopped):
    a, b = stopped
    forget_offline(a, b)
    a.start()
    assert bodies(a, 2) == [b"1", b"2"]


@pytest.mark.parametrize(("which", "expected"), [(0, [b"1", b"2"]), (1, [b"1", b"2", b"3"])])
def test_both_are_lost_and_the_files_of_one_are_elsewhere(
    stopped, tmp_path, request, which, expected
):
    kept, lost = stopped[which], stopped[1 - which]
    shutil.copytree(kept.data_dir, tmp_path / "other" / kept.data_dir.name)
    for node in stopped:
        shutil.rmtree(node.data_dir)
    name = kept.data_dir.name
    if which == 0:
        kept.data_dir = tmp_path / "other" / name
        forget_offline(kept, lost)
    node = ClusteredNode(tmp_path / "other", name, link_port=kept.link_port)
    request.addfinalizer(node.stop)
    if which == 1:
        node.ctl("forget_cluster_node", lost.name)
    assert bodies(node, len(expected)) == expected
