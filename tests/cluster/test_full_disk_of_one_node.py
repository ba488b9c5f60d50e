"""The disk of one node is full: it stops with a line that says so, and the others go on."""

import os
import subprocess

import pytest

from tests.cluster.clustered_nodes import ClusteredNode

MEGABYTE = 1024 * 1024

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system")


@pytest.fixture
def small_disk(tmp_path):
    """A directory for a node's data on a disk of some megabytes."""
    place = tmp_path / "b"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def declare(node, names):
    with node.connect() as connection:
        channel = connection.channel()
        for name in names:
            channel.queue_declare(name, durable=True)


def queues(node):
    return set(node.ctl("list_queues", "name", "--no-table-headers").split())


def fill(disk):
    """Leave no room on a disk."""
    filling = disk / "filling"
    with filling.open("wb", buffering=0) as file:
        for size in (MEGABYTE, 4096):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue
    return filling


def test_the_others_are_unharmed_and_the_node_comes_back_when_there_is_room(tmp_path, small_disk):
    a = ClusteredNode(tmp_path, "a")
    no_limit = {"LEVERET_DISK_FREE_LIMIT_ABSOLUTE": "0"}
    b = ClusteredNode(tmp_path, "b", environment=no_limit)
    try:
        b.join(a)
        filling = fill(small_disk)
        names = {f"q{number}" for number in range(2000)}
        declare(a, sorted(names))
        assert b.wait_for_end() != 0
        assert "cannot be applied on this node" in b.log
        assert "disk" in b.log
        declare(a, ["later"])
        filling.unlink()
        b.start()
        assert queues(b) == queues(a) == names | {"later"}
    finally:
        a.stop()
        b.stop()
