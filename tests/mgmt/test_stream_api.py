"""Streams in the management API: a look at messages, stored offsets, members, super streams."""

import pika
import pytest

from tests.mgmt.ctl_command import Ctl

COUNT = 1200
STREAM = {"durable": True, "arguments": {"x-queue-type": "stream", "x-max-age": "1D"}}
NAME = "a%2Fb%20%3Cb%3E"
"""The name `a/b <b>` in a path."""


@pytest.fixture(scope="module")
def stream(node):
    """A stream with messages: its path in the API."""
    node.put("vhosts/looks")
    node.put(f"queues/looks/{NAME}", STREAM)
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.port, "looks"))
    channel = connection.channel()
    properties = pika.BasicProperties(headers={"kind": "x"}, content_type="text/plain")
    for number in range(COUNT):
        channel.basic_publish("", "a/b <b>", b"%d" % number, properties)
    channel.confirm_delivery()
    channel.basic_publish("", "a/b <b>", b"\xff" * 60_000)
    yield f"stream/looks/{NAME}"
    connection.close()
    node.delete("vhosts/looks")


def bodies(found):
    return [int(one["payload"]) for one in found["messages"]]


def test_a_look_at_messages_consumes_nothing(node, stream):
    found = node.get(f"{stream}/messages?offset=1000&count=3")
    assert bodies(found) == [1000, 1001, 1002]
    ends = ("next_offset", "first_offset", "end_offset")
    assert [found[key] for key in ends] == [1003, 0, COUNT + 1]
    shown = found["messages"][0]
    assert shown.pop("time_ms") > 0
    assert shown == {
        "offset": 1000, "exchange": "", "routing_key": "a/b <b>", "payload": "1000",
        "payload_encoding": "string", "payload_bytes": 4, "truncated": False,
        "properties": {"content_type": "text/plain", "headers": {"kind": "x"}},
    }  # fmt: skip
    last = node.get(f"{stream}/messages?offset={COUNT}&truncate=3")["messages"]
    fields = ("payload", "payload_encoding", "payload_bytes", "truncated")
    assert [last[0][key] for key in fields] == ["////", "base64", 60_000, True]
    assert node.get(f"queues/looks/{NAME}")["messages"] == COUNT + 1


@pytest.mark.parametrize(
    ("position", "first"),
    [("", 0), ("first", 0), ("1h", 0), ("2001-01-01T00:00:00", 0), ("77", 77), ("next", None),
     ("5000", None), ("2101-01-01T00:00:00%2B01:00", None)],
)  # fmt: skip
def test_a_look_from_a_position(node, stream, position, first):
    found = node.get(f"{stream}/messages?offset={position}&count=1")
    assert bodies(found) == ([] if first is None else [first])
    assert found["next_offset"] == (COUNT + 1 if first is None else first + 1)


@pytest.mark.parametrize(
    ("asked", "status", "reason"),
    [
        ("offset=soon", 400, "'offset' is 'soon', and must be an offset, a time such as"),
        ("offset=-1", 400, "'offset' is '-1'"),
        ("count=0", 400, "count must be a number from 1 to 500, and is 0"),
        ("count=501", 400, "and is 501"),
        ("count=many", 400, "count must be a number, and is 'many'"),
        ("truncate=-1", 400, "truncate must not be negative"),
    ],
)
def test_what_a_look_refuses(node, stream, asked, status, reason):
    answer = node.request("GET", f"{stream}/messages?{asked}")
    assert answer.status == status
    assert reason in answer.body["reason"]


def test_a_look_at_what_is_no_stream(node, stream):
    node.put("queues/looks/plain")
    answer = node.request("GET", "stream/looks/plain/messages")
    assert (answer.status, answer.body["reason"]) == (
        400, "queue 'plain' in vhost 'looks' is not a stream",
    )  # fmt: skip
    assert node.request("GET", "stream/looks/none/messages").status == 404


def test_a_look_needs_permission_to_read(node, stream):
    node.put("users/reader", {"password": "secret", "tags": "management"})
    node.put("permissions/looks/reader", {"configure": ".*", "write": ".*", "read": "^other$"})
    for path in ("messages", "tracking"):
        assert node.request("GET", f"{stream}/{path}", user="reader:secret").status == 401
    answer = node.post(f"{stream}/offsets", {"name": "app", "to": 5}, user="reader:secret")
    assert answer.status == 401
    node.delete("users/reader")


def test_stored_offsets_are_shown_and_reset(node, stream):
    assert node.get(f"{stream}/tracking") == {"offsets": {}, "writers": {}}
    answer = node.post(f"{stream}/offsets", {"name": "<b>app", "to": 500})
    assert answer.body == {"stored": 499, "before": None}
    node.post(f"{stream}/offsets", {"name": "<b>app", "to": "next"})
    assert node.get(f"{stream}/tracking?type=offset") == {"offsets": {"<b>app": COUNT}}
    assert node.get(f"{stream}/tracking?type=writer") == {"writers": {}}
    answer = node.post(f"{stream}/offsets", {"name": "<b>app", "to": "soon"})
    assert (answer.status, "'to' is 'soon'" in answer.body["reason"]) == (400, True)


def test_what_a_member_has(node, stream):
    raft = node.get(f"queues/looks/{NAME}")["raft"]
    (member,) = raft["members"]
    fields = ("offset", "committed_offset", "first_offset", "readers", "segments")
    assert [member[key] for key in fields] == [COUNT, COUNT, 0, 0, 1]
    assert member["size_bytes"] > 60_000
    assert 0 <= member["expires_ms"] - member["oldest_ms"] - 24 * 60 * 60 * 1000 <= 600_000
    node.put("queues/looks/empty", {**STREAM, "arguments": {"x-queue-type": "stream"}})
    (member,) = node.get("queues/looks/empty")["raft"]["members"]
    assert [member[key] for key in ("offset", "committed_offset")] == [-1, -1]
    assert [member[key] for key in ("oldest_ms", "expires_ms")] == [None, None]


def test_members_of_a_node_without_a_cluster(node, stream):
    path = f"queues/stream/looks/{NAME}/replicas"
    answer = node.post(f"{path}/add", {"node": "other@localhost"})
    assert answer.status == 503
    assert answer.body["reason"].endswith("have one replica: it is in no cluster")
    assert node.delete(f"{path}/delete", body={"node": "other@localhost"}).status == 503
    node.put("queues/looks/plain")
    answer = node.post("queues/stream/looks/plain/replicas/add", {"node": "x"})
    reason = "Cannot add replicas to a classic queue"
    assert (answer.status, answer.body["reason"]) == (400, reason)


def test_super_streams_are_listed_with_their_partitions(node, vhost):
    Ctl(node)("add_super_stream", "s", "-p", vhost, "--binding-keys", "emea,apac")
    node.put(f"queues/{vhost}/late", STREAM)
    node.post(f"bindings/{vhost}/e/s/q/late", {"routing_key": "late"})
    (found,) = node.get(f"stream/super-streams/{vhost}")
    assert found == {
        "name": "s", "vhost": vhost, "partitions": [
            {"stream": "s-emea", "routing_key": "emea"},
            {"stream": "s-apac", "routing_key": "apac"},
            {"stream": "late", "routing_key": "late"},
        ],
    }  # fmt: skip
    assert found in node.get("stream/super-streams")
