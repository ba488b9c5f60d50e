"""The handshake from protocol header to connection.open, and heartbeats."""

import gc
import io

import pytest
from pamqp import commands

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.amqp.frames import BODY, HEARTBEAT, METHOD, PROTOCOL_HEADER, encode_frame
from leveret.broker.amqp.methods import encode_method
from leveret.broker.config import Config
from leveret.broker.declarations.values import DeleteParameter, PutParameter
from leveret.broker.protocols.amqp091.connection.connection import Connection
from leveret.testing import EmbeddedBroker
from tests.declaring import declare
from tests.protocol.raw_client import (
    CAPABILITIES,
    Frame,
    RawClient,
    close_arguments,
    connection_count,
    method_bytes,
    open_arguments,
    opened,
    publish_bytes,
    start_ok_bytes,
    wait_until,
    wait_until_read,
)

REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism {}. "
    "For details see the broker logfile."
)
AMQPLAIN = encode_table({"LOGIN": ("S", "guest"), "PASSWORD": ("S", "guest")})[4:]
WRONG_AMQPLAIN = encode_table({"LOGIN": ("S", "guest"), "PASSWORD": ("S", "no")})[4:]


# The protocol header


@pytest.mark.parametrize(
    "header",
    [b"AMQP\0\0\x0a\x01", b"AMQP\2\1\0\0", b"GET / HT", b"\x16\3\1\2\0\1\0\1"],
)
def test_a_wrong_protocol_header_is_answered_with_the_right_one(header, broker, caplog):
    with RawClient(broker) as client:
        client.send(header)
        assert client.read_end() == b"AMQP\0\0\x09\x01"
    assert [line for line in caplog.messages if client.name in line and repr(header) in line]


@pytest.mark.parametrize(
    ("header", "version"),
    [
        (b"AMQP\0\0\x09\x01", (0, 9)),
        (b"AMQP\1\1\0\x09", (0, 9)),
        (b"AMQP\1\1\x08\0", (8, 0)),
        (b"AMQP\1\1\x09\1", (8, 0)),
    ],
)
def test_headers_of_older_versions_are_taken_too(header, version, broker):
    with RawClient(broker) as client:
        client.send(header)
        started = client.read_method(0, commands.Connection.Start)
        assert (started.version_major, started.version_minor) == version


def test_a_protocol_header_that_comes_byte_by_byte(broker):
    with RawClient(broker) as client:
        for byte in PROTOCOL_HEADER:
            client.send(bytes((byte,)))
        client.read_method(0, commands.Connection.Start)


def test_the_broker_announces_the_name_that_its_cluster_has_now(broker):
    named = PutParameter("global", "", "cluster_name", "hares")
    unnamed = DeleteParameter("global", "", "cluster_name")
    node = broker.call(lambda embedded: embedded.broker.config.node_name)
    for change, name in ((named, "hares"), (unnamed, node)):
        broker.call(lambda embedded, change=change: declare(embedded, change))
        with RawClient(broker) as client:
            client.send(PROTOCOL_HEADER)
            started = client.read_method(0, commands.Connection.Start)
            assert started.server_properties["cluster_name"] == ("S", name)


def test_a_handshake_reads_no_file(broker, monkeypatch):
    opened_files, real = [], io.open
    monkeypatch.setattr(
        io, "open", lambda *given, **more: opened_files.append(given) or real(*given, **more)
    )
    with opened(broker) as client:
        client.declare("q")
    assert opened_files == []


# Login


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [("PLAIN", "\0guest\0wrong"), ("PLAIN", "\0nobody\0guest"), ("AMQPLAIN", WRONG_AMQPLAIN)],
)
def test_capable_clients_are_told_of_a_refused_login(mechanism, response, broker, caplog):
    with RawClient(broker) as client:
        client.start(mechanism=mechanism, response=response)
        closed = client.read_method(0, commands.Connection.Close)
        assert closed.reply_code == 403
        assert closed.reply_text == REFUSED.format(mechanism)
        assert (closed.class_id, closed.method_id) == (0, 0)
        client.send_method(0, commands.Connection.CloseOk)
        assert client.read_end() == b""
    assert [line for line in caplog.messages if client.name in line and "wrong user name" in line]


def test_a_refused_login_is_answered_with_silence_otherwise(timeless, caplog):
    with RawClient(timeless) as client:
        client.start(response="\0guest\0wrong", capabilities=())
        wait_until(lambda: any("Login was refused" in line for line in caplog.messages))
        timeless.advance(2.9)
        assert connection_count(timeless) == 1
        timeless.advance(0.2)
        assert client.read_end() == b""


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("EXTERNAL", ""),
        ("plain", "\0guest\0guest"),
        ("PLAIN", ""),
        ("PLAIN", "guest\0guest"),
        ("PLAIN", "other\0guest\0guest"),
        ("AMQPLAIN", ""),
        ("AMQPLAIN", b"\xff\xff\xff"),
        ("AMQPLAIN", encode_table({"LOGIN": ("S", "guest")})[4:]),
    ],
)
def test_a_login_that_makes_no_sense_is_answered_with_silence(
    mechanism, response, timeless, caplog
):
    with RawClient(timeless) as client:
        client.start(mechanism=mechanism, response=response)
        wait_until(lambda: any(client.name in line for line in caplog.messages))
        timeless.advance(3.1)
        assert client.read_end() == b""


def test_a_client_that_cannot_log_in_and_says_goodbye_hears_nothing(timeless):
    with RawClient(timeless) as client:
        client.start(response="\0guest\0wrong", capabilities=())
        client.send_method(0, commands.Connection.Close, **close_arguments())
        wait_until_read(timeless, client)
        timeless.advance(31)
        assert client.read_end() == b""


@pytest.mark.parametrize(
    "data",
    [
        method_bytes(1, commands.Channel.Open),
        publish_bytes(1, "q", b"x"),
        method_bytes(1, commands.Basic.Ack, delivery_tag=1),
        publish_bytes(0, "q", b"x"),
        method_bytes(0, commands.Connection.Open, **open_arguments()),
        method_bytes(0, commands.Connection.TuneOk, channel_max=1, frame_max=4096, heartbeat=0),
        start_ok_bytes(channel=1),
        encode_frame(BODY, 0, b"x"),
        encode_frame(99, 0, b"x"),
        encode_frame(METHOD, 0, bytes(5000)),
        encode_frame(HEARTBEAT, 0, b"")[:-1] + b"\0",
    ],
    ids=range(11),
)
def test_a_client_that_does_not_log_in_first_is_dropped(data, timeless, caplog):
    with RawClient(timeless) as client:
        client.send(PROTOCOL_HEADER + data)
        client.read_method(0, commands.Connection.Start)
        client.send(start_ok_bytes(capabilities=()))
        wait_until_read(timeless, client)
        timeless.advance(11)
        assert client.read_end() == b""
    assert [line for line in caplog.messages if client.name in line]


# Tuning


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"frame_max": 4095},
         "negotiated frame_max = 4095 is lower than the minimum allowed value (4096)"),
        ({"frame_max": 131_073},
         "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)"),
        ({"frame_max": 0},
         "negotiated frame_max = 0 (no limit) is higher than the maximum allowed value (131072)"),
        ({"channel_max": 2048},
         "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)"),
        ({"channel_max": 0},
         "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)"),
    ],
)  # fmt: skip
def test_limits_may_only_be_lowered(limits, text, timeless, caplog):
    with RawClient(timeless) as client:
        client.start()
        client.tune(**limits)
        wait_until(lambda: any(client.name in line and text in line for line in caplog.messages))
        timeless.advance(3.1)
        assert client.read_end() == b""


def test_a_broker_without_limits_takes_no_limit():
    config = Config(frame_max_bytes=0, channel_max=0)
    with EmbeddedBroker.in_thread(config) as broker, opened(broker) as client:
        client.open_channel(65_535)
        client.declare("q")
        client.publish(1, "q", bytes(1_000_000))
        assert client.get("q") == bytes(1_000_000)


# Connection.open


@pytest.mark.parametrize("vhost", ["nowhere", ""])
def test_a_vhost_that_does_not_exist(vhost, broker, caplog):
    with RawClient(broker) as client:
        client.start()
        client.tune()
        closed = client.call(
            0, commands.Connection.Open, commands.Connection.Close, **open_arguments(vhost)
        )
        assert closed.reply_code == 530
        assert closed.reply_text == f"NOT_ALLOWED - vhost {vhost} not found"
        assert (closed.class_id, closed.method_id) == (10, 40)
        client.send_method(0, commands.Connection.CloseOk)
        assert client.read_end() == b""
    assert [line for line in caplog.messages if client.name in line and "not found" in line]


def test_the_whole_handshake_in_one_write(broker):
    with RawClient(broker) as client:
        client.send(
            PROTOCOL_HEADER
            + start_ok_bytes()
            + method_bytes(
                0, commands.Connection.TuneOk, channel_max=10, frame_max=8192, heartbeat=0
            )
            + method_bytes(0, commands.Connection.Open, **open_arguments())
            + method_bytes(1, commands.Channel.Open)
        )
        client.read_method(0, commands.Connection.Start)
        client.read_method(0, commands.Connection.Tune)
        client.read_method(0, commands.Connection.OpenOk)
        client.read_method(1, commands.Channel.OpenOk)


def test_update_secret(broker, caplog):
    with opened(broker) as client:
        client.call(
            0,
            commands.Connection.UpdateSecret,
            commands.Connection.UpdateSecretOk,
            new_secret="new",
            reason="rotation",
        )
        client.declare("q")
    assert [line for line in caplog.messages if client.name in line and "rotation" in line]
    assert "new_secret" not in caplog.text


# Timeouts and heartbeats


@pytest.mark.parametrize("step", ["nothing", "header", "start-ok", "tune-ok"])
def test_the_handshake_may_take_ten_seconds(step, timeless, caplog):
    with RawClient(timeless) as client:
        if step == "header":
            client.send(PROTOCOL_HEADER)
            client.read_method(0, commands.Connection.Start)
        elif step != "nothing":
            client.start()
            if step == "tune-ok":
                client.tune()
            else:
                client.read_method(0, commands.Connection.Tune)
        wait_until(lambda: connection_count(timeless) == 1)
        timeless.advance(9)
        assert connection_count(timeless) == 1
        timeless.advance(2)
        assert client.read_end() == b""
    assert any(client.name in line and "timed out" in line for line in caplog.messages)


def test_an_open_connection_is_not_timed(timeless):
    with opened(timeless) as client:
        timeless.advance(10_000)
        client.declare("q")


def test_the_broker_sends_heartbeats_when_it_has_nothing_else_to_say(timeless):
    with opened(timeless, heartbeat=10) as client:
        timeless.advance(5)  # channel.open-ok was sent in this half
        timeless.advance(5)
        assert client.read_frame() == Frame(HEARTBEAT, 0, b"")
        timeless.advance(5)  # that heartbeat was
        timeless.advance(5)
        assert client.read_frame() == Frame(HEARTBEAT, 0, b"")


def test_a_broker_that_has_something_to_say_sends_no_heartbeats(timeless):
    with opened(timeless, heartbeat=10) as client:
        for _ in range(4):
            timeless.advance(5)
            client.send_method(1, commands.Queue.Declare, queue="q", arguments={})
            frame = client.read_frame()
            assert frame.kind == METHOD


def test_a_silent_client_is_dropped_after_two_to_three_intervals(timeless, caplog):
    with opened(timeless, heartbeat=10) as client:
        timeless.advance(20)
        assert connection_count(timeless) == 1
        timeless.advance(10)
        assert set(client.read_end()) <= set(encode_frame(HEARTBEAT, 0, b""))
    wait_until(lambda: connection_count(timeless) == 0)
    assert [line for line in caplog.messages if client.name in line and "missed heartbeats" in line]


@pytest.mark.parametrize(
    "sign_of_life", [encode_frame(HEARTBEAT, 0, b""), encode_frame(BODY, 1, b"")[:1]]
)
def test_any_bytes_are_a_sign_of_life(sign_of_life, timeless):
    with opened(timeless, heartbeat=10) as client:
        for _ in range(6):
            before = bytes_in(timeless)
            client.send(sign_of_life)
            wait_until(lambda before=before: bytes_in(timeless) > before)
            timeless.advance(10)
        assert connection_count(timeless) == 1


def bytes_in(broker):
    return broker.call(lambda embedded: sum(c.bytes_in for c in embedded.broker.connections))


def test_without_heartbeats_silence_is_fine(timeless):
    with opened(timeless, heartbeat=0) as client:
        timeless.advance(100_000)
        client.declare("q")


# Many clients with an incomplete handshake


HALF_OPEN = 1000


def test_a_thousand_half_open_handshakes_are_all_given_up(timeless):
    clients = []
    before = timeless.call(count_connection_objects)
    with opened(timeless, capabilities=CAPABILITIES) as other:
        try:
            for number in range(HALF_OPEN):
                clients.append(RawClient(timeless))
                if number % 2:
                    clients[-1].send(PROTOCOL_HEADER)
            wait_until(lambda: connection_count(timeless) == HALF_OPEN + 1)
            other.declare("q")
            timeless.advance(11)
            wait_until(lambda: connection_count(timeless) == 1)
        finally:
            for client in clients:
                client.socket.close()
        other.declare("q")
        assert timeless.call(count_connection_objects) <= before + 1
    wait_until(lambda: connection_count(timeless) == 0)


def count_connection_objects(_):
    gc.collect()
    return sum(type(one) is Connection for one in gc.get_objects())


def test_a_thousand_that_leave_in_the_middle_leave_nothing_behind(broker):
    for number in range(HALF_OPEN):
        with RawClient(broker) as client:
            client.send((PROTOCOL_HEADER + start_ok_bytes())[: number % 60])
    wait_until(lambda: connection_count(broker) == 0)
    with opened(broker) as client:
        client.declare("q")


@pytest.mark.parametrize("cut", [1, 3, 8])
def test_a_login_that_cannot_be_decoded_is_not_shown_in_the_log(broker, caplog, cut):
    """A client's login contains its password."""
    payload = encode_method(
        commands.Connection.StartOk,
        client_properties={}, mechanism="PLAIN", response="\0anna\0xyzzy", locale="en_US",
    )  # fmt: skip
    with RawClient(broker) as client:
        client.send(PROTOCOL_HEADER)
        client.read_method(0, commands.Connection.Start)
        client.send(encode_frame(METHOD, 0, payload[:-cut]))
        assert client.read_end() == b""
    assert "cannot decode connection.start-ok" in caplog.text
    for shown in ("xyzzy", "120,121,122,122,121"):
        assert shown not in caplog.text
