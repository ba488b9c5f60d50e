"""An exclusive queue whose owner's machine is gone goes to a new connection of the same user."""

from dataclasses import replace

import pytest
from pamqp import commands

from leveret.broker.config import Config
from leveret.testing import EmbeddedBroker
from tests.protocol.raw_client import opened, wait_until

IS_UNANSWERED = "leveret.broker.protocols.ending.is_unanswered"


@pytest.fixture
def node():
    with EmbeddedBroker.in_thread(
        Config(takes_over_exclusive_queues=True), virtual_clock=True
    ) as node:
        yield node


@pytest.fixture
def owner(node):
    """A client with the exclusive queue `mine`, in which there is a message."""
    with opened(node) as client:
        client.declare("mine", exclusive=True)
        client.publish(1, "mine", b"old")
        client.declare("mine", exclusive=True)
        yield client


def declaring_again(node, client):
    """Declare the queue from another connection, and let the second of the probe pass."""
    client.send_method(1, commands.Queue.Declare, queue="mine", exclusive=True)
    wait_until(
        lambda: node.call(
            lambda embedded: any(
                channel.operation is not None
                for connection in embedded.broker.connections
                for channel in connection.channels.values()
            )
        )
    )
    node.advance(1)


def test_a_new_connection_gets_the_queue_of_a_dead_one(node, owner, monkeypatch, caplog):
    monkeypatch.setattr(IS_UNANSWERED, lambda transport, since_ms: since_ms == 1000)
    with opened(node) as client:
        declaring_again(node, client)
        declared = client.read_method(1, commands.Queue.DeclareOk)
        assert (declared.queue, declared.message_count) == ("mine", 0)
    assert "acknowledges nothing for 1000 ms" in caplog.text


def test_a_living_owner_keeps_its_queue(node, owner):
    """Its machine acknowledges the heartbeat that it is sent."""
    with opened(node) as client:
        declaring_again(node, client)
        assert client.read_method(1, commands.Channel.Close).reply_code == 405
    assert owner.declare("mine", exclusive=True).message_count == 1


def test_nobody_waits_for_another_user(node, owner, monkeypatch):
    monkeypatch.setattr(IS_UNANSWERED, lambda transport, since_ms: True)
    node.call(make_it_anothers)
    with opened(node) as client:
        client.send_method(1, commands.Queue.Declare, queue="mine", exclusive=True)
        assert client.read_method(1, commands.Channel.Close).reply_code == 405


def make_it_anothers(embedded):
    (connection,) = embedded.broker.connections
    connection.renew(replace(connection.user, name="bob"))
