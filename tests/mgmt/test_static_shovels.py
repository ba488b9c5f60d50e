"""Static shovels: a node with an advanced.config, and what is shown of its shovels."""

import pika
import pytest

from tests.mgmt.ctl_command import Ctl
from tests.mgmt.served_node import ServedNode
from tests.mgmt.test_shovels import BODIES, channel_of, publish, ready, take_all

FILE = """
% Users who come from RabbitMQ bring this file along.
[{rabbit, [{heartbeat, 30}, {tcp_listeners, [5672]}]},
 {rabbitmq_shovel, [{shovels, [
    {mine, [
        {source, [
            {protocol, amqp091}, {uris, ["amqp://"]},
            {declarations, [
                {'exchange.declare', [{exchange, <<"in">>}, {type, <<"fanout">>}, durable]},
                {'queue.declare', [
                    {queue, <<"from">>}, durable, {arguments, [{<<"x-max-length">>, long, 900}]}]},
                {'queue.bind', [{exchange, <<"in">>}, {queue, <<"from">>}]}]},
            {queue, <<"from">>}, {prefetch_count, 10}]},
        {destination, [
            {protocol, amqp091}, {uris, ["amqp://PLACE"]},
            {declarations, [
                {'exchange.declare', [{exchange, <<"out">>}, {type, <<"direct">>}, durable]},
                {'queue.declare', [{queue, <<"to">>}, durable]},
                {'queue.bind',
                    [{exchange, <<"out">>}, {queue, <<"to">>}, {routing_key, <<"key">>}]}]},
            {publish_properties, [{delivery_mode, 2}, {content_type, <<"text/x">>}]},
            {publish_fields, [{exchange, <<"out">>}, {routing_key, <<"key">>}]},
            {add_forward_headers, true}, {add_timestamp_header, true}]},
        {ack_mode, on_confirm}, {reconnect_delay, 1}]},
    {older, [
        {sources, [{broker, "amqp://"}, {declarations, [
            {'queue.declare', [exclusive]},
            {'queue.bind',
                [{exchange, <<"amq.topic">>}, {queue, <<>>}, {routing_key, <<"a.#">>}]}]}]},
        {destinations, [{broker, "amqp://"}, {declarations, [
            {'queue.declare', [{queue, <<"topics">>}]}]}]},
        {queue, <<>>},
        {publish_fields, [{exchange, <<>>}, {routing_key, <<"topics">>}]}]},
    {lost, [
        {source, [{uris, ["amqp://guest:sesame@PLACE"]}, {queue, <<"from">>}]},
        {destination, [{uris, ["amqp://"]}]},
        {reconnect_delay, 3600}]},
    {once, [
        {source, [{uris, ["amqp://"]}, {declarations, [{'queue.declare', [{queue, <<"few">>}]}]},
                  {queue, <<"few">>}, {delete_after, 2}, {spare, 1}]},
        {destination, [{uris, ["amqp://"]},
                       {publish_fields, [{exchange, <<>>}, {routing_key, <<"topics">>}]}]}]}
 ]}]}].
"""


@pytest.fixture(scope="module")
def static(tmp_path_factory, far):
    """A node with the file beside its configuration."""
    directory = tmp_path_factory.mktemp("static")
    place = f"127.0.0.1:{far.port}"
    (directory / "advanced.config").write_text(FILE.replace("PLACE", place))
    served = ServedNode(directory)
    yield served
    served.stop()


def shown(node, name):
    """What is shown of a shovel; None if it is not shown."""
    return next((one for one in node.get("shovels") if one["name"] == name), None)


def wait_for(node, name, state):
    node.wait_until(lambda: (shown(node, name) or {}).get("state") == state, f"{name} is {state}")
    return shown(node, name)


def test_messages_move_to_what_was_declared(static, far):
    wait_for(static, "mine", "running")
    channel = channel_of(static)
    for body in BODIES[:50]:
        channel.basic_publish("in", "any", body, pika.BasicProperties(headers={"n": 1}))
    far.wait_until(lambda: ready(far, "%2F", "to") == 50, "all are there")
    found, properties, body = channel_of(far).basic_get("to", auto_ack=True)
    assert (found.exchange, found.routing_key, body) == ("out", "key", BODIES[0])
    assert (properties.delivery_mode, properties.content_type) == (2, "text/x")
    assert properties.headers["n"] == 1
    assert properties.headers["x-shovelled"] == [{
        "shovelled-by": static.name, "shovel-type": "static", "shovel-name": "mine",
        "src-uri": "amqp://", "dest-uri": f"amqp://127.0.0.1:{far.port}",
    }]  # fmt: skip
    assert properties.headers["x-shovelled-timestamp"] > 0
    assert take_all(channel_of(far), "to") == BODIES[1:50]
    static.wait_until(lambda: ready(static, "%2F", "from") == 0, "all are acknowledged")
    queue = static.get("queues/%2F/from")
    assert (queue["durable"], queue["arguments"]) == (True, {"x-max-length": 900})


def test_one_of_the_older_format_has_a_queue_of_its_own(static):
    wait_for(static, "older", "running")
    channel = channel_of(static)
    channel.basic_publish("amq.topic", "a.b", b"moved")
    static.wait_until(lambda: ready(static, "%2F", "topics") == 1, "it is moved")
    assert take_all(channel, "topics") == [b"moved"]


def test_it_is_shown_without_a_vhost_to_administrators_only(static, far):
    one = wait_for(static, "mine", "running")
    assert (one["type"], one["src_queue"], one["src_uri"]) == ("static", "from", "amqp://")
    assert (one["node"], one["dest_uri"]) == (static.name, f"amqp://127.0.0.1:{far.port}")
    assert "vhost" not in one
    assert static.get("shovels/%2F") == []
    static.put("users/watcher", {"password": "watcher", "tags": "monitoring"})
    assert static.get("shovels", user="watcher:watcher") == []


def test_it_cannot_be_restarted_or_deleted(static):
    for path in ("mine", "mine/restart"):
        assert static.delete(f"shovels/vhost/%2F/{path}").status == 404
    assert static.request("GET", "shovels/vhost/%2F/mine").status == 404
    assert static.get("parameters/shovel") == []
    assert shown(static, "mine")["state"] == "running"


def test_leveretctl_shows_it(static):
    wait_for(static, "mine", "running")
    rows = [line.split("\t") for line in Ctl(static)("shovel_status").splitlines()]
    (row,) = [row for row in rows if row[0] == "mine"]
    assert row[1:4] == ["", "static", "running"]


def test_why_one_does_not_run_is_shown_without_passwords(static):
    reason = wait_for(static, "lost", "terminated")["reason"]
    assert reason.startswith("failed to connect to source: ")
    assert "sesame" not in reason + static.log


def test_one_with_an_end_stays_down_until_the_node_starts(static):
    wait_for(static, "once", "running")
    channel = channel_of(static)
    publish_transient(channel, "few", BODIES[:3])
    assert wait_for(static, "once", "terminated")["reason"] == (
        "it has moved all messages that it was to move"
    )
    static.wait_until(lambda: ready(static, "%2F", "few") == 1, "the other one is back")
    static.wait_until(lambda: ready(static, "%2F", "topics") == 2, "two are moved")
    assert take_all(channel, "topics") == BODIES[:2]


def publish_transient(channel, queue, bodies):
    for body in bodies:
        channel.basic_publish("", queue, body)


def test_settings_that_are_not_read_are_named_once_in_the_log(static):
    path = static.log_path.parent / "advanced.config"
    assert static.log.count("rabbit.tcp_listeners") == 1
    assert f"{path}: the source of shovel 'once': spare has no effect" in static.log


def test_metrics_count_them(static):
    wait_for(static, "mine", "running")
    wait_for(static, "lost", "terminated")
    page = static.metrics()
    assert 'rabbitmq_shovel_static{status="running"}' in page
    assert 'rabbitmq_shovel_static{status="terminated"}' in page
    assert "rabbitmq_shovel_dynamic{" not in page


def test_a_static_shovel_and_a_dynamic_one_may_have_the_same_name(static):
    publish(channel_of(static), "a", [b"x"])
    value = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}
    assert static.put("parameters/shovel/%2F/mine", {"value": value}).status == 201
    static.wait_until(lambda: ready(static, "%2F", "b") == 1, "it is moved")
    assert static.delete("shovels/vhost/%2F/mine").status == 204
    static.wait_until(lambda: static.get("shovels/%2F") == [], "it is gone")
    assert shown(static, "mine")["type"] == "static"
