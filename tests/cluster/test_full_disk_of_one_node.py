"""The disk of one node is full: it stops with a line that says so, and the others go on."""

import os

import pytest

from tests.cluster.clustered_nodes import ClusteredNode, declare, queues
from tests.small_disk import fill, small_disk

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system")


@pytest.fixture
def disk(tmp_path):
    """A directory for a node's data on a disk of some megabytes."""
    with small_disk(tmp_path / "b", 24) as place:
        yield place


def declare_until_it_ends(node, full):
    """Declare queues on a node until another one, whose disk is full, has ended; return them."""
    names = set()
    with node.connect() as connection:
        channel = connection.channel()
        while full.process.poll() is None:
            names.add(f"q{len(names)}")
            channel.queue_declare(f"q{len(names) - 1}", durable=True)
    return names


def test_the_others_are_unharmed_and_the_node_comes_back_when_there_is_room(tmp_path, disk):
    a = ClusteredNode(tmp_path, "a")
    no_limit = {"LEVERET_DISK_FREE_LIMIT_ABSOLUTE": "0"}
    b = ClusteredNode(tmp_path, "b", environment=no_limit)
    try:
        b.join(a)
        filling = fill(disk)
        names = declare_until_it_ends(a, b)
        assert b.wait_for_end() != 0
        assert "failed to apply a declaration of the cluster on this node" in b.log
        assert "disk" in b.log
        assert "Traceback" not in b.log
        assert "a frame of node" not in b.log
        declare(a, "later")
        filling.unlink()
        b.start()
        assert queues(b) == queues(a) == names | {"later"}
    finally:
        a.stop()
        b.stop()
