"""Messages that reach no queue: counted, kept for a look, and refused where a vhost says so."""

import json

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from tests.mgmt.ctl_command import Ctl


@pytest.fixture
def channel(node, vhost):
    node.put(f"permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    connection = pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", node.port, virtual_host=vhost)
    )
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    connection.close()


def publish(channel, exchange, key, body=b"lost", mandatory=False):
    channel.basic_publish(exchange, key, body, pika.BasicProperties(type="t"), mandatory)


def test_unroutable_messages_are_counted_and_kept(node, vhost, channel):
    publish(channel, "amq.topic", "orders.eu.1")
    publish(channel, "amq.topic", "orders.us.2", b"\xff")
    with pytest.raises(pika.exceptions.UnroutableError):
        publish(channel, "", "no-such-queue", mandatory=True)
    found = node.get(f"unroutable/{vhost}")
    assert found["messages"] == 3
    assert [(one["exchange"], one["prefix"], one["messages"]) for one in found["counts"]] == [
        ("amq.topic", "orders.", 2), ("", "no-such-queue", 1)
    ]  # fmt: skip
    by_key = {one["routing_key"]: one for one in found["items"]}
    page = node.metrics("/metrics/detailed?family=exchange_metrics&vhost=" + vhost)
    labels = f'vhost="{vhost}",exchange="amq.topic"'
    assert f"rabbitmq_detailed_exchange_messages_unroutable_total{{{labels}}} 2" in page
    first = by_key["orders.eu.1"]
    assert (first["payload"], first["user"], first["returned"]) == ("lost", "guest", False)
    assert first["properties"]["type"] == "t"
    assert by_key["orders.us.2"]["payload_encoding"] == "base64"
    assert by_key["no-such-queue"]["returned"]


def test_a_look_has_as_many_messages_and_bytes_as_are_asked_for(node, vhost, channel):
    for _ in range(3):
        publish(channel, "amq.direct", "k", b"x" * 100)
    found = node.get(f"unroutable/{vhost}?count=2&truncate=10")
    assert [(one["payload"], one["payload_bytes"], one["truncated"]) for one in found["items"]] == [
        ("x" * 10, 100, True)
    ] * 2  # fmt: skip
    assert node.request("GET", f"unroutable/{vhost}?count=1001").status == 400
    assert node.request("GET", f"unroutable/{vhost}?truncate=-1").status == 400
    assert node.request("GET", "unroutable/no-such-vhost").status == 404


def test_a_dead_letter_that_reaches_no_queue_is_noted(node, vhost, channel):
    channel.queue_declare("work", arguments={"x-dead-letter-exchange": "amq.fanout"})
    publish(channel, "", "work")
    method, _, _ = channel.basic_get("work")
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.queue_declare("work", passive=True)
    (count,) = node.get(f"unroutable/{vhost}")["counts"]
    assert (count["exchange"], count["prefix"], count["messages"]) == ("amq.fanout", "work", 1)
    (item,) = node.get(f"unroutable/{vhost}")["items"]
    assert item["user"] == ""


def test_a_dead_letter_whose_exchange_does_not_exist_is_noted(node, vhost, channel):
    channel.queue_declare("work", arguments={"x-dead-letter-exchange": "missing"})
    publish(channel, "", "work")
    method, _, _ = channel.basic_get("work")
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.queue_declare("work", passive=True)
    (count,) = node.get(f"unroutable/{vhost}")["counts"]
    assert (count["exchange"], count["prefix"], count["messages"]) == ("missing", "work", 1)
    page = node.metrics("/metrics/detailed?family=exchange_metrics&vhost=" + vhost)
    labels = f'vhost="{vhost}",exchange="missing"'
    assert f"rabbitmq_detailed_exchange_messages_unroutable_total{{{labels}}} 1" in page


def test_leveretctl_lists_and_forgets_unroutable_messages(node, vhost, channel):
    ctl = Ctl(node)
    publish(channel, "amq.direct", "k")
    arguments = ("show_unroutable", "-p", vhost, "--formatter", "json")
    assert json.loads(ctl(*arguments)) == [
        {"exchange": "amq.direct", "prefix": "k", "messages": 1, "returned": 0}
    ]
    (message,) = json.loads(ctl(*arguments, "--messages"))
    assert message["payload"] == "lost"
    ctl("forget_unroutable", "-p", vhost)
    assert node.get(f"unroutable/{vhost}") == {"messages": 0, "counts": [], "items": []}


def test_a_vhost_refuses_publishers_that_would_not_learn_of_unroutable_messages(
    node, vhost, channel
):
    ctl = Ctl(node)
    ctl("update_vhost_metadata", vhost, "--description", "careful")
    ctl("update_vhost_metadata", vhost, "--unroutable-publishes", "refuse")
    shown = node.get(f"vhosts/{vhost}")
    assert shown["metadata"]["unroutable_publishes"] == "refuse"
    assert shown["description"] == "careful"
    channel.exchange_declare("safe", "direct", arguments={"alternate-exchange": "amq.fanout"})
    channel.queue_declare("q")
    publish(channel, "", "q", mandatory=True)
    publish(channel, "safe", "q")
    with pytest.raises(ChannelClosedByBroker) as refused:
        publish(channel, "", "q")
    assert refused.value.reply_code == 406
    assert "must be mandatory" in refused.value.reply_text
    exported = next(one for one in node.get("definitions")["vhosts"] if one["name"] == vhost)
    assert exported["metadata"]["unroutable_publishes"] == "refuse"
    node.put(f"vhosts/{vhost}", {"unroutable_publishes": "accept"})
    again = channel.connection.channel()
    again.basic_publish("", "q", b"")
    assert again.queue_declare("q", passive=True).method.message_count == 2


def test_a_value_that_is_not_known_is_refused(node, vhost):
    answer = node.request("PUT", f"vhosts/{vhost}", {"unroutable_publishes": "perhaps"})
    assert answer.status == 400
    assert "accept, refuse" in answer.body["reason"]
    metadata = {"unroutable_publishes": "perhaps"}
    answer = node.post("definitions", {"vhosts": [{"name": vhost, "metadata": metadata}]})
    assert answer.status == 400
    assert answer.body["problems"][0]["path"] == "vhosts[0].metadata.unroutable_publishes"
    _, said = Ctl(node).fails("update_vhost_metadata", vhost, "--unroutable-publishes", "perhaps")
    assert "accept, refuse" in said
