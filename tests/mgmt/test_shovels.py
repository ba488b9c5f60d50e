"""Shovels that operators set, from a node to another and to itself, and what is shown of them."""

import json
import re
import signal

import pika
import pytest

from tests.mgmt.ctl_command import Ctl
from tests.mgmt.served_node import ServedNode
from tests.ports import free_port

BODIES = [b"%d" % number for number in range(500)]


def uri(node, user="guest:guest"):
    return f"amqp://{user}@127.0.0.1:{node.port}"


def local(vhost):
    return f"amqp:///{vhost}"


def channel_of(node, vhost="/"):
    address = pika.ConnectionParameters("127.0.0.1", node.port, vhost, heartbeat=0)
    channel = pika.BlockingConnection(address).channel()
    channel.confirm_delivery()
    return channel


def publish(channel, queue, bodies, **properties):
    channel.queue_declare(queue, durable=True)
    for body in bodies:
        properties = {"delivery_mode": 2, **properties}
        channel.basic_publish("", queue, body, pika.BasicProperties(**properties))


def take_all(channel, queue):
    """The bodies of all messages in a queue."""
    found = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append(got[2])
    return found


def ready(node, vhost, queue):
    """How many messages are in a queue; None if there is no such queue."""
    answer = node.request("GET", f"queues/{vhost}/{queue}")
    return answer.body.get("messages") if answer.status == 200 else None


def shovel(node, vhost, name="s", **value):
    answer = node.put(f"parameters/shovel/{vhost}/{name}", {"value": dashed(value)})
    assert answer.status in (201, 204), answer


def dashed(value):
    return {key.replace("_", "-"): one for key, one in value.items()}


def state(node, vhost):
    """The state of the only shovel of a vhost; None if there is none."""
    found = node.get(f"shovels/{vhost}")
    return found[0]["state"] if found else None


def wait_for_state(node, vhost, wanted):
    node.wait_until(lambda: state(node, vhost) == wanted, f"the shovel is {wanted}")


def test_messages_move_to_another_broker_as_they_are(node, vhost, channel, far):
    publish(channel, "from", [b"one"], message_id="m-1", headers={"n": 1}, type="t")
    shovel(node, vhost, src_uri=local(vhost), src_queue="from", dest_uri=uri(far), dest_queue=vhost)
    far.wait_until(lambda: ready(far, "%2F", vhost) == 1, "the message is there")
    _, properties, body = channel_of(far).basic_get(vhost, auto_ack=True)
    assert (body, properties.message_id, properties.type) == (b"one", "m-1", "t")
    assert (properties.headers, properties.delivery_mode) == ({"n": 1}, 2)
    node.wait_until(lambda: ready(node, vhost, "from") == 0, "it is acknowledged")
    (shown,) = node.get(f"shovels/{vhost}")
    assert shown["state"] == "running"
    assert (shown["src_uri"], shown["dest_uri"]) == (local(vhost), f"amqp://127.0.0.1:{far.port}")
    assert (shown["src_queue"], shown["dest_queue"]) == ("from", vhost)
    assert (shown["name"], shown["vhost"], shown["type"]) == ("s", vhost, "dynamic")
    assert node.get(f"shovels/vhost/{vhost}/s")["forwarded"] == 1


def test_it_ends_when_its_parameter_is_deleted(node, vhost, channel):
    shovel(node, vhost, src_uri=local(vhost), src_queue="a", dest_uri=local(vhost), dest_queue="b")
    wait_for_state(node, vhost, "running")
    assert node.delete(f"shovels/vhost/{vhost}/s").status == 204
    wait_for_state(node, vhost, None)
    assert node.get(f"parameters/shovel/{vhost}") == []
    publish(channel, "a", [b"stays"])
    assert ready(node, vhost, "b") == 0
    assert node.delete(f"shovels/vhost/{vhost}/s").status == 404


@pytest.mark.parametrize("ack_mode", ["on-confirm", "on-publish", "no-ack"])
def test_all_messages_arrive_in_order(node, vhost, channel, ack_mode):
    publish(channel, "a", BODIES)
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="a", dest_uri=local(vhost), dest_queue="b",
        ack_mode=ack_mode, src_prefetch_count=50,
    )  # fmt: skip
    node.wait_until(lambda: ready(node, vhost, "b") == len(BODIES), "all are there")
    assert take_all(channel, "b") == BODIES
    assert node.get(f"queues/{vhost}/a")["messages"] == 0


def test_it_ends_with_what_was_in_the_queue_and_deletes_itself(node, vhost, channel):
    publish(channel, "a", BODIES[:20])
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="a", dest_uri=local(vhost), dest_queue="b",
        src_delete_after="queue-length",
    )  # fmt: skip
    node.wait_until(lambda: not node.get(f"parameters/shovel/{vhost}"), "it is deleted")
    assert take_all(channel, "b") == BODIES[:20]
    wait_for_state(node, vhost, None)


def test_it_ends_after_a_number_of_messages(node, vhost, channel):
    publish(channel, "a", BODIES[:20])
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="a", dest_uri=local(vhost), dest_queue="b",
        src_delete_after=7,
    )  # fmt: skip
    node.wait_until(lambda: not node.get(f"parameters/shovel/{vhost}"), "it is deleted")
    assert take_all(channel, "b") == BODIES[:7]
    node.wait_until(lambda: ready(node, vhost, "a") == 13, "the others are back")


def test_a_source_exchange_gets_a_queue_and_headers_tell_the_way(node, vhost, channel):
    channel.exchange_declare("events", "topic")
    channel.queue_declare("b")
    shovel(
        node, vhost, src_uri=local(vhost), src_exchange="events", src_exchange_key="#",
        dest_uri=local(vhost), dest_queue="b", dest_add_forward_headers=True,
        dest_publish_properties={"content_type": "text/x"},
    )  # fmt: skip
    wait_for_state(node, vhost, "running")
    channel.basic_publish("events", "any.key", b"moved")
    node.wait_until(lambda: ready(node, vhost, "b") == 1, "it is moved")
    _, properties, body = channel.basic_get("b", auto_ack=True)
    assert (body, properties.content_type) == (b"moved", "text/x")
    (entry,) = properties.headers["x-shovelled"]
    assert (entry["shovel-name"], entry["shovel-vhost"]) == ("s", vhost)
    assert (entry["src-exchange"], entry["dest-queue"]) == ("events", "b")


def test_an_exchange_as_destination_keeps_the_routing_key(node, vhost, channel):
    channel.exchange_declare("to", "fanout")
    channel.queue_declare("b")
    channel.queue_bind("b", "to")
    publish(channel, "a", [b"x"])
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="a", dest_uri=local(vhost), dest_exchange="to"
    )
    node.wait_until(lambda: ready(node, vhost, "b") == 1, "it is moved")
    method, _, _ = channel.basic_get("b", auto_ack=True)
    assert (method.exchange, method.routing_key) == ("to", "a")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (lambda far: f"amqp://127.0.0.1:{free_port()}", "cannot be reached"),
        (lambda far: uri(far, "guest:secret"), "ACCESS_REFUSED"),
        (lambda far: uri(far) + "/nowhere", "vhost nowhere not found"),
    ],
)
def test_why_it_does_not_run_is_shown_without_passwords(node, vhost, far, source, reason):
    shovel(
        node, vhost, src_uri=source(far), src_queue="a", dest_uri=local(vhost), dest_queue="b",
        reconnect_delay=3600,
    )  # fmt: skip
    wait_for_state(node, vhost, "terminated")
    (shown,) = node.get(f"shovels/{vhost}")
    assert shown["reason"].startswith("failed to connect to source: ")
    assert reason in shown["reason"]
    assert "secret" not in shown["reason"]
    assert "secret" not in node.log


@pytest.mark.parametrize("destination", [{"dest_queue": "a"}, {}])
def test_a_source_that_is_its_own_destination_is_told(node, vhost, channel, destination):
    publish(channel, "a", [b"stays"])
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="a", dest_uri=local(vhost),
        reconnect_delay=3600, **destination,
    )  # fmt: skip
    wait_for_state(node, vhost, "terminated")
    (shown,) = node.get(f"shovels/{vhost}")
    assert shown["reason"] == f"the source is its own destination: {local(vhost)}, queue 'a'"
    assert take_all(channel, "a") == [b"stays"]


def test_the_far_broker_is_killed_in_the_middle_and_nothing_is_lost(node, vhost, channel, tmp_path):
    broken = ServedNode(tmp_path)
    try:
        publish(channel, "from", BODIES)
        channel_of(broken).queue_declare("to", durable=True)
        shovel(
            node, vhost, src_uri=local(vhost), src_queue="from", dest_uri=uri(broken),
            dest_queue="to", src_prefetch_count=10, reconnect_delay=1,
        )  # fmt: skip
        broken.wait_until(lambda: (ready(broken, "%2F", "to") or 0) > 0, "some are there")
        broken.process.send_signal(signal.SIGKILL)
        broken.process.wait()
        publish(channel, "from", [b"later"])
        broken.start()
        node.wait_until(lambda: ready(node, vhost, "from") == 0, "all are acknowledged")
        found = take_all(channel_of(broken), "to")
        assert set(found) == {*BODIES, b"later"}
    finally:
        broken.stop()


@pytest.mark.parametrize("ack_mode", ["on-confirm", "on-publish", "no-ack"])
def test_nothing_is_taken_for_an_exchange_that_is_not_there(node, vhost, channel, far, ack_mode):
    publish(channel, "from", BODIES[:20])
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="from", dest_uri=uri(far),
        dest_exchange=vhost, ack_mode=ack_mode, reconnect_delay=3600,
    )  # fmt: skip
    wait_for_state(node, vhost, "terminated")
    (shown,) = node.get(f"shovels/{vhost}")
    assert f"404, NOT_FOUND - no exchange '{vhost}' in vhost '/'" in shown["reason"]
    assert ready(node, vhost, "from") == 20
    there = channel_of(far)
    there.exchange_declare(vhost, "fanout", durable=True)
    there.queue_declare(vhost)
    there.queue_bind(vhost, vhost)
    # An exchange without a binding would drop what a shovel that does not wait for confirms sends.
    Ctl(node)("restart_shovel", "--vhost", vhost, "s")
    wait_for_state(node, vhost, "running")
    far.wait_until(lambda: ready(far, "%2F", vhost) == 20, "all are there")
    assert take_all(there, vhost) == BODIES[:20]
    there.exchange_delete(vhost)
    there.queue_delete(vhost)


def test_a_deleted_destination_queue_is_declared_again_and_nothing_is_lost(
    node, vhost, channel, far
):
    there = channel_of(far)
    publish(channel, "from", [b"before"])
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="from", dest_uri=uri(far), dest_queue=vhost,
        reconnect_delay=1,
    )  # fmt: skip
    far.wait_until(lambda: ready(far, "%2F", vhost) == 1, "it is moved")
    # Messages that are not acknowledged when the shovel restarts may come a second time.
    node.wait_until(lambda: ready(node, vhost, "from") == 0, "it is acknowledged")
    there.queue_delete(vhost)
    publish(channel, "from", BODIES[:20])
    far.wait_until(lambda: ready(far, "%2F", vhost) == 20, "all are there")
    assert take_all(there, vhost) == BODIES[:20]
    assert f"returned a message for queue '{vhost}'" in node.log


def test_one_with_an_end_goes_on_after_a_failure_with_the_rest(node, vhost, channel, far):
    publish(channel, "from", BODIES[:20])
    there = channel_of(far)
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="from", dest_uri=uri(far), dest_queue=vhost,
        src_delete_after=30, reconnect_delay=1,
    )  # fmt: skip
    far.wait_until(lambda: ready(far, "%2F", vhost) == 20, "some are there")
    node.wait_until(lambda: ready(node, vhost, "from") == 0, "they are acknowledged")
    there.queue_delete(vhost)
    publish(channel, "from", BODIES[20:60])
    node.wait_until(lambda: not node.get(f"parameters/shovel/{vhost}"), "it is deleted")
    assert take_all(there, vhost) == BODIES[20:30]
    node.wait_until(lambda: ready(node, vhost, "from") == 30, "the others are back")


def test_one_with_a_threshold_runs_while_its_queue_is_beyond_it(node, vhost, channel):
    publish(channel, "watched", BODIES[:10])
    threshold = {"queue": "watched", "start": {"messages-above": 10}, "stop": {"messages-below": 5}}
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="watched", dest_uri=local(vhost),
        dest_queue="relief", threshold=threshold,
    )  # fmt: skip
    wait_for_state(node, vhost, "waiting")
    assert ready(node, vhost, "watched") == 10
    publish(channel, "watched", [b"more"])
    node.wait_until(lambda: ready(node, vhost, "relief") == 11, "it runs")
    wait_for_state(node, vhost, "waiting")
    assert take_all(channel, "relief") == [*BODIES[:10], b"more"]
    publish(channel, "watched", [b"few"])
    assert state(node, vhost) == "waiting"
    assert take_all(channel, "watched") == [b"few"]


def test_nothing_comes_twice_when_a_shovel_is_stopped(node, vhost, channel, far):
    publish(channel, "from", BODIES)
    for number in range(5):
        shovel(
            node, vhost, src_uri=local(vhost), src_queue="from", dest_uri=uri(far),
            dest_queue=vhost, src_prefetch_count=10 + number,
        )  # fmt: skip
        far.wait_until(lambda: ready(far, "%2F", vhost), "some are there")
    far.wait_until(lambda: ready(far, "%2F", vhost) == len(BODIES), "all are there")
    assert take_all(channel_of(far), vhost) == BODIES


def test_metrics_count_the_shovels_of_each_state(node, vhost):
    def count(status):
        page = node.metrics()
        line = rf'^rabbitmq_shovel_dynamic{{status="{status}"}} (\d+)$'
        return sum(map(int, re.findall(line, page, re.MULTILINE)))

    running, terminated = count("running"), count("terminated")
    ends = {"src_queue": "a", "dest_uri": local(vhost), "dest_queue": "b"}
    nowhere = f"amqp://127.0.0.1:{free_port()}"
    shovel(node, vhost, "good", src_uri=local(vhost), **ends)
    shovel(node, vhost, "bad", src_uri=nowhere, reconnect_delay=3600, **ends)
    node.wait_until(lambda: count("running") == running + 1, "one runs")
    node.wait_until(lambda: count("terminated") == terminated + 1, "one has failed")


def test_commands(node, vhost):
    ctl = Ctl(node)
    shovel(node, vhost, src_uri=local(vhost), src_queue="a", dest_uri=local(vhost), dest_queue="b")
    wait_for_state(node, vhost, "running")
    rows = json.loads(ctl("shovel_status", "--formatter", "json"))
    (mine,) = [row for row in rows if row["vhost"] == vhost]
    assert (mine["name"], mine["state"], mine["source_queue"]) == ("s", "running", "a")
    ctl("restart_shovel", "--vhost", vhost, "s")
    wait_for_state(node, vhost, "running")
    ctl("delete_shovel", "--vhost", vhost, "s")
    wait_for_state(node, vhost, None)
    code, said = ctl.fails("restart_shovel", "--vhost", vhost, "s")
    assert code == 65
    assert "Shovel with the given name was not found" in said
