"""Clusters whose nodes are on hosts of a network of their own, which a test can cut."""

import base64
import contextlib
import json
import signal
import urllib.error
import urllib.request
from http import HTTPStatus

from pika import exceptions

from tests.cluster.clustered_nodes import ClusteredNode
from tests.cluster.namespaces import Network
from tests.patience import PATIENCE_SECONDS

AMQP_PORT, LINK_PORT, API_PORT = 5672, 25672, 15672
AUTHORIZATION = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}


class Cluster:
    """Nodes on hosts of a network, which have found each other; a context manager ends them.

    is_left_partitioned: after a partition an operator has to act.
    """

    def __init__(self, directory, count, *settings, tick_s=1):
        """settings: lines of the configuration file, with names in braces. tick_s: net_ticktime."""
        self.network = Network(count)
        self.nodes = []
        self.is_left_partitioned = False
        names = "abcde"[:count]
        file = directory / "leveret.conf"
        lines = [f"net_ticktime = {tick_s}", "loopback_users.guest = false", *settings]
        for name, host in zip(names, self.network.hosts, strict=True):
            lines.append(f"cluster_formation.classic_config.nodes.{name} = {name}@{host.address}")
        file.write_text("\n".join(lines).format(**self._names(names)) + "\n")
        try:
            for name, host in zip(names, self.network.hosts, strict=True):
                self.nodes.append(
                    ClusteredNode(
                        directory, name, "--config", file, "--management-port", API_PORT,
                        host=host, port=AMQP_PORT, link_port=LINK_PORT, waits=False,
                    )
                )  # fmt: skip
            self.wait_until_whole()
        except BaseException:
            self.close()
            raise

    def _names(self, names):
        pairs = zip(names, self.network.hosts, strict=True)
        return {name: f"{name}@{host.address}" for name, host in pairs}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        with contextlib.ExitStack() as stack:
            stack.callback(self.network.close)
            for node in self.nodes:
                stack.callback(node.stop, signal.SIGKILL)

    def cut(self, *sides):
        """Cut the network between nodes."""
        self.network.cut(*[[node.host for node in side] for side in sides])

    def wait_until_whole(self):
        """Wait until all nodes accept clients, and each sees all others."""
        for node in self.nodes:
            node.wait_until(lambda one=node: self.sees_all(one), "all nodes run together")

    def sees_all(self, node):
        return accepts(node) and running(node) == sorted(one.name for one in self.nodes)


def api(node, path, method="GET", value=None):
    """Send a request to the HTTP API of a node, with a value as JSON; return the answer."""
    request = urllib.request.Request(
        f"http://{node.host.address}:{API_PORT}/api/{path}", headers=AUTHORIZATION, method=method,
        data=None if value is None else json.dumps(value).encode(),
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        content = answer.read()
    return json.loads(content) if content else None


def running(node):
    """The nodes that run, as a node shows them; none while it is paused itself."""
    try:
        return sorted(one["name"] for one in api(node, "nodes") if one["running"])
    except (urllib.error.URLError, OSError):
        return []


def partitions(node):
    """From which nodes a node says that it is partitioned; none while its broker is stopped.

    Raises OSError while the node does not answer.
    """
    try:
        shown = api(node, "nodes")
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        return []
    (own,) = [one for one in shown if one["name"] == node.name]
    return own["partitions"]


def accepts(node):
    """Whether a node accepts clients."""
    try:
        node.connect().close()
    except exceptions.AMQPError:
        return False
    return True
