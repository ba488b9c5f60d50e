"""An exchange that is federated to itself is noticed, whatever its cluster is called meanwhile."""

import pika
import pytest

from leveret.broker.declarations.values import Policy, PutParameter, PutPolicy
from leveret.broker.protocols.amqp091.connection import login
from leveret.testing import EmbeddedBroker
from tests.declaring import declare
from tests.protocol.raw_client import wait_until


@pytest.fixture
def broker():
    with EmbeddedBroker.in_thread() as broker:
        yield broker


def federate_to_itself(broker):
    value = {"uri": f"amqp://{broker.host}:{broker.port}", "max-hops": 3}
    upstream = PutParameter("federation-upstream", "/", "u", value)
    policy = Policy("/", "p", "^x$", "exchanges", {"federation-upstream": "u"}, 0)
    broker.call(lambda embedded: declare(embedded, upstream, PutPolicy("policy", policy)))


def name_cluster(broker, name):
    named = PutParameter("global", "", "cluster_name", name)
    broker.call(lambda embedded: declare(embedded, named))


def test_a_message_comes_once(broker, caplog):
    def is_refused(times):
        told = [line for line in caplog.messages if "exchange 'x' is its own upstream" in line]
        return len(told) == times

    with pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port)) as connection:
        channel = connection.channel()
        channel.exchange_declare("x", "topic")
        channel.queue_declare("q")
        channel.queue_bind("q", "x", "k")
        name_cluster(broker, "hares")
        federate_to_itself(broker)
        wait_until(lambda: is_refused(times=1))
        name_cluster(broker, "rabbits")
        wait_until(lambda: is_refused(times=2))
        channel.confirm_delivery()
        channel.basic_publish("x", "k", b"once")
        assert channel.queue_declare("q", passive=True).method.message_count == 1


def test_a_node_of_the_cluster_that_does_not_know_the_new_name_is_noticed(
    broker, caplog, monkeypatch
):
    """The name goes from node to node. Here the greeting has the one before."""
    properties = login.server_properties
    monkeypatch.setattr(login, "server_properties", lambda _name, compat: properties("a", compat))
    with pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port)) as connection:
        channel = connection.channel()
        channel.exchange_declare("x", "topic")
        name_cluster(broker, "rabbits")
        federate_to_itself(broker)
        wait_until(lambda: "exchange 'x' is its own upstream" in caplog.text)
