"""Copying messages of a stream to a queue, and the offsets of its consumers, by commands."""

import json

import pika
import pytest

from tests.mgmt.ctl_command import Ctl

COUNT = 1200
"""More than a part of a copy has."""


@pytest.fixture
def ctl(node):
    return Ctl(node)


@pytest.fixture
def channel(node, vhost):
    """A channel, with a stream `s` that has messages, and a queue `q`."""
    address = pika.ConnectionParameters("127.0.0.1", node.port, vhost)
    connection = pika.BlockingConnection(address)
    channel = connection.channel()
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_declare("q", durable=True)
    for number in range(COUNT):
        channel.basic_publish("", "s", b"%d" % number)
    channel.confirm_delivery()
    channel.basic_publish("", "s", b"%d" % COUNT)
    yield channel
    connection.close()


def taken(channel):
    """What is in the queue: the offset and the body of each message."""
    found = []
    while True:
        method, properties, body = channel.basic_get("q", auto_ack=True)
        if method is None:
            return found
        assert method.routing_key == "s", "messages keep their routing key"
        found.append((properties.headers["x-stream-offset"], int(body)))


def test_messages_between_two_offsets(ctl, vhost, channel):
    shown = ctl("copy_stream", "s", "-p", vhost, "--from", "10", "--to", "1190", "--queue", "q")
    assert shown.endswith("Copied 1180 messages, of offsets 10 to 1189\n")
    assert taken(channel) == [(number, number) for number in range(10, 1190)]


def test_messages_between_two_times(ctl, vhost, channel):
    copy = ("copy_stream", "s", "-p", vhost, "--queue", "q", "--from")
    shown = ctl(*copy, "1h", "--formatter", "json")
    assert json.loads(shown)["copied"] == COUNT + 1
    assert len(taken(channel)) == COUNT + 1
    assert "Copied nothing" in ctl(*copy, "2h", "--to", "1h")
    assert "Copied nothing" in ctl(*copy, "2001-01-01T00:00:00", "--to", "2001-01-02T00:00:00Z")
    assert taken(channel) == []


def test_a_copy_that_is_refused(ctl, vhost, channel):
    copy = ("copy_stream", "-p", vhost, "--from", "first", "--queue")
    assert "no queue 'none' in vhost" in ctl.fails(*copy, "none", "s")[1]
    assert "no queue 'none' in vhost" in ctl.fails(*copy, "q", "none")[1]
    assert "is not a stream" in ctl.fails(*copy, "s", "q")[1]
    assert "cannot be copied to itself" in ctl.fails(*copy, "s", "s")[1]
    assert "must be an offset, a time such as" in ctl.fails(*copy, "q", "s", "--to", "soon")[1]
    assert "say where it begins" in ctl.fails("copy_stream", "-p", vhost, "s")[1]


def test_a_copy_to_a_full_queue_says_where_to_go_on(ctl, vhost, channel):
    limits = {"x-max-length": 1100, "x-overflow": "reject-publish"}
    channel.queue_declare("full", durable=True, arguments=limits)
    _, error = ctl.fails("copy_stream", "s", "-p", vhost, "--from", "first", "--queue", "full")
    assert "copied 1000 messages, and then: queue 'full' refused 101 of 201 messages" in error
    assert "'--from 1000 --to 1201' goes on" in error


def test_an_offset_of_a_consumer(ctl, vhost, channel):
    reset = ("reset_stream_offset", "-p", vhost, "s", "app", "--to")
    assert ctl(*reset, "500").endswith("Consumer 'app' goes on with offset 500; stored was none\n")
    assert ctl(*reset, "next").endswith("goes on with offset 1201; stored was 499\n")
    assert "there is none before offset 0" in ctl.fails(*reset, "first")[1]
    assert "say with which message" in ctl.fails(*reset[:-1])[1]


def test_what_a_stream_stores_for_its_clients(ctl, vhost, channel):
    tracking = ("list_stream_tracking", "-p", vhost, "--quiet", "s")
    assert ctl(*tracking) == ""
    ctl("reset_stream_offset", "-p", vhost, "s", "app", "--to", "500")
    assert ctl(*tracking, "--offset") == "type\tname\ttracking_value\noffset\tapp\t499\n"
    assert "app" not in ctl(*tracking, "--writer")
    assert "Specify only one of" in ctl.fails(*tracking, "--writer", "--all")[1]
    status = ("stream_status", "-p", vhost, "--tracking", "s", "--formatter", "json")
    assert json.loads(ctl(*status)) == [{"type": "offset", "reference": "app", "value": 499}]
    reset = ("reset_offset", "-p", vhost, "--stream", "s", "--reference")
    assert ctl(*reset, "app").endswith("Done\n")
    assert json.loads(ctl(*status))[0]["value"] == 0
    assert "There is no stored offset for this reference" in ctl.fails(*reset, "other")[1]


def test_the_status_of_a_stream_has_rabbitmqs_columns(ctl, vhost, channel, node):
    status = ("stream_status", "-p", vhost, "--formatter", "json")
    assert json.loads(ctl(*status, "s")) == [
        {
            "role": "writer", "node": node.name, "epoch": 1, "offset": COUNT,
            "committed_offset": COUNT, "first_offset": 0, "readers": 0, "segments": 1,
        }
    ]  # fmt: skip
    refused = "Error:\nCannot get stream status of a classic queue\n"
    assert ctl.fails(*status, "q") == (69, refused)
    assert ctl.fails(*status, "none") == (69, "Error:\nnot_found\n")
    assert ctl("restart_stream", "-p", vhost, "--quiet", "s") == f"{node.name}\n"
    assert "Cannot restart a classic queue" in ctl.fails("restart_stream", "-p", vhost, "q")[1]
    other = ("restart_stream", "-p", vhost, "s", "--preferred-leader-node", "other@localhost")
    assert "has no member on node 'other@localhost'" in ctl.fails(*other)[1]
