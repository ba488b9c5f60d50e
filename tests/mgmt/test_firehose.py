"""Switching the firehose: over the HTTP API, on the command line, by a restart."""

import pika

from tests.mgmt.ctl_command import Ctl


def is_traced(node, vhost):
    return node.get(f"vhosts/{vhost}")["tracing"]


def copies(channel):
    """The routing keys of the copies of one message."""
    channel.queue_declare("copies")
    channel.queue_bind("copies", "amq.rabbitmq.trace", "#")
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"x")
    assert channel.basic_get("q", auto_ack=True)[2] == b"x"
    keys = []
    while (found := channel.basic_get("copies", auto_ack=True))[0] is not None:
        keys.append(found[0].routing_key)
    return keys


def test_over_the_api(node, vhost, channel):
    assert not is_traced(node, vhost)
    assert node.put(f"vhosts/{vhost}", {"tracing": True}).status == 204
    assert is_traced(node, vhost)
    assert copies(channel) == ["publish.", "deliver.q"]
    node.put(f"vhosts/{vhost}", {"tracing": False})
    assert copies(channel) == []


def test_a_vhost_that_is_traced_from_the_first(node):
    node.put("vhosts/new", {"tracing": True})
    assert is_traced(node, "new")
    node.delete("vhosts/new")
    node.put("vhosts/new")
    assert not is_traced(node, "new")
    node.delete("vhosts/new")


def test_changing_something_else_leaves_it_on(node, vhost):
    node.put(f"vhosts/{vhost}", {"tracing": True})
    node.put(f"vhosts/{vhost}", {"description": "traced"})
    assert is_traced(node, vhost)


def test_on_the_command_line(node, vhost, channel):
    ctl = Ctl(node)
    node.put(f"vhosts/{vhost}", {"description": "what for", "tags": "a,b"})
    assert f"Trace enabled for vhost {vhost}" in ctl("trace_on", "-p", vhost)
    assert copies(channel) == ["publish.", "deliver.q"]
    row = node.get(f"vhosts/{vhost}")
    assert (row["tracing"], row["description"], row["tags"]) == (True, "what for", ["a", "b"])
    assert f"Trace disabled for vhost {vhost}" in ctl("trace_off", "-p", vhost)
    assert copies(channel) == []
    assert node.get(f"vhosts/{vhost}")["description"] == "what for"


def test_what_management_publishes_and_gets_is_copied_too(node, vhost, channel):
    channel.queue_declare("q")
    channel.queue_declare("copies")
    channel.queue_bind("copies", "amq.rabbitmq.trace", "#")
    node.put(f"vhosts/{vhost}", {"tracing": True})
    node.publish(vhost, "q", "x")
    method, properties, body = channel.basic_get("copies", auto_ack=True)
    assert (method.routing_key, body) == ("publish.", b"x")
    assert properties.headers["user"] == "guest"


def test_a_restart_ends_it_and_keeps_the_messages(own_node):
    own_node.put("vhosts/%2F", {"tracing": True})
    address = pika.ConnectionParameters("127.0.0.1", own_node.port)
    with pika.BlockingConnection(address) as connection:
        channel = connection.channel()
        channel.queue_declare("kept", durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", "kept", b"x", pika.BasicProperties(delivery_mode=2))
    own_node.stop()
    own_node.start()
    assert not is_traced(own_node, "%2F")
    with pika.BlockingConnection(address) as connection:
        channel = connection.channel()
        assert channel.basic_get("kept", auto_ack=True)[2] == b"x"
        assert copies(channel) == []
