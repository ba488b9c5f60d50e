"""A standby of a real RabbitMQ, where one is installed: how to move from one to the other."""

import pika
import pytest

from tests.interop import INTEROP
from tests.mgmt.served_node import ServedNode
from tests.mgmt.standby_nodes import (
    ROUTE,
    declare,
    follow,
    has,
    status,
    wait_for_state,
    wait_until_followed,
)

pytestmark = INTEROP


@pytest.fixture
def standby(tmp_path):
    served = ServedNode(tmp_path)
    yield served
    served.stop()


def fill(rabbit):
    """Declare one object of each kind."""
    rabbit.put("vhosts/other", {"description": "another", "tags": "a,b"})
    rabbit.put("users/ann", {"password": "secret", "tags": "management"})
    rabbit.put("permissions/%2F/ann", {"configure": "^a", "write": ".*", "read": ".*"})
    rabbit.put("permissions/other/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    rabbit.put("topic-permissions/%2F/ann", {"exchange": "t", "write": "a", "read": "b"})
    rabbit.put("vhost-limits/%2F/max-queues", {"value": 1000})
    rabbit.put("global-parameters/colour", {"value": {"r": 1}})
    rabbit.put("parameters/federation-upstream/%2F/up", {"value": {"uri": "amqp://nowhere:1"}})
    rabbit.put(
        "policies/%2F/p", {"pattern": "^q", "definition": {"max-length": 5}, "apply-to": "queues"}
    )
    rabbit.put("operator-policies/%2F/o", {"pattern": "^q", "definition": {"max-length": 9}})
    rabbit.put("exchanges/%2F/x", {"type": "topic", "durable": True})
    rabbit.put("exchanges/%2F/h", {"type": "headers", "durable": True, "arguments": {"a": 1.5}})
    declare(rabbit, "q", arguments={"x-max-priority": 3, "x-message-ttl": 60000})
    declare(rabbit, "voted", arguments={"x-queue-type": "quorum"})
    declare(rabbit, "日本/ %", vhost="other")
    rabbit.post("bindings/%2F/e/x/q/q", {"routing_key": "a.*", "arguments": {"n": 1}})
    rabbit.post("bindings/%2F/e/h/q/q", {"arguments": {"x-match": "any", "k": "v"}})
    rabbit.post("bindings/%2F/e/x/e/amq.fanout", {"routing_key": "#"})


KINDS = ("permissions", "topic_permissions", "exchanges", "queues", "bindings")


def named(node, kind):
    """The items of a kind, each as a text."""
    return {str(sorted(one.items())) for one in node.get("definitions")[kind]}


def test_everything_of_rabbitmq_is_followed(rabbit, standby):
    fill(rabbit)
    follow(standby, rabbit, local_users=[])
    shown = wait_for_state(standby, "syncing")
    assert (shown["kept"], shown["problems"]) == ([], [])
    for kind in KINDS:
        assert named(standby, kind) == named(rabbit, kind)
    assert standby.get("policies/%2F/p")["definition"] == {"max-length": 5}
    assert standby.get("operator-policies/%2F/o")["definition"] == {"max-length": 9}
    assert standby.get("vhost-limits/%2F")[0]["value"] == {"max-queues": 1000}
    assert standby.get("global-parameters/colour")["value"] == {"r": 1}
    assert standby.request("GET", "whoami", user="ann:secret").body["name"] == "ann"
    # RabbitMQ has no ETag: the standby compares, and finds no difference.
    changes = status(standby)["syncs"]["changes"]
    wait_until_followed(standby)
    assert status(standby)["syncs"]["changes"] == changes

    rabbit.delete("queues/%2F/voted")
    rabbit.put("users/ann", {"password": "other", "tags": "monitoring"})
    standby.wait_until(lambda: not has(standby, "queues", "voted"), "it is deleted")
    assert standby.request("GET", "whoami", user="ann:other").status == 200

    # A stream is no queue of this node; the rest is followed all the same.
    rabbit.put("queues/%2F/s", {"durable": True, "arguments": {"x-queue-type": "stream"}})
    declare(rabbit, "after")
    standby.wait_until(lambda: has(standby, "queues", "after"), "the rest is followed")
    standby.wait_until(lambda: status(standby)["problems_count"] == 1, "the sync has ended")
    assert [(one["kind"], one["name"]) for one in status(standby)["problems"]] == [("queues", "s")]

    standby.post(f"{ROUTE}/promote")
    address = pika.ConnectionParameters(
        "127.0.0.1", standby.port, credentials=pika.PlainCredentials("guest", "guest")
    )
    with pika.BlockingConnection(address) as connection:
        channel = connection.channel()
        channel.basic_publish("x", "a.b", b"moved")
        assert channel.basic_get("q", auto_ack=True)[2] == b"moved"
