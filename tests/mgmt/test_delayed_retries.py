"""Messages that wait for their retry, by the API and by command."""

import json

import pika
import pytest

from tests.mgmt.ctl_command import Ctl
from tests.mgmt.served_node import ServedNode

A_DAY_MS = 86_400_000
ARGUMENTS = {
    "x-delayed-retry-type": "all", "x-delayed-retry-min": A_DAY_MS, "x-delivery-limit": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """A node whose quorum queues delay retries."""
    served = ServedNode(tmp_path_factory.mktemp("node"), "compat = 4.x\n")
    yield served
    served.stop()


@pytest.fixture(params=["classic", "quorum"])
def channel(request, node, vhost):
    node.put(f"permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    connection = pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", node.port, virtual_host=vhost)
    )
    channel = connection.channel()
    arguments = ARGUMENTS | {"x-queue-type": request.param}
    channel.queue_declare("q", durable=True, arguments=arguments)
    for name in ("one", "two", "three"):
        properties = pika.BasicProperties(message_id=name, delivery_mode=2)
        channel.basic_publish("", "q", name.encode(), properties)
        method, _, _ = channel.basic_get("q")
        channel.basic_nack(method.delivery_tag)
    channel.queue_declare("q", passive=True)
    yield channel
    connection.close()


def test_they_are_listed_and_shown_with_the_queue(node, vhost, channel):
    found = node.get(f"queues/{vhost}/q/retries")
    assert found["messages"] == 3
    first = found["items"][0]
    assert (first["properties"]["message_id"], first["returns"], first["payload_bytes"]) == (
        "one", 1, 3
    )  # fmt: skip
    assert len(node.get(f"queues/{vhost}/q/retries?count=1")["items"]) == 1
    queue = node.get(f"queues/{vhost}/q")
    assert (queue["messages"], queue["messages_ready"], queue["messages_delayed"]) == (3, 0, 3)
    assert (queue["messages_unacknowledged"], queue["delivery_limit"]) == (0, 5)
    assert queue["delayed_retry"] == f"all (min: {A_DAY_MS}ms, max: {A_DAY_MS}ms)"
    assert queue["next_delayed_at"] == first["due_at"] <= queue["last_delayed_at"]
    page = node.metrics("/metrics/per-object")
    for metric in ("messages", "messages_persistent", "messages_delayed"):
        assert f'rabbitmq_queue_{metric}{{vhost="{vhost}",queue="q"}} 3' in page
    assert f'queue_next_delayed_timestamp_seconds{{vhost="{vhost}",queue="q"}}' in page


def test_one_is_delivered_now_by_its_position_or_id_and_the_rest_discarded(node, vhost, channel):
    first = node.get(f"queues/{vhost}/q/retries")["items"][0]
    path = f"queues/{vhost}/q/retries"
    chosen = {"positions": [first["position"], 99, 1 << 70]}
    assert node.post(f"{path}/deliver", chosen).body == {"done": 1}
    assert node.post(f"{path}/deliver", {"message_id": "three"}).body == {"done": 1}
    bodies = [channel.basic_get("q", auto_ack=True)[2] for _ in range(3)]
    assert bodies == [b"one", b"three", None]
    assert node.post(f"{path}/discard", {"all": True}).body == {"done": 1}
    assert node.get(f"queues/{vhost}/q/retries") == {"messages": 0, "items": []}


@pytest.mark.parametrize(
    "body",
    [
        {}, {"all": False}, {"all": True, "message_id": "one"}, {"positions": "1"},
        {"positions": [True]}, {"positions": list(range(10_001))}, {"message_id": 1},
    ],
)  # fmt: skip
def test_a_request_that_chooses_no_messages_is_refused(node, vhost, channel, body):
    assert node.request("POST", f"queues/{vhost}/q/retries/discard", body).status == 400
    assert node.get(f"queues/{vhost}/q/retries")["messages"] == 3


def test_leveretctl_lists_delivers_and_discards_them(node, vhost, channel):
    ctl = Ctl(node)
    listed = json.loads(ctl("list_delayed_retries", "q", "-p", vhost, "--formatter", "json"))
    assert [one["message_id"] for one in listed] == ["one", "two", "three"]
    assert all(one["due_at"].endswith("Z") for one in listed)
    position = str(listed[1]["position"])
    ctl("deliver_delayed_retries", "q", "-p", vhost, "--position", position)
    assert channel.basic_get("q", auto_ack=True)[2] == b"two"
    ctl("deliver_delayed_retries", "q", "-p", vhost, "--message-id", "one")
    assert channel.basic_get("q", auto_ack=True)[2] == b"one"
    ctl("discard_delayed_retries", "q", "-p", vhost, "--all")
    assert node.get(f"queues/{vhost}/q/retries")["messages"] == 0
