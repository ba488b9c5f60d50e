"""Clusters for tests, each in the directory of its test."""

import pytest

from tests.cluster.clustered_nodes import form


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
