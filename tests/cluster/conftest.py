"""Clusters for tests, each in the directory of its test."""

import pytest

from tests.cluster.clustered_nodes import form
from tests.cluster.mirrored import HA_ALL


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


@pytest.fixture
def mirroring(running):
    """Three nodes with a policy for queues whose name begins with `mirrored`."""
    nodes = running("a", "b", "c")
    nodes[0].ctl(*HA_ALL)
    return nodes
