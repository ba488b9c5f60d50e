"""A node, and another one, for all tests of a worker; each test has a vhost of its own."""

import itertools
import urllib.request
import zipfile
from contextlib import suppress
from pathlib import Path

import pika
import pytest

from tests.mgmt.node_in_process import NodeInProcess
from tests.mgmt.rabbitmq_node import rabbitmq_node
from tests.mgmt.served_node import ServedNode

_numbers = itertools.count(1)
ROOT = Path(__file__).resolve().parents[2]
RABBITMQ_PLACES = (Path("/"), ROOT / "build" / "rabbitmq")
"""Where Debian's package is installed, or where CI has unpacked it."""
PLUGINS = "usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins/rabbitmq_management-*"
SCRIPT = "priv/www/cli/rabbitmqadmin"


@pytest.fixture(scope="session")
def node(tmp_path_factory):
    served = ServedNode(tmp_path_factory.mktemp("node"))
    yield served
    served.stop()


@pytest.fixture(scope="session")
def far(tmp_path_factory):
    """Another node, which is not in a cluster with the first."""
    served = ServedNode(tmp_path_factory.mktemp("far"), name="far@localhost")
    yield served
    served.stop()


@pytest.fixture(scope="session")
def served_rabbitmqadmin(node, tmp_path_factory):
    """The program that a node serves, as a user downloads it."""
    path = tmp_path_factory.mktemp("download") / "rabbitmqadmin"
    with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/cli/rabbitmqadmin") as got:
        path.write_bytes(got.read())
    path.chmod(0o755)
    return path


@pytest.fixture(scope="session")
def rabbitmqs_own(tmp_path_factory):
    """RabbitMQ's own script, from the directory or archive of the management plugin."""
    for plugin in (found for place in RABBITMQ_PLACES for found in sorted(place.glob(PLUGINS))):
        if (plugin / SCRIPT).exists():
            return plugin / SCRIPT
        if zipfile.is_zipfile(plugin):
            path = tmp_path_factory.mktemp("script") / "rabbitmqadmin"
            with zipfile.ZipFile(plugin) as archive:
                name = next(name for name in archive.namelist() if name.endswith(SCRIPT))
                path.write_bytes(archive.read(name))
            return path
    pytest.skip("RabbitMQ's package, which has rabbitmqadmin, is neither installed nor unpacked")


@pytest.fixture
def vhost(node):
    name = f"v{next(_numbers)}"
    assert node.put(f"vhosts/{name}").status == 201
    yield name
    node.delete(f"vhosts/{name}")


@pytest.fixture
def channel(node, vhost):
    """A channel of a real client in the test's vhost.

    It answers nothing while the test waits for something else, so it has no heartbeats.
    """
    address = pika.ConnectionParameters("127.0.0.1", node.port, vhost, heartbeat=0)
    connection = pika.BlockingConnection(address)
    yield connection.channel()
    with suppress(pika.exceptions.AMQPError):
        # A test may have closed it.
        connection.close()


@pytest.fixture
async def served(tmp_path):
    """A node in the process of the test."""
    async with NodeInProcess(tmp_path) as node:
        yield node


@pytest.fixture(scope="module")
def rabbit():
    """A real RabbitMQ."""
    with rabbitmq_node() as broker:
        yield broker


@pytest.fixture
def own_node(tmp_path):
    """A node that a test may stop."""
    served = ServedNode(tmp_path)
    yield served
    served.stop()
