"""A real RabbitMQ with federation and the HTTP API, for tests in which both brokers are linked."""

import time
from contextlib import contextmanager
from urllib.parse import quote

from tests.bench.brokers import rabbitmq
from tests.mgmt.http_api import HttpApi
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

PLUGINS = ("rabbitmq_management", "rabbitmq_federation", "rabbitmq_federation_management")


class RabbitMqNode(HttpApi):
    """name: of its cluster. It is used like a `ServedNode`."""

    def __init__(self, broker, http_port):
        self.port, self.http_port, self.pid = broker.port, http_port, broker.pid
        self.name = self.get("cluster-name")["name"]

    def wait_until(self, condition, what="it happens", seconds=PATIENCE_SECONDS):
        """Wait for a condition; the error names it, and says how its links are."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {seconds} s until {what}\n{self.links()}")
            time.sleep(0.02)

    def links(self):
        return self.get("federation-links")


@contextmanager
def rabbitmq_node(settings="", root=None):
    """Run one with a database of its own. root: of another system (bench/other_rabbitmq.py)."""
    http_port = free_port()
    settings += f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {http_port}\n"
    settings += "collect_statistics_interval = 200\n"
    with rabbitmq(
        settings, plugins=PLUGINS, choose_port=lambda preferred: free_port(), root=root
    ) as broker:
        yield RabbitMqNode(broker, http_port)


def cut_links(upstream, vhost):
    """Close the connections of links at a broker of either kind, when it shows them."""
    upstream.wait_until(lambda: _connections(upstream, vhost), "a link is connected")
    for name in _connections(upstream, vhost):
        upstream.delete(f"connections/{quote(name, safe='')}")


def _connections(upstream, vhost):
    return [
        one["name"] for one in upstream.get("connections")
        if one["vhost"] == vhost
        and "Federation" in one["client_properties"].get("connection_name", "")
    ]  # fmt: skip
