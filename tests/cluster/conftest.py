"""Clusters for tests, each in the directory of its test."""

import pytest

from tests.cluster.clustered_nodes import form
from tests.cluster.managed_nodes import form_managed
from tests.cluster.mirrored import HA_ALL
from tests.mgmt.served_node import ServedNode


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


@pytest.fixture
def nodes(tmp_path):
    """Two nodes with the HTTP API."""
    nodes = form_managed(tmp_path, "a", "b")
    yield nodes
    for node in nodes:
        node.stop()


@pytest.fixture
def upstream(tmp_path):
    """A node outside the cluster, from which messages or declarations come."""
    (tmp_path / "upstream").mkdir()
    served = ServedNode(tmp_path / "upstream", name="upstream@localhost")
    yield served
    served.stop()
