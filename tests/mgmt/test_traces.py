"""Traces to files: a real node and real clients, and every event that the files must contain."""

import base64
import json
import os
import signal
import urllib.request
from contextlib import suppress
from itertools import pairwise
from urllib.parse import quote

import aio_pika
import pika
import pytest

from leveret.broker.tracing import record
from tests.mgmt.served_node import ServedNode
from tests.patience import PATIENCE_SECONDS
from tests.small_disk import small_disk
from tests.trace_lines import records_in

LOG = {"format": "log", "pattern": "#"}
TEXT = {"format": "text", "pattern": "#"}
JSON = {"format": "json", "pattern": "#"}


def add(node, vhost, name, body):
    answer = node.put(f"traces/{vhost}/{name}", body)
    assert answer.status == 201, answer


def records(node, vhost, directory=None):
    """Return all records of a vhost's log without headers, once its files are complete."""
    directory = directory or node.data_dir / "trace"
    place = directory / f"vhost={quote(vhost, safe='')}"
    node.wait_until(
        lambda: any(place.rglob("*.trace.gz")) and not any(place.rglob("*.open")), "it is complete"
    )
    found = []
    for path in sorted(place.rglob("*.trace.gz")):
        header, *others = records_in(path)
        assert header["event"] == record.HEADER
        found += others
    return found


def named(found, event, **fields):
    return [
        one
        for one in found
        if one["event"] == event and all(one[name] == value for name, value in fields.items())
    ]


async def connect(node, vhost):
    url = f"amqp://guest:guest@127.0.0.1:{node.port}/{quote(vhost, safe='')}"
    return await aio_pika.connect(url)


async def drive(node, vhost):
    """Cause each kind of event; rejects from `work` are dead-lettered to `graves`."""
    connection = await connect(node, vhost)
    async with connection:
        channel = await connection.channel(on_return_raises=True)
        graves = await channel.declare_queue("graves")
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graves"}
        work = await channel.declare_queue("work", arguments=arguments)
        exchange = channel.default_exchange
        for number in range(4):
            body = f"m{number}".encode()
            await exchange.publish(aio_pika.Message(body, message_id=f"id{number}"), "work")
        await (await work.get()).ack()
        await (await work.get()).reject(requeue=True)
        again = await work.get()
        assert again.redelivered
        await again.reject(requeue=False)
        with pytest.raises(aio_pika.exceptions.DeliveryError):
            await exchange.publish(aio_pika.Message(b"lost"), "nowhere", mandatory=True)
        await work.purge()
        await graves.get(no_ack=True)
        await work.delete()


async def test_a_log_has_every_event_of_real_clients(node, vhost):
    add(node, vhost, "all", LOG)
    await drive(node, vhost)
    node.wait_until(lambda: node.get(f"traces/{vhost}/all")["written"] == 17, "it is written")
    assert node.delete(f"traces/{vhost}/all").status == 204
    found = records(node, vhost)
    for one in found:
        assert set(one) - {"message", "count"} == set(record.EVENTS[one["event"]]) - {"message"}
    published = {one["properties"].get("message_id"): one for one in named(found, "publish")}
    numbers = [one["message"] for one in named(found, "publish")]
    assert all(later > earlier for earlier, later in pairwise(numbers))
    first, second = published["id0"]["message"], published["id1"]["message"]
    assert [one["event"] for one in found if one.get("message") == first] == [
        "publish", "deliver", "ack",
    ]  # fmt: skip
    assert [one["event"] for one in found if one.get("message") == second] == [
        "publish", "deliver", "reject", "deliver", "reject", "dead_letter",
    ]  # fmt: skip
    assert [one["requeue"] for one in named(found, "reject", message=second)] == [True, False]
    assert [one["redelivered"] for one in named(found, "deliver", message=second)] == [False, True]
    (died,) = named(found, "dead_letter", reason="rejected")
    assert (died["message"], died["queue"], died["queues"]) == (second, "work", ["graves"])
    (taken,) = named(found, "deliver", queue="graves")
    assert taken["message"] == died["new_message"]
    assert taken["no_ack"]
    (returned,) = named(found, "return")
    assert (returned["reply_code"], returned["routing_keys"]) == (312, ["nowhere"])
    assert returned["message"] == named(found, "publish", routing_keys=["nowhere"])[0]["message"]
    assert len(named(found, "open")) == len(named(found, "close")) == 1
    assert {one["user"] for one in found if "user" in one} == {"guest"}


async def test_what_expires_says_so_and_goes_on(node, vhost):
    add(node, vhost, "all", LOG)
    connection = await connect(node, vhost)
    async with connection:
        channel = await connection.channel()
        await channel.declare_queue("graves")
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graves"}
        await channel.declare_queue("work", arguments=arguments)
        brief = aio_pika.Message(b"brief", expiration=0.001)
        await channel.default_exchange.publish(brief, "work")
        node.wait_until(lambda: node.get(f"queues/{vhost}/graves")["messages"] == 1, "it died")
    node.delete(f"traces/{vhost}/all")
    found = records(node, vhost)
    (number,) = [one["message"] for one in named(found, "publish")]
    events = [one["event"] for one in found if one.get("message") == number]
    assert events == ["publish", "expire", "dead_letter"]


async def test_bodies_are_there_if_they_are_asked_for(node, vhost):
    add(node, vhost, "all", {**LOG, "payload": "base64", "max_payload_bytes": 3})
    node.put(f"queues/{vhost}/q")
    node.publish(vhost, "q", "hello")
    node.delete(f"traces/{vhost}/all")
    (published,) = named(records(node, vhost), "publish")
    assert (base64.b64decode(published["body"]), published["body_size"]) == (b"hel", 5)


async def test_a_sample_has_all_events_of_its_messages(node, vhost):
    add(node, vhost, "some", {**LOG, "sample": 10})
    connection = await connect(node, vhost)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("q")
        for _ in range(100):
            await channel.default_exchange.publish(aio_pika.Message(b""), "q")
        for _ in range(100):
            await (await queue.get()).ack()
    node.delete(f"traces/{vhost}/some")
    found = records(node, vhost)
    for event in ("publish", "deliver", "ack"):
        numbers = [one["message"] for one in named(found, event)]
        assert len(numbers) == 10
        assert all(number % 10 == 0 for number in numbers)


def test_an_ack_that_is_refused_is_not_in_the_log(node, vhost, channel):
    add(node, vhost, "acks", LOG)
    channel.queue_declare("q")
    for _ in range(3):
        channel.basic_publish("", "q", b"")
        assert channel.basic_get("q")[0] is not None
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="unknown delivery tag 2"):
        for delivery_tag in (2, 1, 2, 3):
            channel.basic_ack(delivery_tag)
        channel.queue_declare("q", passive=True)
    node.delete(f"traces/{vhost}/acks")
    acks = named(records(node, vhost), "ack")
    assert [one["delivery_tag"] for one in acks] == [2, 1]


async def test_a_log_survives_a_crash_and_goes_on(tmp_path):
    node = ServedNode(tmp_path)
    try:
        add(node, "%2F", "all", LOG)
        node.put("queues/%2F/q", {"durable": True})
        node.publish("/", "q", "before")
        node.wait_until(lambda: any(tmp_path.rglob("*.open")), "it is written")
        (left,) = tmp_path.rglob("*.open")
        node.wait_until(lambda: left.stat().st_size, "it has something")
        node.process.send_signal(signal.SIGKILL)
        node.process.wait(PATIENCE_SECONDS)
        left.write_bytes(left.read_bytes() + b"\x1f\x8b\x08 half a member")
        node.start()
        assert node.get("traces/%2F/all")["format"] == "log"
        node.publish("/", "q", "after")
        node.wait_until(lambda: node.get("traces/%2F/all")["written"], "it is written")
        node.delete("traces/%2F/all")
        numbers = [one["message"] for one in named(records(node, "/"), "publish")]
        assert len(set(numbers)) == 2
        assert "truncated from" in node.log
    finally:
        node.stop()


def test_a_directory_that_cannot_be_written_is_said_and_mends_itself(tmp_path):
    place = tmp_path / "in the way"
    place.write_text("a file")
    node = ServedNode(tmp_path, f"tracing.dir = {place}")
    try:
        add(node, "%2F", "all", LOG)
        node.wait_until(lambda: node.get("traces/%2F/all")["problem"], "it is reported")
        assert "cannot be written" in node.log
        node.put("queues/%2F/q")
        node.publish("/", "q", "kept")
        place.unlink()
        node.wait_until(lambda: not node.get("traces/%2F/all")["problem"], "it is well")
        node.wait_until(lambda: any(place.rglob("*.open")), "it is written")
        assert "can be written again" in node.log
    finally:
        node.stop()


@pytest.fixture
def disk(tmp_path):
    """A file system of one megabyte."""
    with small_disk(tmp_path / "small", 1) as place:
        yield place


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system")
def test_a_full_disk_holds_no_client_up_and_loses_nothing_that_can_wait(tmp_path, disk):
    settings = f"tracing.dir = {disk}/trace\ndisk_free_limit.absolute = 1024"
    node = ServedNode(tmp_path, settings)
    try:
        add(node, "%2F", "all", LOG)
        node.wait_until((disk / "trace").is_dir, "there is a directory")
        junk = disk / "junk"
        with junk.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        node.put("queues/%2F/q")
        for number in range(20):
            assert node.publish("/", "q", str(number))
        node.wait_until(lambda: node.get("traces/%2F/all")["problem"], "it is reported")
        junk.unlink()
        node.wait_until(lambda: not node.get("traces/%2F/all")["problem"], "it is well")
        node.delete("traces/%2F/all")
        place = disk / "trace"
        assert len(named(records(node, "/", place), "publish")) == 20
    finally:
        node.stop()


def test_text_and_json_are_as_rabbitmqs_plugin_writes_them(node, vhost, channel):
    add(node, vhost, f"{vhost}-text", TEXT)
    add(node, vhost, f"{vhost}-json", {**JSON, "max_payload_bytes": 2})
    assert node.get(f"vhosts/{vhost}")["tracing"]
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"hello")
    assert channel.basic_get("q", auto_ack=True)[2] == b"hello"
    for name in (f"{vhost}-text", f"{vhost}-json"):
        node.wait_until(lambda name=name: node.get(f"traces/{vhost}/{name}")["written"] == 2)
        assert node.delete(f"traces/{vhost}/{name}").status == 204
    assert not node.get(f"vhosts/{vhost}")["tracing"]
    text, lines = f"trace-files/{vhost}-text.log", f"trace-files/{vhost}-json.log"
    node.wait_until(
        lambda: str(node.request("GET", text).body).count("hello") == 2, "it is written"
    )
    answer = node.request("GET", text)
    assert answer.headers["Content-Type"] == "text/plain"
    assert ": Message published\n" in answer.body
    assert '\nRouted queues: [<<"q">>]\nProperties:   []\nPayload: \nhello\n' in answer.body
    node.wait_until(lambda: str(node.request("GET", lines).body).count("\n") == 2, "it is written")
    published, received = map(json.loads, node.get(lines).splitlines())
    assert (published["type"], published["routed_queues"], published["queue"]) == (
        "published", ["q"], "none",
    )  # fmt: skip
    assert (received["type"], received["routed_queues"], received["queue"]) == (
        "received", "none", "q",
    )  # fmt: skip
    assert {one["payload"] for one in (published, received)} == {"aGU="}
    assert node.delete(text).status == 204
    assert node.request("GET", text).status == 404


class TestApi:
    def test_a_trace_is_listed_by_vhost_and_by_node(self, node, vhost):
        add(node, vhost, f"{vhost}-t", TEXT)
        for place in ("traces", f"traces/{vhost}", f"traces/node/{node.name}",
                      f"traces/node/{node.name}/{vhost}"):  # fmt: skip
            assert f"{vhost}-t" in [one["name"] for one in node.get(place)]
        one = node.get(f"traces/node/{node.name}/{vhost}/{vhost}-t")
        assert (one["vhost"], one["format"], one["pattern"]) == (vhost, "text", "#")
        assert "tracer_connection_password" not in one
        assert node.get("traces/nosuch") == []
        node.wait_until(
            lambda: f"{vhost}-t.log" in [one["name"] for one in node.get("trace-files")]
        )
        assert node.delete(f"traces/node/{node.name}/{vhost}/{vhost}-t").status == 204
        assert node.get(f"traces/{vhost}") == []

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            ({"format": "text"}, "[{key_missing,pattern}]"),
            ({"pattern": "#"}, "[{key_missing,format}]"),
            ({**TEXT, "format": "xml"}, "format not json or text (or log)"),
            ({**TEXT, "max_payload_bytes": "10"}, "max_payload_bytes not integer"),
            (
                {**TEXT, "tracer_connection_username": "nobody", "tracer_connection_password": "x"},
                "tracer_connection_username: 'nobody' cannot log in",
            ),
        ],
    )
    def test_bad_requests_say_why(self, node, vhost, body, reason):
        answer = node.put(f"traces/{vhost}/bad", body)
        assert (answer.status, answer.body["reason"]) == (400, reason)
        assert node.get(f"traces/{vhost}") == []

    def test_a_tracer_has_to_be_a_user_who_may_open_the_vhost(self, node, vhost):
        node.put("users/eve", {"password": "secret", "tags": ""})
        login = {"tracer_connection_username": "eve", "tracer_connection_password": "secret"}
        answer = node.put(f"traces/{vhost}/bad", {**TEXT, **login})
        assert answer.status == 400
        assert "refused for user 'eve'" in answer.body["reason"]

    def test_a_tracer_who_can_log_in_is_shown(self, node, vhost):
        login = {"tracer_connection_username": "guest", "tracer_connection_password": "guest"}
        add(node, vhost, f"{vhost}-t", {**TEXT, **login})
        shown = node.get(f"traces/{vhost}/{vhost}-t")
        assert shown["tracer_connection_username"] == "guest"
        assert "guest" not in [shown.get("tracer_connection_password")]

    def test_a_trace_that_runs_is_not_replaced_and_a_vhost_has_one_log(self, node, vhost):
        add(node, vhost, f"{vhost}-t", TEXT)
        assert node.put(f"traces/{vhost}/{vhost}-t", TEXT).status == 400
        add(node, vhost, "log", LOG)
        assert "already has a log" in node.put(f"traces/{vhost}/more", LOG).body["reason"]

    def test_names_do_not_lead_out_of_the_directory(self, node, vhost):
        assert node.put(f"traces/{vhost}/..%2Fx", TEXT).status == 400
        for name in ("..%2Fmetadata.sqlite", "%2Fetc%2Fpasswd", "..%2F..%2Flog", "%00"):
            assert node.request("GET", f"trace-files/{name}").status in (400, 404)
            assert node.delete(f"trace-files/{name}").status in (400, 404)

    def test_what_is_not_there_is_not_found(self, node, vhost):
        assert node.request("GET", f"traces/{vhost}/none").status == 404
        assert node.delete(f"traces/{vhost}/none").status == 404
        assert node.put("traces/nosuch/t", TEXT).status == 404
        assert node.request("GET", "traces/node/nobody@nowhere").status == 400

    def test_traces_are_for_administrators(self, node, vhost):
        node.put("users/monitor", {"password": "secret", "tags": "monitoring"})
        trace = f"traces/{vhost}/t"
        for method, path in (
            ("GET", "traces"), ("GET", "trace-files"), ("PUT", trace), ("DELETE", trace),
        ):  # fmt: skip
            assert node.request(method, path, TEXT, user="monitor:secret").status == 401

    def test_a_compressed_file_comes_as_it_is(self, node, vhost, tmp_path):
        add(node, vhost, "log", LOG)
        node.put(f"queues/{vhost}/q")
        node.publish(vhost, "q", "x")
        node.delete(f"traces/{vhost}/log")
        assert named(records(node, vhost), "publish")
        names = [one["name"] for one in node.get("trace-files")]
        (name,) = [name for name in names if name.startswith(f"vhost={vhost}/")]
        url = f"http://127.0.0.1:{node.http_port}/api/trace-files/{quote(name, safe='')}"
        login = base64.b64encode(b"guest:guest").decode()
        request = urllib.request.Request(url, headers={"Authorization": f"Basic {login}"})
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            assert answer.headers["Content-Type"] == "application/gzip"
            (tmp_path / "downloaded").write_bytes(answer.read())
        assert named(records_in(tmp_path / "downloaded"), "publish")

    def test_traces_end_with_their_vhost(self, node):
        node.put("vhosts/brief")
        add(node, "brief", "brief-t", TEXT)
        add(node, "brief", "log", LOG)
        node.delete("vhosts/brief")
        node.put("vhosts/brief")
        assert node.get("traces/brief") == []
        add(node, "brief", "log", LOG)
        node.delete("vhosts/brief")
