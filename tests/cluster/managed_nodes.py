"""Nodes of a cluster with the HTTP API and the metrics, each in a process of its own."""

import urllib.request

from tests.cluster.clustered_nodes import ClusteredNode
from tests.mgmt.http_api import HttpApi
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_ports


class ManagedNode(ClusteredNode, HttpApi):
    """A node with ports for the HTTP API and for metrics; its statistics are up to date."""

    def __init__(self, directory, name, *settings):
        """settings: more lines for its configuration file."""
        self.http_port, self.metrics_port = free_ports(2)
        configuration = directory / f"{name}.conf"
        lines = ["collect_statistics_interval = 200", *settings]
        configuration.write_text("\n".join(lines) + "\n")
        super().__init__(
            directory, name, "--management-port", self.http_port, "--prometheus-port",
            self.metrics_port, "--config", configuration,
        )  # fmt: skip

    def wait_to_see(self, path, is_wanted):
        """Get a resource until it is as wanted; returns it."""
        seen = []

        def look():
            seen[:] = [self.get(path)]
            return is_wanted(seen[0])

        self.wait_until(look, f"{path} is as wanted")
        return seen[0]

    def metrics(self, path="metrics"):
        """The lines of a page of metrics."""
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.metrics_port}/{path}", timeout=PATIENCE_SECONDS
        ) as answer:
            return answer.read().decode().splitlines()


def form_managed(directory, *names):
    """Start nodes, and have all join the first one."""
    nodes = [ManagedNode(directory, name) for name in names]
    for node in nodes[1:]:
        node.join(nodes[0])
    return nodes
