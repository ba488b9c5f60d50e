"""Searching the messages of a queue: up to a limit and on from there, and how many match."""

import pytest


@pytest.fixture
def messages(node, vhost):
    """The API's path of a queue with five messages."""
    node.put(f"queues/{vhost}/q", {"durable": True})
    for number in range(5):
        node.publish(vhost, "q", f"job {number}", {"headers": {"even": number % 2 == 0}})
    return f"queues/{vhost}/q/messages"


def test_a_search_stops_at_its_limit_and_goes_on_from_there(node, messages):
    found = node.get(f"{messages}?body=4$&scanned_max=3")
    assert (found["messages"], found["scanned"], found["next_offset"]) == ([], 3, 3)
    found = node.get(f"{messages}?body=4$&scanned_max=3&position={found['next_position']}")
    assert [one["payload"] for one in found["messages"]] == ["job 4"]
    assert found["next_position"] is None


@pytest.mark.parametrize(
    ("chosen", "matching"),
    [
        ({"all": True}, 5), ({"all": True, "header": "even:true"}, 3),
        ({"all": True, "body": "9"}, 0), ({"ids": ["0", "99"]}, 1),
    ],
)  # fmt: skip
def test_matching_messages_are_counted_and_stay(node, messages, chosen, matching):
    assert node.post(f"{messages}/count", chosen).body == {"matching": matching}
    assert node.get(messages)["total"] == 5
