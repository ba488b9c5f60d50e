"""Methods that ask a queue which answers later: the channel waits, in order and not for ever."""

import pytest
from pamqp import commands

from tests.later_queue import DELAY_MS, LATER_QUEUES
from tests.protocol.raw_client import opened, publish_bytes, side_of_broker, wait_until

OPERATION_TIMEOUT_S = 15


@pytest.fixture
def later(timeless):
    """A broker whose queues answer when the test moves its clock by `DELAY_MS`."""
    timeless.call(lambda embedded: embedded.broker.services.queue_kinds.add(LATER_QUEUES))
    return timeless


@pytest.fixture
def client(later):
    with opened(later) as client:
        yield client


def queue_named(name):
    return lambda embedded: embedded.broker.services.vhosts["/"].queues.get(name)


def serve_later_queues(embedded):
    embedded.broker.services.queue_kinds.add(LATER_QUEUES)


def asked(broker, name, count):
    """Wait until a number of requests are in the queue's mailbox."""
    wait_until(
        lambda: broker.call(lambda embedded: len(queue_named(name)(embedded).mailbox)) >= count
    )


def pass_time(broker):
    """What was asked is answered."""
    broker.call(lambda embedded: embedded.advance(DELAY_MS / 1000))


def declared(broker, client, name, **arguments):
    client.send_method(1, commands.Queue.Declare, queue=name, **arguments)
    wait_until(lambda: broker.call(queue_named(name)) is not None)
    asked(broker, name, 1)
    pass_time(broker)
    return client.read_method(1, commands.Queue.DeclareOk)


def ready_count(broker, name):
    return broker.call(lambda embedded: queue_named(name)(embedded).backing.ready_count)


def test_a_method_is_answered_when_the_queue_answers(later, client):
    assert declared(later, client, "q").message_count == 0
    client.send(publish_bytes(1, "q", b"hello"))
    client.send_method(1, commands.Basic.Get, queue="q", no_ack=True)
    asked(later, "q", 2)
    pass_time(later)
    assert client.read_content(1, commands.Basic.GetOk).body == b"hello"


def test_other_channels_go_on(later, client):
    declared(later, client, "q")
    client.send_method(2, commands.Channel.Open)
    client.read_method(2, commands.Channel.OpenOk)
    client.send_method(1, commands.Basic.Get, queue="q")
    asked(later, "q", 1)
    client.send_method(2, commands.Basic.Qos, prefetch_count=1)
    client.read_method(2, commands.Basic.QosOk)
    pass_time(later)
    client.read_method(1, commands.Basic.GetEmpty)


def test_what_follows_on_the_channel_keeps_its_order(later, client):
    declared(later, client, "q")
    client.send_method(1, commands.Queue.Purge, queue="q")
    client.send(publish_bytes(1, "q", b"after the purge"))
    client.send_method(1, commands.Basic.Get, queue="q", no_ack=True)
    asked(later, "q", 1)
    pass_time(later)
    assert client.read_method(1, commands.Queue.PurgeOk).message_count == 0
    asked(later, "q", 2)
    pass_time(later)
    assert client.read_content(1, commands.Basic.GetOk).body == b"after the purge"


def test_a_queue_that_never_answers_costs_the_channel(later, client):
    declared(later, client, "q")
    later.call(lambda embedded: queue_named("q")(embedded).fall_silent())
    client.send_method(1, commands.Basic.Get, queue="q")
    asked(later, "q", 1)
    later.call(lambda embedded: embedded.advance(OPERATION_TIMEOUT_S))
    close = client.read_method(1, commands.Channel.Close)
    assert close.reply_code == 406
    assert "15000 ms" in close.reply_text
    assert (close.class_id, close.method_id) == (60, 70)


def test_a_message_for_a_channel_that_has_ended_goes_back(later, client):
    declared(later, client, "q")
    client.send(publish_bytes(1, "q", b"hello"))
    asked(later, "q", 1)
    pass_time(later)
    client.send_method(1, commands.Basic.Get, queue="q")
    asked(later, "q", 1)
    later.call(lambda embedded: side_of_broker(embedded, client).abort())
    wait_until(lambda: later.call(lambda embedded: not embedded.broker.connections))
    pass_time(later)
    asked(later, "q", 1)
    pass_time(later)
    assert ready_count(later, "q") == 1


def test_a_consumer_of_a_channel_that_has_ended_is_cancelled(later, client):
    declared(later, client, "q")
    client.send_method(1, commands.Basic.Consume, queue="q", consumer_tag="c")
    asked(later, "q", 1)
    later.call(lambda embedded: side_of_broker(embedded, client).abort())
    wait_until(lambda: later.call(lambda embedded: not embedded.broker.connections))
    pass_time(later)
    asked(later, "q", 1)
    pass_time(later)
    assert not later.call(lambda embedded: queue_named("q")(embedded).ring.consumers)


def test_a_confirm_comes_when_the_queue_has_the_message(later, client):
    declared(later, client, "q")
    client.send_method(1, commands.Confirm.Select)
    client.read_method(1, commands.Confirm.SelectOk)
    client.send(publish_bytes(1, "q", b"one") + publish_bytes(1, "q", b"two"))
    asked(later, "q", 1)
    pass_time(later)
    ack = client.read_method(1, commands.Basic.Ack)
    assert (ack.delivery_tag, ack.multiple) == (2, True)


def test_a_queue_that_dies_refuses_what_it_holds(later, client):
    declared(later, client, "q")
    client.send_method(1, commands.Confirm.Select)
    client.read_method(1, commands.Confirm.SelectOk)
    client.send(publish_bytes(1, "q", b"one") + publish_bytes(1, "q", b"two"))
    asked(later, "q", 1)
    later.call(lambda embedded: queue_named("q")(embedded).holder.die(is_settled=False))
    nack = client.read_method(1, commands.Basic.Nack)
    assert (nack.delivery_tag, nack.multiple) == (2, True)


def test_deleting_the_queue_settles_what_it_holds(later, client):
    declared(later, client, "q")
    client.send_method(1, commands.Confirm.Select)
    client.read_method(1, commands.Confirm.SelectOk)
    client.send(publish_bytes(1, "q", b"one"))
    asked(later, "q", 1)
    later.call(
        lambda embedded: embedded.broker.services.vhosts["/"].delete_queue(
            queue_named("q")(embedded)
        )
    )
    assert client.read_method(1, commands.Basic.Ack).delivery_tag == 1


def test_a_transaction_is_committed_when_every_queue_has_it(later, client):
    declared(later, client, "one")
    declared(later, client, "two")
    client.send_method(1, commands.Tx.Select)
    client.read_method(1, commands.Tx.SelectOk)
    client.send(publish_bytes(1, "two", b"x") + publish_bytes(1, "one", b"x"))
    client.send_method(1, commands.Tx.Commit)
    asked(later, "one", 1)
    later.call(lambda embedded: queue_named("one")(embedded).holder.die(is_settled=False))
    pass_time(later)
    close = client.read_method(1, commands.Channel.Close)
    assert (close.reply_code, close.reply_text) == (
        406,
        "PRECONDITION_FAILED - partial tx completion",
    )
