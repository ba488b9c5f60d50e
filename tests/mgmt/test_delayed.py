"""Messages that wait at an exchange of the type x-delayed-message: listed, sent now, cancelled."""

import json
from concurrent.futures import ThreadPoolExecutor

import pika
import pytest

from tests.mgmt.ctl_command import Ctl
from tests.protocol.raw_client import wait_until

HOUR_MS = 3_600_000


@pytest.fixture(params=["classic", "quorum"])
def channel(request, node, vhost):
    node.put(f"permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    connection = pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", node.port, virtual_host=vhost)
    )
    channel = connection.channel()
    channel.confirm_delivery()
    arguments = {"x-delayed-type": "fanout", "x-delayed-queue-type": request.param}
    channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=arguments)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "later")
    yield channel
    connection.close()


def publish(channel, message_id, delay_ms=HOUR_MS, **headers):
    properties = pika.BasicProperties(
        message_id=message_id, headers={"x-delay": delay_ms, **headers}, delivery_mode=2
    )
    channel.basic_publish("later", "k." + message_id, message_id.encode(), properties)


def ids(found):
    return [one["properties"]["message_id"] for one in found["items"]]


def act(node, where, name, body):
    return node.post(f"{where}/{name}", body).body


def depth(channel):
    return channel.queue_declare("q", passive=True).method.message_count


def test_messages_are_listed_by_their_times_and_chosen_by_id_header_and_key(node, vhost, channel):
    where = f"exchanges/{vhost}/later/delayed"
    publish(channel, "b", HOUR_MS + 1000, customer="42")
    publish(channel, "a", HOUR_MS, customer="7")
    publish(channel, "c", HOUR_MS + 2000)
    found = node.get(where)
    assert (found["messages"], found["matching"], ids(found)) == (3, 3, ["a", "b", "c"])
    first, second, _ = found["items"]
    assert second["due_ms"] > first["due_ms"]
    assert (first["payload"], first["routing_key"], first["exchange"]) == ("a", "k.a", "later")
    assert ids(node.get(f"{where}?count=1")) == ["a"]
    assert ids(node.get(f"{where}?message_id=a&message_id=c")) == ["a", "c"]
    assert ids(node.get(f"{where}?header=customer:^42$")) == ["b"]
    assert ids(node.get(f"{where}?routing_key=c$")) == ["c"]
    shown = node.get(f"exchanges/{vhost}/later")
    assert (shown["messages_delayed"], shown["next_delayed_at"]) == (3, first["due_ms"])
    page = node.metrics("/metrics/detailed?family=exchange_metrics&vhost=" + vhost)
    labels = f'vhost="{vhost}",exchange="later"'
    assert f"rabbitmq_detailed_exchange_messages_delayed{{{labels}}} 3" in page


def test_chosen_messages_are_sent_now_or_cancelled(node, vhost, channel):
    where = f"exchanges/{vhost}/later/delayed"
    for name in ("a", "b", "c", "d"):
        publish(channel, name, customer=name.upper())
    assert act(node, where, "send", {"message_ids": ["b", "no-such"]}) == {"sent": 1}
    wait_until(lambda: depth(channel) == 1)
    _, properties, body = channel.basic_get("q", auto_ack=True)
    assert (body, properties.headers["x-delay"]) == (b"b", -HOUR_MS)
    assert act(node, where, "cancel", {"header": ["customer:A"]}) == {"cancelled": 1}
    assert ids(node.get(where)) == ["c", "d"]
    assert act(node, where, "send", {"all": True}) == {"sent": 2}
    wait_until(lambda: depth(channel) == 2)
    assert act(node, where, "cancel", {"all": True}) == {"cancelled": 0}


def test_headers_of_any_size_and_type_are_searched(node, vhost, channel):
    where = f"exchanges/{vhost}/later/delayed"
    large = "x" * 100_000 + "end"
    publish(channel, "large", large=large)
    publish(channel, "table", table={"b": [1, True]}, flag=True)
    assert ids(node.get(f"{where}?header=large:xend$&truncate=0")) == ["large"]
    assert ids(node.get(f"{where}?header=flag:^true$")) == ["table"]
    refused = act(node, where, "cancel", {"header": ["large:^" + large]})
    assert refused["error"] == "bad_request"
    assert len(refused["reason"]) < 300
    assert act(node, where, "cancel", {"header": ["large:xend$"]}) == {"cancelled": 1}
    table = {"header": ['table:^{"b":\\[1,true\\]}$']}
    assert act(node, where, "cancel", table) == {"cancelled": 1}
    assert act(node, where, "cancel", {"message_ids": [large]}) == {"cancelled": 0}


def test_each_message_is_taken_once_by_acts_at_the_same_time(node, vhost, channel):
    where = f"exchanges/{vhost}/later/delayed"
    for number in range(100):
        publish(channel, f"{number}", HOUR_MS + number % 7)
    with ThreadPoolExecutor() as threads:
        acts = [threads.submit(act, node, where, ("send", "cancel")[number % 2], {"all": True})
                for number in range(4)]  # fmt: skip
    done = [one.result() for one in acts]
    sent = sum(one.get("sent", 0) for one in done)
    assert sent + sum(one.get("cancelled", 0) for one in done) == 100
    wait_until(lambda: depth(channel) == sent)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_messages_are_gone_with_their_exchange_and_with_their_vhost(node, vhost, kind):
    where = f"exchanges/{vhost}/later"
    arguments = {"x-delayed-type": "fanout", "x-delayed-queue-type": kind}
    body = {"type": "x-delayed-message", "durable": True, "arguments": arguments}
    for gone in (where, f"vhosts/{vhost}"):
        node.put(f"vhosts/{vhost}")
        node.put(f"permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        assert node.put(where, body).status == 201
        assert node.get(f"{where}/delayed")["messages"] == 0
        node.publish(vhost, "", "x", {"headers": {"x-delay": HOUR_MS}}, exchange="later")
        assert node.get(f"{where}/delayed")["messages"] == 1
        node.delete(gone)
        assert node.request("GET", f"{where}/delayed").status == 404
        assert node.request("POST", f"{where}/delayed/cancel", {"all": True}).status == 404


def test_bad_requests_say_what_is_wrong(node, vhost, channel):
    where = f"exchanges/{vhost}/later/delayed"
    for path, status in (
        (f"exchanges/{vhost}/amq.direct/delayed", 400),
        (f"exchanges/{vhost}/no-such/delayed", 404),
        (f"{where}?count=1001", 400),
        (f"{where}?truncate=-1", 400),
        (f"{where}?header=a:(", 400),
    ):
        assert node.request("GET", path).status == status, path
    for body in ({}, {"all": False}, {"message_ids": "a"}, {"message_ids": [1]},
                 {"message_ids": ["x"] * 10_001}, {"header": [1]},
                 {"header": {"a": {"b": 1}}}):  # fmt: skip
        for act in ("send", "cancel"):
            assert node.request("POST", f"{where}/{act}", body).status == 400, body


def test_each_act_needs_its_permission(node, vhost, channel):
    node.put(f"permissions/{vhost}/guest", {"configure": "^$", "write": "^$", "read": "later"})
    where = f"exchanges/{vhost}/later/delayed"
    assert node.request("GET", where).status == 200
    for act in ("send", "cancel"):
        assert node.request("POST", f"{where}/{act}", {"all": True}).status == 401
    node.put(f"permissions/{vhost}/guest", {"configure": "^$", "write": "later", "read": "^$"})
    assert node.request("POST", f"{where}/send", {"all": True}).status == 200
    assert node.request("GET", where).status == 401


def test_leveretctl_lists_sends_and_cancels(node, vhost, channel):
    ctl = Ctl(node)
    for name in ("a", "b", "c"):
        publish(channel, name, customer=name)
    (one,) = json.loads(
        ctl(
            "list_delayed_messages",
            "-p",
            vhost,
            "later",
            "--message-id",
            "b",
            "--formatter",
            "json",
        )
    )
    assert (one["message_id"], one["payload"]) == ("b", "b")
    assert "1 messages were sent" in ctl(
        "send_delayed_messages", "-p", vhost, "later", "--header", "customer:b"
    )
    wait_until(lambda: depth(channel) == 1)
    assert "2 messages were cancelled" in ctl(
        "cancel_delayed_messages", "-p", vhost, "later", "--all"
    )
    code, said = ctl.fails("cancel_delayed_messages", "-p", vhost, "later")
    assert code == 64
    assert "--message-id or --header, or --all" in said


REPLICATED = {
    "type": "x-delayed-message", "durable": True,
    "arguments": {"x-delayed-type": "fanout", "x-delayed-queue-type": "quorum"},
}  # fmt: skip


def test_the_queue_of_a_replicated_exchange_is_hidden_and_comes_with_its_definition(node, vhost):
    node.put(f"permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    where, hidden = f"exchanges/{vhost}/later", "amq.delayed-later"
    node.put(where, REPLICATED)
    assert node.get(f"queues/{vhost}") == []
    assert node.request("GET", f"queues/{vhost}/{hidden}").status == 404
    assert node.request("DELETE", f"queues/{vhost}/{hidden}").status == 404
    assert not node.publish(vhost, hidden, "x")
    assert node.get(where)["raft"]["members"]
    assert node.name in Ctl(node)("quorum_status", "-p", vhost, hidden)
    definitions = node.get(f"definitions/{vhost}")
    assert (definitions["queues"], len(definitions["exchanges"])) == ([], 1)
    node.delete(where)
    node.post(f"definitions/{vhost}", definitions)
    properties = {"headers": {"x-delay": HOUR_MS}}
    node.publish(vhost, "", "x", properties, exchange="later")
    assert node.get(f"{where}/delayed")["messages"] == 1
    classic = REPLICATED | {"arguments": {"x-delayed-type": "fanout"}}
    refused = node.request("PUT", where, classic)
    assert "inequivalent arg 'x-delayed-queue-type'" in refused.body["reason"]
