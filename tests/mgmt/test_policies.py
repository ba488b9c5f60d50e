"""Policies with times beyond the range of the clock."""

import pytest


@pytest.mark.parametrize("key", ["message-ttl", "expires"])
@pytest.mark.parametrize("time_ms", [2**63, 10**30, 10**400])
def test_a_policy_may_ask_for_longer_than_for_ever(node, vhost, key, time_ms):
    """Such a time did not fit into the store, which then failed for all queues."""
    policy = {"pattern": "^long", "definition": {key: time_ms}}
    assert node.put(f"policies/{vhost}/p", policy).status == 201
    assert node.put(f"queues/{vhost}/long", {"durable": True}).status == 201
    assert node.publish(vhost, "long", "kept", {"delivery_mode": 2})
    got = node.post(
        f"queues/{vhost}/long/get",
        {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"},
    )
    assert [message["payload"] for message in got.body] == ["kept"]
    assert "failed after a round" not in node.log
