"""`leveretctl consume_event_stream` with real clients and operators."""

import json
import queue
import socket
import threading
import time
from contextlib import contextmanager, suppress

import pika
import pytest

from tests.forked_programs import PipedProgram, run_program
from tests.patience import PATIENCE_SECONDS

FIELDS = {
    "connection.created":
        "auth_mechanism channel_max client_properties connected_at event frame_max host name node "
        "peer_cert_issuer peer_cert_subject peer_cert_validity peer_host peer_port pid port "
        "protocol ssl ssl_cipher ssl_hash ssl_key_exchange ssl_protocol timeout timestamp_in_ms "
        "type user user_who_performed_action vhost",
    "user.authentication.success":
        "auth_mechanism connection_name connection_type event host name peer_host peer_port "
        "protocol ssl timestamp_in_ms",
    "channel.created":
        "connection event name number pid timestamp_in_ms user user_who_performed_action vhost",
}  # fmt: skip
"""The client properties that RabbitMQ includes, besides the connection's name."""


class Listening:
    """A running command, and the events that it has printed so far."""

    def __init__(self, node, *options):
        self.process = PipedProgram(
            "leveretctl", "--data-dir", node.data_dir, "consume_event_stream", *options
        )
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(json.loads(line))

    def next(self, seconds=PATIENCE_SECONDS):
        """Wait for the next event."""
        return self._lines.get(timeout=seconds)

    def until(self, is_last):
        """Return events up to a given one."""
        deadline, events = time.monotonic() + PATIENCE_SECONDS, []
        while not events or not is_last(events[-1]):
            try:
                events.append(self.next(max(0.0, deadline - time.monotonic())))
            except queue.Empty:
                raise AssertionError(f"it was not told; these were: {events}") from None
        return events


@contextmanager
def listening(node, *options):
    """Start the command, and wait until it has printed all earlier events."""
    heard = Listening(node, *options)
    try:
        _wait_until_it_listens(node, heard)
        yield heard
    finally:
        heard.process.kill()


def _wait_until_it_listens(node, heard):
    """Cause an event repeatedly until the command prints it."""
    for number in range(PATIENCE_SECONDS * 10):
        node.put(f"queues/%2F/probe{number}", {"auto_delete": False})
        node.delete(f"queues/%2F/probe{number}")
        with suppress(queue.Empty):
            heard.next(0.1)
            break
        assert heard.process.returncode is None, heard.process.stderr.read()
    else:
        raise AssertionError("the command does not listen")
    node.put("queues/%2F/last-probe")
    node.delete("queues/%2F/last-probe")
    heard.until(lambda event: (event["event"], event["name"]) == ("queue.deleted", "last-probe"))


@pytest.fixture
def heard(node, vhost):
    """A listening command; the vhost was created before."""
    with listening(node) as found:
        yield found


def connect(node, vhost, password="guest", **properties):
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            "127.0.0.1", node.port, vhost, pika.PlainCredentials("guest", password),
            client_properties=properties,
        )
    )  # fmt: skip


def names(events):
    return [event["event"] for event in events]


def one(events, name):
    """Return the only event with this name."""
    [found] = [event for event in events if event["event"] == name]
    return found


def last(name):
    return lambda event: event["event"] == name


class TestClients:
    def test_a_connection_from_login_to_close(self, node, vhost, heard):
        connection = connect(node, vhost, connection_name="my app")
        connection.channel().close()
        connection.close()
        events = heard.until(last("connection.closed"))
        assert names(events) == [
            "user.authentication.success", "connection.created", "channel.created",
            "channel.closed", "connection.closed",
        ]  # fmt: skip
        login, opened, channel, closed_channel, closed = events
        assert (login["name"], login["auth_mechanism"], login["ssl"]) == ("guest", "PLAIN", False)
        assert login["connection_name"] == opened["name"] == closed["name"]
        assert opened["pid"] == channel["connection"] == closed["pid"]
        assert opened["pid"] == f"<{node.name}.{opened['name'].replace(' ', '')}>"
        assert (opened["user"], opened["vhost"], opened["type"]) == ("guest", vhost, "network")
        assert opened["user_provided_name"] == closed["user_provided_name"] == "my app"
        assert opened["client_properties"]["product"] == "Pika Python Client Library"
        assert (opened["peer_host"], opened["port"]) == ("127.0.0.1", node.port)
        assert (opened["ssl_cipher"], opened["peer_cert_subject"]) == ("", "")
        assert abs(opened["connected_at"] / 1000 - time.time()) < 60
        assert (channel["number"], channel["name"]) == (1, f"{opened['name']} (1)")
        assert closed_channel["pid"] == channel["pid"]

    def test_the_fields_are_rabbitmqs(self, node, vhost, heard):
        connection = connect(node, vhost)
        connection.channel()
        connection.close()
        events = heard.until(last("connection.closed"))
        for name, fields in FIELDS.items():
            assert " ".join(sorted(one(events, name))) == fields

    def test_a_wrong_password_is_told_and_which_it_was_is_not(self, node, vhost, heard):
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            connect(node, vhost, password="open-sesame")
        events = heard.until(last("connection.closed"))
        assert names(events) == ["user.authentication.failure", "connection.closed"]
        assert events[0]["error"] == "user 'guest' - invalid credentials"
        assert "sesame" not in json.dumps(events)

    def test_a_consumer_is_told_once_however_it_ends(self, node, vhost, heard, channel):
        connection = channel.connection
        channel.queue_declare("q", arguments={"x-max-length": 5})
        for number in (1, 2, 3):
            opened = connection.channel()
            opened.basic_qos(prefetch_count=7)
            opened.basic_consume(
                "q", lambda *_: None, consumer_tag=f"t{number}", arguments={"x-priority": number}
            )
            if number == 1:
                opened.basic_cancel("t1")
            elif number == 2:
                opened.close()
        channel.queue_delete("q")
        events = heard.until(last("queue.deleted"))
        assert one(events, "queue.created")["arguments"] == {"x-max-length": 5}
        begun = [event for event in events if event["event"] == "consumer.created"]
        ended = [event for event in events if event["event"] == "consumer.deleted"]
        assert [event["consumer_tag"] for event in begun] == ["t1", "t2", "t3"]
        assert [event["consumer_tag"] for event in ended] == ["t1", "t2", "t3"]
        assert (begun[0]["queue"], begun[0]["vhost"]) == ("q", vhost)
        assert (begun[0]["prefetch_count"], begun[0]["ack_required"]) == (7, True)
        assert (begun[2]["exclusive"], begun[2]["arguments"]) == (False, {"x-priority": 3})
        assert begun[1]["channel"] == ended[1]["channel"]

    def test_a_client_that_dies_leaves_nothing_untold(self, node, vhost, heard):
        connection = connect(node, vhost)
        opened = connection.channel()
        opened.queue_declare("mine", exclusive=True)
        opened.basic_consume("mine", lambda *_: None)
        connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)
        events = heard.until(last("connection.closed"))
        assert one(events, "queue.created")["exclusive"]
        assert one(events, "queue.created")["owner_pid"] == events[-1]["pid"]
        assert names(events)[-4:] == [
            "consumer.deleted", "channel.closed", "queue.deleted", "connection.closed"
        ]  # fmt: skip
        assert one(events, "queue.deleted")["user_who_performed_action"] == "rmq-internal"

    def test_a_channel_that_fails_is_closed(self, node, vhost, heard, channel):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel.queue_declare("nope", passive=True)
        events = heard.until(last("channel.closed"))
        assert names(events).count("channel.closed") == 1

    def test_messages_are_no_events(self, node, vhost, heard, channel):
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"x")
        node.publish(vhost, "q", "y")
        while channel.basic_get("q", auto_ack=True)[0] is None:
            time.sleep(0.01)
        channel.queue_delete("q")
        events = heard.until(last("queue.deleted"))
        assert names(events)[-2:] == ["queue.created", "queue.deleted"]


class TestOperators:
    def test_changes_over_http_name_the_user_who_made_them(self, node, vhost, heard):
        node.put(f"exchanges/{vhost}/x", {"type": "topic", "durable": True})
        node.put(f"queues/{vhost}/q", {"durable": True})
        node.post(f"bindings/{vhost}/e/x/q/q", {"routing_key": "a.#"})
        node.delete(f"exchanges/{vhost}/x")
        node.delete(f"queues/{vhost}/q")
        events = heard.until(last("queue.deleted"))
        assert names(events) == [
            "exchange.created", "queue.created", "binding.created", "binding.deleted",
            "exchange.deleted", "queue.deleted",
        ]  # fmt: skip
        assert {event["user_who_performed_action"] for event in events} == {"guest"}

    def test_an_import_is_told_as_its_importers_work(self, node, vhost, heard):
        node.post(f"definitions/{vhost}", {"queues": [
            {"name": "imported", "durable": True, "auto_delete": False, "arguments": {}}
        ]})  # fmt: skip
        created = heard.until(last("queue.created"))[-1]
        assert (created["name"], created["user_who_performed_action"]) == ("imported", "guest")

    def test_an_alarm(self, node, vhost, heard):
        status = node.get("nodes")[0]
        try:
            _set_watermark(node, "1KB")
            assert heard.until(last("alarm.set"))[-1]["source"] == "memory"
        finally:
            _set_watermark(node, str(status["mem_limit"]))
        assert heard.until(last("alarm.cleared"))[-1]["node"] == node.name


def _set_watermark(node, amount):
    words = ("set_vm_memory_high_watermark", "absolute", amount)
    done = run_program("leveretctl", "--data-dir", node.data_dir, *words)
    assert done.returncode == 0, done.stderr


class TestTheCommand:
    def test_a_pattern_picks_events(self, node, vhost):
        with listening(node, "--pattern", r"^queue\.") as heard:
            node.put(f"exchanges/{vhost}/x", {"type": "fanout"})
            node.put(f"queues/{vhost}/q")
            assert heard.next()["event"] == "queue.created"

    def test_a_pattern_that_is_none_is_refused(self, node):
        heard = Listening(node, "--pattern", "(")
        assert heard.process.wait() == 65
        assert "the pattern is not a valid regular expression" in heard.process.stderr.read()

    def test_it_ends_after_its_duration_though_events_keep_coming(self, node, vhost):
        heard = Listening(node, "--duration", "1")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while heard.process.returncode is None and time.monotonic() < deadline:
            node.put(f"queues/{vhost}/q")
            node.delete(f"queues/{vhost}/q")
        assert heard.process.returncode == 0
