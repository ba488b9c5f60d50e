"""Expiry of messages and queues."""

import pytest
from pamqp import commands

from tests.protocol.raw_client import opened, wait_until


@pytest.fixture
def client(timeless):
    """A client with a queue `dead` for dead letters."""
    with opened(timeless) as client:
        client.declare("dead")
        yield client


def declare_dying(client, queue="q", **arguments):
    """Declare a queue that dead-letters to `dead`."""
    table = {
        "x-dead-letter-exchange": ("S", ""),
        "x-dead-letter-routing-key": ("S", "dead"),
        **{f"x-{name.replace('_', '-')}": ("I", value) for name, value in arguments.items()},
    }
    client.declare(queue, arguments=table)


def ready(client, queue="q"):
    return client.declare(queue, passive=True).message_count


def read_dead(broker, client):
    """Read the next dead letter."""
    wait_until(lambda: broker.queue_length("dead"))
    client.send_method(1, commands.Basic.Get, queue="dead", no_ack=True)
    return client.read_content(1, commands.Basic.GetOk)


def exists(broker, queue):
    return broker.call(lambda embedded: queue in embedded.broker.services.vhosts["/"].queues)


# Messages


def test_messages_of_a_queue_with_a_time_to_live(timeless, client):
    declare_dying(client, message_ttl=1000)
    client.publish(1, "q", b"x")
    assert ready(client) == 1
    timeless.advance(0.999)
    assert ready(client) == 1
    timeless.advance(0.001)
    assert ready(client) == 0
    dead = read_dead(timeless, client)
    assert dead.body == b"x"
    headers = dead.properties["headers"]
    assert headers["x-first-death-reason"] == ("S", "expired")
    assert headers["x-first-death-queue"] == ("S", "q")
    assert headers["x-first-death-exchange"] == ("S", "")
    ((_, death),) = headers["x-death"][1]
    assert death["reason"] == ("S", "expired")
    assert death["queue"] == ("S", "q")
    assert death["count"] == ("l", 1)
    assert death["routing-keys"] == ("A", [("S", "q")])
    assert "original-expiration" not in death


def test_a_message_with_a_time_to_live_of_its_own(timeless, client):
    declare_dying(client)
    client.publish(1, "q", b"x", expiration="1000", message_id="m")
    client.publish(1, "q", b"forever")
    assert ready(client) == 2
    timeless.advance(1)
    assert ready(client) == 1
    dead = read_dead(timeless, client)
    assert "expiration" not in dead.properties
    assert dead.properties["message_id"] == "m"
    ((_, death),) = dead.properties["headers"]["x-death"][1]
    assert death["original-expiration"] == ("S", "1000")


@pytest.mark.parametrize(("of_queue", "of_message"), [(1000, "5000"), (5000, "1000")])
def test_the_shorter_time_counts(of_queue, of_message, timeless, client):
    declare_dying(client, message_ttl=of_queue)
    client.publish(1, "q", b"x", expiration=of_message)
    assert ready(client) == 1
    timeless.advance(0.999)
    assert ready(client) == 1
    timeless.advance(0.001)
    assert ready(client) == 0


def test_a_message_expires_only_at_the_head(timeless, client):
    declare_dying(client)
    client.publish(1, "q", b"first", expiration="5000")
    client.publish(1, "q", b"second", expiration="1000")
    assert ready(client) == 2
    timeless.advance(4)
    assert ready(client) == 2
    timeless.advance(1)
    assert ready(client) == 0
    assert read_dead(timeless, client).body == b"first"
    assert read_dead(timeless, client).body == b"second"


def test_an_expired_message_is_never_delivered(timeless, client):
    declare_dying(client)
    client.publish(1, "q", b"first")
    client.publish(1, "q", b"second", expiration="1000")
    client.publish(1, "q", b"third")
    assert ready(client) == 3
    timeless.advance(2)
    assert client.get("q") == b"first"
    assert client.get("q") == b"third"
    assert read_dead(timeless, client).body == b"second"


def test_a_delivered_message_does_not_expire_until_it_is_put_back(timeless, client):
    declare_dying(client, message_ttl=1000)
    client.consume("q")
    client.publish(1, "q", b"x")
    client.read_content(1, commands.Basic.Deliver)
    timeless.advance(10)
    assert ready(client, "dead") == 0
    client.send_method(1, commands.Basic.Nack, delivery_tag=1, multiple=False, requeue=True)
    assert read_dead(timeless, client).body == b"x"


def test_a_time_to_live_of_nothing_at_the_beginning_of_time(client):
    declare_dying(client)
    client.publish(1, "q", b"never", expiration="0")
    assert ready(client) == 0


def test_a_time_to_live_of_nothing_means_now_or_never(timeless, client):
    timeless.advance(1)
    declare_dying(client)
    client.publish(1, "q", b"never", expiration="0")
    assert ready(client) == 0
    assert read_dead(timeless, client).body == b"never"
    client.consume("q", no_ack=True)
    client.publish(1, "q", b"now", expiration="0")
    assert client.read_content(1, commands.Basic.Deliver).body == b"now"


def test_many_messages_expire_together(timeless, client):
    declare_dying(client, message_ttl=1000)
    for number in range(3000):
        client.publish(1, "q", b"%d" % number)
    assert ready(client) == 3000
    timeless.advance(1)
    wait_until(lambda: timeless.queue_length("dead") == 3000)
    assert ready(client) == 0
    assert [client.get("dead") for _ in range(3)] == [b"0", b"1", b"2"]


def test_what_expires_twice_is_counted_and_does_not_go_in_circles(timeless, client):
    table = {"x-message-ttl": ("I", 1000), "x-dead-letter-exchange": ("S", "")}
    client.declare("a", arguments={**table, "x-dead-letter-routing-key": ("S", "b")})
    client.declare("b", arguments={**table, "x-dead-letter-routing-key": ("S", "a")})
    client.publish(1, "a", b"x")
    assert ready(client, "a") == 1
    timeless.advance(1)
    wait_until(lambda: timeless.queue_length("b") == 1)
    timeless.advance(1)
    assert ready(client, "b") == 0
    client.declare("later")  # the dead-lettering is complete
    assert ready(client, "a") == 0


# Queues


def test_a_queue_that_is_not_used_is_deleted(timeless, client, caplog):
    declare_dying(client, "unused", expires=1000)
    client.publish(1, "unused", b"x")
    client.declare("other")
    timeless.advance(0.999)
    assert exists(timeless, "unused")
    timeless.advance(0.001)
    assert not exists(timeless, "unused")
    # Messages of a deleted queue are not dead-lettered.
    assert ready(client, "dead") == 0
    assert [line for line in caplog.messages if "unused" in line and "deleted" in line]


def test_declaring_and_getting_are_using(timeless, client):
    declare_dying(client, "used", expires=1000)
    timeless.advance(0.9)
    declare_dying(client, "used", expires=1000)
    timeless.advance(0.9)
    ready(client, "used")
    timeless.advance(0.9)
    assert client.get("used") is None
    timeless.advance(0.9)
    assert exists(timeless, "used")
    timeless.advance(0.1)
    assert not exists(timeless, "used")


def test_publishing_is_not_using(timeless, client):
    declare_dying(client, "published to", expires=1000)
    timeless.advance(0.9)
    client.publish(1, "published to", b"x")
    client.declare("other")
    timeless.advance(0.1)
    assert not exists(timeless, "published to")


def test_a_queue_with_a_consumer_is_used(timeless, client):
    declare_dying(client, "consumed", expires=1000)
    client.consume("consumed", consumer_tag="c")
    timeless.advance(100)
    assert exists(timeless, "consumed")
    client.call(1, commands.Basic.Cancel, commands.Basic.CancelOk, consumer_tag="c", nowait=False)
    timeless.advance(0.999)
    assert exists(timeless, "consumed")
    timeless.advance(0.001)
    assert not exists(timeless, "consumed")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("x-message-ttl", ("I", -1), "{value_negative,-1}"),
        ("x-expires", ("I", 0), "{value_zero,0}"),
        ("x-expires", ("I", -5), "{value_negative,-5}"),
        ("x-message-ttl", ("l", 315_360_000_001), "{value_too_large,315360000001}"),
    ],
)
def test_times_that_make_no_sense(name, value, problem, client):
    closed = client.call(
        1, commands.Queue.Declare, commands.Channel.Close, queue="q", arguments={name: value}
    )
    assert closed.reply_code == 406
    assert closed.reply_text == (
        f"PRECONDITION_FAILED - invalid arg '{name}' for queue 'q' in vhost '/': {problem}"
    )


@pytest.mark.parametrize(
    ("expiration", "problem"),
    [
        ("soon", "no_integer"),
        ("", "no_integer"),
        ("10s", '{leftover_string,"s"}'),
        ("-1", "{value_negative,-1}"),
        ("315360000001", "{value_too_large,315360000001}"),
    ],
)
def test_expirations_that_make_no_sense(expiration, problem, client):
    client.publish(1, "dead", b"x", expiration=expiration)
    closed = client.read_method(1, commands.Channel.Close)
    assert (closed.reply_code, closed.class_id, closed.method_id) == (406, 60, 40)
    assert closed.reply_text == (
        f"PRECONDITION_FAILED - invalid expiration '{expiration}': {problem}"
    )
