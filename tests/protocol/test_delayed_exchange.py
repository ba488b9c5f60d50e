"""x-delayed-message: messages are routed after a delay."""

import pytest
from pamqp import commands

from tests.protocol.raw_client import opened


@pytest.fixture
def client(timeless):
    """A client with a delaying exchange `later`, and a queue bound to it by the key `k`."""
    with opened(timeless) as client:
        declare_exchange(client, "later", "direct")
        client.declare("q")
        client.bind("q", "later", "k")
        yield client


def declare_exchange(client, name, inner):
    arguments = {"x-delayed-type": ("S", inner)}
    client.declare_exchange(name, "x-delayed-message", arguments=arguments)


def publish_later(client, body, delay, routing_key="k", **properties):
    headers = {"x-delay": delay} if delay is not None else {}
    client.publish(1, routing_key, body, exchange="later", headers=headers, **properties)


def ready(client, queue="q"):
    return client.declare(queue, passive=True).message_count


def test_a_message_waits_for_its_time(timeless, client):
    publish_later(client, b"x", ("I", 5000))
    assert ready(client) == 0
    timeless.advance(4.999)
    assert ready(client) == 0
    timeless.advance(0.001)
    message = client.take("q")
    assert message.body == b"x"
    assert (message.method.exchange, message.method.routing_key) == ("later", "k")
    assert message.properties["headers"] == {"x-delay": ("I", -5000)}


@pytest.mark.parametrize(
    "delay", [None, ("I", 0), ("I", -1), ("S", "soon"), ("l", 2**32), ("V", None)]
)
def test_a_message_without_a_delay_goes_on_at_once(delay, client):
    publish_later(client, b"x", delay)
    assert ready(client) == 1


@pytest.mark.parametrize(
    "delay",
    [("I", 1000), ("s", 1000), ("l", 1000), ("u", 1000), ("S", "1000"), ("d", 1000.5),
     ("D", (1, 10_000))],
)  # fmt: skip
def test_a_delay_may_be_any_number(delay, timeless, client):
    publish_later(client, b"x", delay)
    assert ready(client) == 0
    timeless.advance(0.999)
    assert ready(client) == 0
    timeless.advance(0.001)
    assert ready(client) == 1


def test_messages_come_in_the_order_of_their_times(timeless, client):
    client.consume("q", no_ack=True)
    for body, delay in [(b"c", 3000), (b"a", 1000), (b"b", 2000), (b"d", 3000)]:
        publish_later(client, body, ("I", delay))
    assert ready(client) == 0
    timeless.advance(10)
    bodies = [client.read_content(1, commands.Basic.Deliver).body for _ in range(4)]
    assert bodies == [b"a", b"b", b"c", b"d"]


def test_the_bindings_at_the_time_of_release_count(timeless, client):
    publish_later(client, b"x", ("I", 1000), routing_key="new")
    client.declare("new")
    client.bind("new", "later", "new")
    timeless.advance(1)
    assert client.get("new") == b"x"
    assert ready(client) == 0


def test_a_message_is_lost_with_its_exchange(timeless, client):
    publish_later(client, b"x", ("I", 1000))
    client.call(
        1,
        commands.Exchange.Delete,
        commands.Exchange.DeleteOk,
        exchange="later",
        if_unused=False,
        nowait=False,
    )
    declare_exchange(client, "later", "direct")
    client.bind("q", "later", "k")
    timeless.advance(2)
    assert ready(client) == 0


def test_a_message_outlives_its_publisher(timeless, client):
    with opened(timeless) as publisher:
        publish_later(publisher, b"x", ("I", 1000))
        assert ready(publisher) == 0
    timeless.advance(1)
    assert client.get("q") == b"x"


def test_a_delayed_message_is_confirmed_at_once(client):
    client.call(1, commands.Confirm.Select, commands.Confirm.SelectOk)
    publish_later(client, b"x", ("I", 1000))
    assert client.read_method(1, commands.Basic.Ack).delivery_tag == 1


def test_a_time_to_live_begins_when_the_delay_is_over(timeless, client):
    publish_later(client, b"x", ("I", 5000), expiration="1000")
    assert ready(client) == 0
    timeless.advance(5.5)
    assert ready(client) == 1
    timeless.advance(0.5)
    assert ready(client) == 0


@pytest.mark.parametrize("properties", [{}, {"delivery_mode": 2, "priority": 3, "message_id": "m"}])
def test_other_properties_stay_as_they_are(properties, timeless, client):
    publish_later(client, b"x", ("I", 1), **properties)
    assert ready(client) == 0
    timeless.advance(1)
    message = client.take("q")
    assert message.properties == {**properties, "headers": {"x-delay": ("I", -1)}}


@pytest.mark.parametrize("arguments", [{}, {"x-delayed-type": ("I", 1)}])
def test_the_inner_type_must_be_named(arguments, client):
    closed = client.call(
        1,
        commands.Exchange.Declare,
        commands.Channel.Close,
        exchange="nameless",
        exchange_type="x-delayed-message",
        arguments=arguments,
    )
    assert closed.reply_code == 406
    assert closed.reply_text == (
        "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type"
    )
    assert (closed.class_id, closed.method_id) == (40, 10)
