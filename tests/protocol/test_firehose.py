"""The firehose: copies of publishes and deliveries of a vhost, with RabbitMQ's headers.

The expected headers are those of RabbitMQ 3.10 for the same client, including types and order.
"""

import pytest
from pamqp import commands

from leveret.broker.amqp.properties import encode_properties
from leveret.broker.declarations.values import Policy, PutPolicy
from tests.declaring import declare
from tests.protocol.raw_client import opened, publish_bytes, wait_until

ALL_PROPERTIES = {
    "content_type": "text/plain", "content_encoding": "gzip", "headers": {"h": ("s", 1)},
    "delivery_mode": 2, "priority": 3, "correlation_id": "c", "reply_to": "r",
    "expiration": "60000", "message_id": "m", "timestamp": 1_700_000_000, "type": "t",
    "user_id": "guest", "app_id": "a", "cluster_id": "cl",
}  # fmt: skip


@pytest.fixture
def client(timeless):
    """A client whose vhost is traced, with the copies in the queue `copies`."""
    firehose(timeless, True)
    with opened(timeless) as client:
        client.declare("q")
        listen(client, "#")
        yield client


def firehose(broker, is_on):
    def switch(embedded):
        vhost = embedded.broker.services.vhosts["/"]
        embedded.broker.tracing.set_firehose(vhost, is_on)

    broker.call(switch)


def listen(client, pattern, queue="copies"):
    client.declare(queue)
    client.bind(queue, "amq.rabbitmq.trace", pattern)


def take(client, queue="copies"):
    return client.take(queue)


def get(client, queue="q"):
    return take(client, queue)


def keys_of(client):
    """Return the routing keys of the copies."""
    count = client.declare("copies", passive=True).message_count
    return [take(client).method.routing_key for _ in range(count)]


def name_of(broker, client):
    return f"{client.name} -> 127.0.0.1:{broker.port}"


def test_a_publish(timeless, client):
    client.publish(1, "q", b"body")
    copy = take(client)
    assert copy.body == b"body"
    assert (copy.method.exchange, copy.method.routing_key) == ("amq.rabbitmq.trace", "publish.")
    assert list(copy.properties) == ["headers"]
    assert list(copy.properties["headers"].items()) == [
        ("exchange_name", ("S", "")),
        ("routing_keys", ("A", [("S", "q")])),
        ("properties", ("F", {})),
        ("node", ("S", timeless.call(lambda it: it.broker.config.node_name))),
        ("vhost", ("S", "/")),
        ("connection", ("S", name_of(timeless, client))),
        ("channel", ("I", 1)),
        ("user", ("S", "guest")),
        ("routed_queues", ("A", [("S", "q")])),
    ]


def test_a_delivery(timeless, client):
    client.declare("from")
    client.publish(1, "from", b"body")
    take(client)
    get(client, "from")
    copy = take(client)
    assert copy.body == b"body"
    assert copy.method.routing_key == "deliver.from"
    assert list(copy.properties["headers"].items()) == [
        ("exchange_name", ("S", "")),
        ("routing_keys", ("A", [("S", "from")])),
        ("properties", ("F", {})),
        ("node", ("S", timeless.call(lambda it: it.broker.config.node_name))),
        ("redelivered", ("I", 0)),
        ("vhost", ("S", "/")),
        ("connection", ("S", name_of(timeless, client))),
        ("channel", ("I", 1)),
        ("user", ("S", "guest")),
    ]


def test_properties_are_fields_of_a_table_the_last_first(client):
    client.publish(1, "q", b"", **ALL_PROPERTIES)
    kind, table = take(client).properties["headers"]["properties"]
    assert kind == "F"
    assert list(table) == list(reversed(ALL_PROPERTIES))
    assert table["headers"] == ("F", {"h": ("s", 1)})
    numbers = {name: field[1] for name, field in table.items() if field[0] == "I"}
    assert numbers == {"delivery_mode": 2, "priority": 3, "timestamp": 1_700_000_000}
    texts = {name for name, field in table.items() if field[0] == "S"}
    assert texts == ALL_PROPERTIES.keys() - numbers.keys() - {"headers"}


def test_a_timestamp_that_does_not_fit_a_signed_integer_wraps(client):
    client.publish(1, "q", b"", timestamp=5_000_000_000)
    properties = take(client).properties["headers"]["properties"][1]
    assert properties == {"timestamp": ("I", 5_000_000_000 - (1 << 32))}


def test_a_redelivery(client):
    client.publish(1, "q", b"x")
    client.send_method(1, commands.Basic.Get, queue="q", no_ack=False)
    client.read_content(1, commands.Basic.GetOk)
    client.send_method(1, commands.Basic.Nack, delivery_tag=1, multiple=False, requeue=True)
    get(client)
    assert client.declare("copies", passive=True).message_count == 3
    copies = [take(client) for _ in range(3)]
    flags = [copy.properties["headers"].get("redelivered") for copy in copies]
    assert flags == [None, ("I", 0), ("I", 1)]


def test_cc_and_bcc(client):
    client.declare("r")
    keys = {"CC": ("A", [("S", "r")]), "BCC": ("A", [("S", "s")])}
    client.publish(1, "q", b"x", headers=keys)
    headers = take(client).properties["headers"]
    assert headers["routing_keys"] == ("A", [("S", "q"), ("S", "r"), ("S", "s")])
    assert headers["routed_queues"] == ("A", [("S", "q"), ("S", "r")])
    assert headers["properties"] == ("F", {"headers": ("F", {"CC": keys["CC"]})})
    assert get(client).properties["headers"] == {"CC": keys["CC"]}
    delivered = take(client).properties["headers"]
    assert delivered["routing_keys"] == headers["routing_keys"]
    assert delivered["properties"] == headers["properties"]


def test_a_run_is_copied_one_by_one(client):
    client.send(b"".join(publish_bytes(1, "q", b"%d" % place) for place in range(30)))
    assert [take(client).body for _ in range(30)] == [b"%d" % place for place in range(30)]
    client.consume("q", consumer_tag="c", no_ack=True)
    for _ in range(30):
        client.read_content(1, commands.Basic.Deliver)
    assert keys_of(client) == ["deliver.q"] * 30


def test_copies_are_not_copied_wherever_they_go(client):
    client.consume("copies", consumer_tag="c", no_ack=True)
    client.publish(1, "q", b"x")
    assert client.read_content(1, commands.Basic.Deliver).method.routing_key == "publish."
    assert client.declare("copies", passive=True).message_count == 0
    client.publish(1, "q", b"y")
    assert client.read_content(1, commands.Basic.Deliver).body == b"y"


def test_an_unroutable_message_is_copied(client):
    client.publish(1, "nowhere", b"x", "amq.topic")
    copy = take(client)
    assert copy.method.routing_key == "publish.amq.topic"
    assert copy.properties["headers"]["routed_queues"] == ("A", [])


def test_duplicates_that_a_queue_or_an_exchange_refuses(client):
    known = {"headers": {"x-deduplication-header": ("S", "a")}}
    client.declare("d", arguments={"x-message-deduplication": ("t", True)})
    client.declare("other")
    client.call(1, commands.Exchange.Declare, commands.Exchange.DeclareOk, exchange="x",
                exchange_type="x-message-deduplication", arguments={"x-cache-size": ("I", 9)},
                passive=False, durable=False, auto_delete=False, internal=False)  # fmt: skip
    client.bind("other", "x", "d")
    for exchange in ("", "", "x", "x"):
        client.publish(1, "d", exchange.encode(), exchange, **known)
    count = client.declare("copies", passive=True).message_count
    copies = [take(client) for _ in range(count)]
    told = [(one.method.routing_key, one.properties["headers"].get("reason")) for one in copies]
    assert told == [
        ("publish.", None), ("publish.", None), ("drop.d", ("S", "duplicate")),
        ("publish.x", None), ("publish.x", ("S", "duplicate")),
    ]  # fmt: skip
    assert list(copies[2].properties["headers"]) == [
        "exchange_name", "routing_keys", "properties", "node", "vhost", "reason",
    ]  # fmt: skip


def test_patterns_choose(client):
    client.call(1, commands.Queue.Unbind, commands.Queue.UnbindOk, queue="copies",
                exchange="amq.rabbitmq.trace", routing_key="#", arguments={})  # fmt: skip
    listen(client, "deliver.q")
    client.declare("r")
    for queue in ("q", "r"):
        client.publish(1, queue, b"x")
        get(client, queue)
    assert keys_of(client) == ["deliver.q"]


def test_a_binding_made_later_counts_at_once(client):
    client.publish(1, "q", b"x")
    listen(client, "publish.#", "more")
    client.publish(1, "q", b"y")
    assert take(client, "more").body == b"y"
    assert keys_of(client) == ["publish."] * 2


def is_told(broker):
    """A sink receives the events of the vhost."""
    return broker.call(lambda it: it.broker.services.vhosts["/"].tracer is not None)


def test_a_vhost_publishes_no_copies_while_nothing_is_bound(timeless):
    firehose(timeless, True)
    with opened(timeless) as client:
        assert not is_told(timeless)
        listen(client, "#")
        assert is_told(timeless)
        client.delete("copies")
        assert not is_told(timeless)


def test_an_alternate_exchange_gets_copies_that_nothing_is_bound_for(timeless):
    firehose(timeless, True)
    with opened(timeless) as client:
        client.declare("copies")
        client.bind("copies", "amq.fanout", "")
        set_alternate(timeless, "amq.fanout")
        wait_until(lambda: is_told(timeless))
        client.publish(1, "nowhere", b"x")
        assert take(client).body == b"x"


def set_alternate(broker, name):
    """Set a policy that gives the trace exchange an alternate exchange."""
    definition = {"alternate-exchange": name}
    policy = Policy("/", "p", "^amq.rabbitmq.trace$", "exchanges", definition, 0)
    broker.call(lambda it: declare(it, PutPolicy("policy", policy)))


def test_an_exchange_behind_the_trace_exchange_may_look_at_the_headers(client):
    binding = {"destination": "amq.headers", "source": "amq.rabbitmq.trace", "routing_key": "#"}
    client.call(1, commands.Exchange.Bind, commands.Exchange.BindOk, **binding, arguments={},
                nowait=False)  # fmt: skip
    for user in ("guest", "other"):
        client.declare(f"of {user}")
        client.bind(f"of {user}", "amq.headers", "", arguments={"user": ("S", user)})
    client.publish(1, "q", b"x")
    assert take(client, "of guest").method.routing_key == "publish."
    assert client.declare("of other", passive=True).message_count == 0


def test_a_queue_name_that_leaves_no_room_in_the_routing_key(client):
    name = "n" * 255
    client.declare(name)
    client.publish(1, name, b"x")
    get(client, name)
    keys = keys_of(client)
    assert keys == ["publish.", "deliver." + "n" * 247]


def test_a_name_that_is_no_text(client):
    name = b"\xff\xfe".decode("utf-8", "surrogateescape")
    client.declare(name)
    client.publish(1, name, b"x")
    assert take(client).properties["headers"]["routed_queues"] == ("A", [("S", name)])


def test_off_means_off(timeless, client):
    firehose(timeless, False)
    client.publish(1, "q", b"x")
    get(client)
    assert keys_of(client) == []


def test_a_firehose_that_is_turned_on_covers_open_connections(timeless):
    with opened(timeless) as client:
        client.declare("q")
        listen(client, "#")
        firehose(timeless, True)
        client.publish(1, "q", b"x")
        assert keys_of(client) == ["publish."]


def test_a_copy_may_fill_a_queue_that_dead_letters_it(timeless, client):
    limit = {"x-max-length": ("I", 1), "x-dead-letter-exchange": ("S", "amq.fanout")}
    client.declare("short", arguments=limit)
    client.bind("short", "amq.rabbitmq.trace", "publish.#")
    client.bind("q", "amq.fanout", "")
    for body in (b"1", b"2"):
        client.publish(1, "copies", body)
    wait_until(lambda: timeless.queue_length("q") == 1)
    assert get(client).body == b"1"


def test_properties_of_another_peer_come_through_unread(client):
    """Encoded tables within properties are copied unchanged."""
    headers = {
        "t": ("F", {"a": ("A", [("I", 1), ("F", {})])}),
        "d": ("D", (2, 5)),
        "v": ("V", None),
    }
    client.publish(1, "q", b"", headers=headers)
    properties = take(client).properties["headers"]["properties"][1]
    assert encode_properties({"headers": properties["headers"][1]}) == encode_properties(
        {"headers": headers}
    )
