"""A publisher that an alarm blocks for too long gets an error."""

from dataclasses import replace

from pamqp import commands

from leveret.broker.config import Config
from leveret.testing import EmbeddedBroker
from tests.protocol.raw_client import opened

CONFIG = replace(Config(), publisher_blocked_timeout_ms=50)


def test_with_confirms_it_gets_nacks_until_the_alarm_is_over():
    with EmbeddedBroker.in_thread(CONFIG) as broker, opened(broker) as client:
        client.call(1, commands.Confirm.Select, commands.Confirm.SelectOk)
        client.declare("q")
        broker.call(lambda embedded: embedded.block_publishers())
        client.publish(1, "q", b"blocked, and refused when the time is over")
        client.read_method(0, commands.Connection.Blocked)
        assert client.read_method(1, commands.Basic.Nack).delivery_tag == 1
        client.publish(1, "q", b"refused at once")
        assert client.read_method(1, commands.Basic.Nack).delivery_tag == 2
        broker.call(lambda embedded: embedded.unblock_publishers())
        client.read_method(0, commands.Connection.Unblocked)
        client.publish(1, "q", b"taken")
        assert client.read_method(1, commands.Basic.Ack).delivery_tag == 3
        assert broker.call(lambda embedded: embedded.queue_length("q")) == 1


def test_without_confirms_its_channel_is_closed_with_the_reason():
    with EmbeddedBroker.in_thread(CONFIG) as broker, opened(broker) as client:
        client.declare("q")
        broker.call(lambda embedded: embedded.block_publishers())
        client.publish(1, "q", b"refused")
        client.read_method(0, commands.Connection.Blocked)
        closed = client.read_method(1, commands.Channel.Close)
        assert (closed.reply_code, closed.reply_text) == (
            406, "PRECONDITION_FAILED - publishing is refused: low on memory"
        )  # fmt: skip


def test_consumers_of_a_refused_publisher_go_on():
    with EmbeddedBroker.in_thread(CONFIG) as broker, opened(broker) as client:
        client.call(1, commands.Confirm.Select, commands.Confirm.SelectOk)
        client.declare("q")
        client.publish(1, "q", b"taken")
        client.read_method(1, commands.Basic.Ack)
        broker.call(lambda embedded: embedded.block_publishers())
        client.publish(1, "q", b"refused")
        client.read_method(0, commands.Connection.Blocked)
        client.read_method(1, commands.Basic.Nack)
        method, _, body = client.take("q")
        assert (method.redelivered, body) == (False, b"taken")
