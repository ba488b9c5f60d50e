"""One node for all tests of a worker; each test has a vhost of its own in it."""

import itertools
from contextlib import suppress

import pika
import pytest

from tests.mgmt.node import ServedNode

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def node(tmp_path_factory):
    served = ServedNode(tmp_path_factory.mktemp("node"))
    yield served
    served.stop()


@pytest.fixture
def vhost(node):
    name = f"v{next(_numbers)}"
    assert node.put(f"vhosts/{name}").status == 201
    yield name
    node.delete(f"vhosts/{name}")


@pytest.fixture
def channel(node, vhost):
    """A channel of a real client in the test's vhost."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.port, vhost))
    yield connection.channel()
    with suppress(pika.exceptions.AMQPError):
        # A test may have had it closed.
        connection.close()
