"""What clients see of queues that live on another node, and of the end of the link to it."""

import asyncio

import pytest
from pamqp import commands

from leveret.mgmt.definitions.contents import DefinitionLists
from leveret.mgmt.definitions.importing import Import
from leveret.mgmt.node_facade.facade import NodeFacade
from tests.linked_brokers import LinkedBrokers
from tests.patience import PATIENCE_SECONDS
from tests.protocol.raw_client import method_bytes, opened, publish_bytes, wait_until

CAN_CANCEL = {"capabilities": {"consumer_cancel_notify": True}}
CONTENT_AT = len(method_bytes(1, commands.Basic.Publish, exchange="", routing_key="q"))
DOWN = "home node 'b@host' of durable queue 'q' in vhost '/' is down or inaccessible"


@pytest.fixture
def linked(broker):
    """The broker's cluster: all queues live on the other node."""
    loop = broker.call(lambda _: asyncio.get_running_loop())
    linked = broker.call(lambda embedded: LinkedBrokers(embedded.broker))
    asyncio.run_coroutine_threadsafe(linked.start(), loop).result(PATIENCE_SECONDS)
    return linked


@pytest.fixture
def client(broker, linked):
    with opened(broker, client_properties=CAN_CANCEL) as client:
        yield client


def declare(client, **arguments):
    client.send_method(1, commands.Queue.Declare, queue="q", **arguments)
    return client.read_method(1, commands.Queue.DeclareOk)


def far_counts(broker, linked):
    return broker.call(lambda _: linked.queue("q").figures.counts())


def test_the_end_of_the_link(broker, linked, client):
    declare(client, durable=True)
    client.send_method(1, commands.Basic.Consume, queue="q", consumer_tag="c")
    client.read_method(1, commands.Basic.ConsumeOk)
    client.send(publish_bytes(1, "q", b"hello"))
    client.read_content(1, commands.Basic.Deliver)
    broker.call(lambda _: linked.unlink())
    assert client.read_method(1, commands.Basic.Cancel).consumer_tag == "c"
    counts = far_counts(broker, linked)
    assert (counts.ready, counts.unacked, counts.consumers) == (1, 0, 0)
    # The client may still acknowledge earlier deliveries, which has no effect.
    client.send_method(1, commands.Basic.Ack, delivery_tag=1)
    client.send_method(1, commands.Queue.Declare, queue="q", passive=True)
    close = client.read_method(1, commands.Channel.Close)
    assert (close.reply_code, close.reply_text) == (404, f"NOT_FOUND - {DOWN}")


def test_publishes_that_were_not_confirmed_are_refused(broker, linked, client):
    declare(client, durable=True)
    client.send_method(1, commands.Confirm.Select)
    client.read_method(1, commands.Confirm.SelectOk)
    broker.call(lambda _: linked.stop_delivering())
    client.send(publish_bytes(1, "q", b"one") + publish_bytes(1, "q", b"two"))
    wait_until(lambda: broker.call(lambda _: linked.is_waiting))
    broker.call(lambda _: linked.unlink())
    nack = client.read_method(1, commands.Basic.Nack)
    assert (nack.delivery_tag, nack.multiple) == (2, True)


def test_mandatory_messages_are_returned_while_the_node_is_down(broker, linked, client):
    declare(client, durable=True)
    broker.call(lambda _: linked.unlink())
    client.send_method(1, commands.Basic.Publish, exchange="", routing_key="q", mandatory=True)
    client.send(publish_bytes(1, "q", b"hello")[CONTENT_AT:])
    assert client.read_content(1, commands.Basic.Return).body == b"hello"
    broker.call(lambda _: linked.link())
    client.send(publish_bytes(1, "q", b"again"))
    assert declare(client, durable=True).message_count == 1


def test_an_exclusive_queue_goes_with_its_connection(broker, linked):
    with opened(broker) as client:
        declare(client, exclusive=True)
        assert broker.call(lambda _: linked.queue("q").is_exclusive)
        with opened(broker) as other:
            other.send_method(1, commands.Queue.Declare, queue="q", passive=True)
            assert other.read_method(1, commands.Channel.Close).reply_code == 405
    wait_until(lambda: not broker.call(lambda _: linked.far.services.vhosts["/"].queues))


def test_an_exclusive_queue_goes_with_the_node_of_its_connection(broker, linked, client):
    declare(client, exclusive=True)
    broker.call(lambda _: linked.unlink())
    wait_until(lambda: not broker.call(lambda _: linked.far.services.vhosts["/"].queues))


async def give_way():
    """An import goes on in the next turn."""


def test_imported_queues_have_a_home_as_declared_ones_have(broker, linked):
    definitions = DefinitionLists({"queues": [{"name": "q", "vhost": "/", "durable": True}]})
    loop = broker.call(lambda _: asyncio.get_running_loop())
    steps = broker.call(lambda it: Import(NodeFacade(it.broker), definitions, give_way).run())
    asyncio.run_coroutine_threadsafe(steps, loop).result(PATIENCE_SECONDS)
    assert broker.call(lambda _: linked.queue("q").placement.node) == "b@host"
