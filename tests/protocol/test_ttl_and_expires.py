"""Expiry of messages and queues, as clients see it.

The rules are in tests/unit/broker/queues/test_classic_queue_expiry.py, and RabbitMQ's answers in
tests/conformance/scenarios/expiry_and_limits.py.
"""

import pytest

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
    return client.take("dead")


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
