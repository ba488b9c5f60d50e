"""Invalid frames: the broker's answers, and no effect on other connections."""

import itertools
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pamqp import commands

from leveret.broker.amqp.content import header_frame
from leveret.broker.amqp.frames import (
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    PROTOCOL_HEADER,
    encode_frame,
)
from tests.protocol.raw_client import (
    RawClient,
    close_arguments,
    method_bytes,
    open_arguments,
    opened,
    publish_bytes,
    start_ok_bytes,
    wait_until_read,
)

KEPT = [b"one", b"two", b"three"]
NO_METHOD, QUEUE_DECLARE, BASIC_PUBLISH = (0, 0), (50, 10), (60, 40)


@pytest.fixture
def bystander(broker):
    """Another connection, with messages in a queue and a consumer on another one."""
    with opened(broker) as client:
        client.declare("kept")
        for body in KEPT:
            client.publish(1, "kept", body)
        client.declare("live")
        client.consume("live", consumer_tag="c", no_ack=True)
        yield client


def assert_unharmed(bystander):
    """The other connection has lost nothing, and works."""
    bystander.publish(1, "live", b"still here")
    assert bystander.read_content(1, commands.Basic.Deliver).body == b"still here"
    assert bystander.declare("kept").message_count == len(KEPT)
    assert [bystander.get("kept") for _ in KEPT] == KEPT


def assert_closed_with(client, caplog, code, method, text):
    """Expect connection.close with these contents, and a log line with client and reason."""
    closed = client.read_method(0, commands.Connection.Close)
    assert (closed.reply_code, closed.reply_text) == (code, text)
    assert (closed.class_id, closed.method_id) == method
    why = [line for line in caplog.messages if client.name in line and line.endswith(text)]
    assert len(why) == 1
    assert why[0].startswith(f"closing connection {client.name} -> ")


def raw_method(class_id, method_id, arguments=b"", channel=1):
    return encode_frame(METHOD, channel, struct.pack(">HH", class_id, method_id) + arguments)


def raw_header(properties, body_bytes=0, class_id=60):
    start = struct.pack(">HHQ", class_id, 0, body_bytes)
    return encode_frame(HEADER, 1, start + properties)


PUBLISH = method_bytes(1, commands.Basic.Publish, exchange="", routing_key="kept")
DECLARE = method_bytes(1, commands.Queue.Declare, queue="q")
WITHOUT_HEADER = "expected content header for class 60, "
NOT_A_BODY = "expected content body, got non content body frame instead"

BAD = {
    "a wrong end octet": (
        encode_frame(HEARTBEAT, 0, b"")[:-1] + b"\x00",
        501, NO_METHOD, "FRAME_ERROR - type 8, all octets = <<>>: {invalid_frame_end_marker,0}",
    ),
    "a wrong end octet after a method": (
        encode_frame(METHOD, 1, b"\x00\x3c\x00\x0b")[:-1] + b"\xcd",
        501, NO_METHOD,
        "FRAME_ERROR - type 1, all octets = <<0,60,0,11>>: {invalid_frame_end_marker,205}",
    ),
    "no more than the start of a frame above frame_max": (
        struct.pack(">BHI", BODY, 1, 0xFFFFFFFF),
        501, NO_METHOD,
        "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,4294967295,131064}",
    ),
    "a truncated table": (
        raw_method(50, 10, b"\0\0" b"\1q" b"\0" b"\0\0\0\x0a" b"\1aI"),
        501, QUEUE_DECLARE, "FRAME_ERROR - cannot decode <<0,0,1,113,0,0,0,0,10,1,97,73>>",
    ),
    "a publish whose arguments end early": (
        raw_method(60, 40, b"\0\0\0\5ab") + raw_header(b"\0\0"),
        501, BASIC_PUBLISH, "FRAME_ERROR - cannot decode <<0,0,0,5,97,98>>",
    ),
    "truncated properties": (
        PUBLISH + raw_header(b"\x80\0\x0atext"),
        541, NO_METHOD, "INTERNAL_ERROR",
    ),
    "a truncated header table": (
        PUBLISH + raw_header(b"\x20\0" b"\0\0\0\x20" b"\1aI\0\0"),
        541, NO_METHOD, "INTERNAL_ERROR",
    ),
    "property flags without end": (
        PUBLISH + raw_header(b"\0\1\0\0"),
        541, NO_METHOD, "INTERNAL_ERROR",
    ),
    "a second body frame longer than what is missing": (
        PUBLISH + header_frame(1, b"\0\0", 3) + 2 * encode_frame(BODY, 1, b"ab"),
        505, BASIC_PUBLISH, f"UNEXPECTED_FRAME - {NOT_A_BODY}",
    ),
    "a body on channel 0": (
        encode_frame(BODY, 0, b"body"),
        505, NO_METHOD, 'UNEXPECTED_FRAME - type 3, all octets = <<"body">>',
    ),
    "a message on channel 0": (
        publish_bytes(0, "kept", b"x"),
        504, BASIC_PUBLISH, "CHANNEL_ERROR - unexpected method in connection state running",
    ),
    "a long frame of type 99": (
        encode_frame(99, 0, b"0123456789abcdefghi"),
        501, NO_METHOD,
        'FRAME_ERROR - type 99, first 16 octets = <<"0123456789abcdef">>: unknown_frame',
    ),
    "a heartbeat with a payload": (
        encode_frame(HEARTBEAT, 0, b"!"),
        501, NO_METHOD, 'FRAME_ERROR - type 8, all octets = <<"!">>: unknown_frame',
    ),
    "a body without its method": (
        encode_frame(BODY, 1, b"body"),
        505, NO_METHOD,
        "UNEXPECTED_FRAME - expected method frame, got non method frame instead",
    ),
    "a publish where a header is due": (
        PUBLISH + publish_bytes(1, "kept", b"x"),
        505, BASIC_PUBLISH,
        f"UNEXPECTED_FRAME - {WITHOUT_HEADER}got non content header frame instead",
    ),
    "an ack where a header is due": (
        PUBLISH + method_bytes(1, commands.Basic.Ack, delivery_tag=1),
        505, BASIC_PUBLISH,
        f"UNEXPECTED_FRAME - {WITHOUT_HEADER}got non content header frame instead",
    ),
    "a method where a body is due": (
        PUBLISH + header_frame(1, b"\0\0", 3) + DECLARE,
        505, BASIC_PUBLISH, f"UNEXPECTED_FRAME - {NOT_A_BODY}",
    ),
    "an ack on a channel that is not open": (
        method_bytes(7, commands.Basic.Ack, delivery_tag=1),
        504, (60, 80), "CHANNEL_ERROR - expected 'channel.open'",
    ),
    "a second channel.open": (
        method_bytes(1, commands.Channel.Open),
        504, (20, 10), "CHANNEL_ERROR - second 'channel.open' seen",
    ),
    "a second connection.open": (
        method_bytes(0, commands.Connection.Open, **open_arguments()),
        504, (10, 40), "CHANNEL_ERROR - unexpected method in connection state running",
    ),
}  # fmt: skip


def breaks_the_stream(text):
    """The stream after such a frame cannot be read, so connection.close-ok cannot be either."""
    return "invalid_frame_end_marker" in text or "frame_too_large" in text


@pytest.mark.parametrize("name", BAD)
def test_the_client_is_told_and_no_other_client_suffers(name, broker, bystander, caplog):
    data, code, method, text = BAD[name]
    with opened(broker) as client:
        client.send(data)
        assert_closed_with(client, caplog, code, method, text)
        client.send_method(0, commands.Connection.CloseOk)
        if not breaks_the_stream(text):
            assert client.read_end() == b""
    assert_unharmed(bystander)


@pytest.mark.parametrize("name", [name for name in BAD if not breaks_the_stream(BAD[name][3])])
def test_a_goodbye_in_the_same_write_is_answered(name, broker, bystander):
    data, code, _, _ = BAD[name]
    with opened(broker) as client:
        client.send(data + method_bytes(0, commands.Connection.Close, **close_arguments()))
        assert client.read_method(0, commands.Connection.Close).reply_code == code
        client.read_method(0, commands.Connection.CloseOk)
    assert_unharmed(bystander)


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        (b"\x80\0\x0atext", "the properties end too early or go on too long"),
        (b"\x20\0\0\0\0\x20\1aI\0\0", "the table does not fit its frame"),
        (b"\0\1\0\0", "more property flags than the basic class has"),
    ],
)
def test_the_log_says_what_is_wrong_with_properties(properties, why, broker, caplog):
    with opened(broker) as client:
        client.send(PUBLISH + raw_header(properties))
        client.read_method(0, commands.Connection.Close)
    assert [line for line in caplog.messages if client.name in line and line.endswith(why)]


def test_what_follows_a_channel_error_in_the_same_write_is_handled(broker, bystander):
    passive = method_bytes(1, commands.Queue.Declare, queue="none", passive=True)
    goodbye = method_bytes(0, commands.Connection.Close, **close_arguments())
    with opened(broker) as client:
        client.send(passive + publish_bytes(1, "kept", b"too late") + goodbye)
        closed = client.read_method(1, commands.Channel.Close)
        assert (closed.reply_code, closed.class_id, closed.method_id) == (404, 50, 10)
        assert closed.reply_text == "NOT_FOUND - no queue 'none' in vhost '/'"
        client.read_method(0, commands.Connection.CloseOk)
    assert_unharmed(bystander)


@pytest.mark.parametrize(("class_id", "method_id"), [(60, 99), (7, 7), (0, 0)])
@pytest.mark.parametrize("channel", [0, 1])
def test_a_method_that_does_not_exist_ends_the_socket(
    class_id, method_id, channel, broker, bystander, caplog
):
    with opened(broker) as client:
        client.send(raw_method(class_id, method_id, channel=channel))
        assert client.read_end() == b""
        why = f"there is no method {method_id} in class {class_id}"
        assert [line for line in caplog.messages if client.name in line and why in line]
    assert_unharmed(bystander)


@pytest.mark.parametrize("split_at", range(1, 12))
def test_a_wrong_end_octet_after_a_body_in_two_chunks(split_at, broker, bystander, caplog):
    frame = encode_frame(BODY, 1, b"body")[:-1] + b"\x00"
    with opened(broker) as client:
        client.send(PUBLISH + header_frame(1, b"\0\0", 4))
        send_in_two(broker, client, frame, split_at)
        assert_closed_with(
            client, caplog, 501, NO_METHOD,
            'FRAME_ERROR - type 3, all octets = <<"body">>: {invalid_frame_end_marker,0}',
        )  # fmt: skip
    assert_unharmed(bystander)


def send_in_two(broker, client, data, split_at):
    """Send the second part after the broker has read the first."""
    client.send(data[:split_at])
    wait_until_read(broker, client)
    client.send(data[split_at:])


def test_a_message_too_large_in_several_frames_closes_its_channel_only(bystander, broker):
    size = 134_217_729
    with opened(broker) as client:
        client.send(PUBLISH + header_frame(1, b"\0\0", size) + encode_frame(BODY, 1, bytes(100)))
        closed = client.read_method(1, commands.Channel.Close)
        assert (closed.reply_code, closed.class_id, closed.method_id) == (406, *BASIC_PUBLISH)
        assert closed.reply_text == (
            f"PRECONDITION_FAILED - message size {size} is larger than configured max size "
            "134217728"
        )
        client.send_method(1, commands.Channel.CloseOk)
        client.open_channel(2)
    assert_unharmed(bystander)


def test_a_publish_that_comes_byte_by_byte(broker, bystander):
    with opened(broker) as client:
        client.declare("slow")
        for byte in publish_bytes(1, "slow", b"dribbled", content_type="text/plain"):
            client.send(bytes((byte,)))
        message = client.take("slow")
        assert message.body == b"dribbled"
        assert message.properties == {"content_type": "text/plain"}
    assert_unharmed(bystander)


def test_a_whole_session_that_comes_byte_by_byte(broker):
    session = b"".join(
        (
            PROTOCOL_HEADER,
            start_ok_bytes(),
            method_bytes(0, commands.Connection.TuneOk, channel_max=1, frame_max=4096, heartbeat=0),
            method_bytes(0, commands.Connection.Open, **open_arguments()),
            method_bytes(1, commands.Channel.Open),
            method_bytes(1, commands.Queue.Declare, queue="slow"),
            publish_bytes(1, "slow", b"dribbled"),
            method_bytes(0, commands.Connection.Close, **close_arguments()),
        )
    )
    with RawClient(broker) as client:
        for byte in session:
            client.send(bytes((byte,)))
        for method in (commands.Connection.Start, commands.Connection.Tune):
            client.read_method(0, method)
        client.read_method(0, commands.Connection.OpenOk)
        client.read_method(1, commands.Channel.OpenOk)
        client.read_method(1, commands.Queue.DeclareOk)
        client.read_method(0, commands.Connection.CloseOk)
    assert broker.queue_length("slow") == 1


# A valid mixed stream, split anywhere

BODIES = [b"", b"x", b"abc", b"\xce" * 20, bytes(5000), b"same", b"same", b"same", bytes(9000)]
CONSUMED = BODIES[:4]
FRAME_MAX_SMALL = 4096


def mixed_stream():
    """Publishes of all sizes, acks, methods and heartbeats on two channels."""
    parts = []
    for number, body in enumerate(BODIES):
        properties = {"headers": {"n": ("I", number)}} if number % 2 else {}
        parts.append(publish_bytes(1, "cut", body, frame_bytes_max=FRAME_MAX_SMALL, **properties))
        parts.append(encode_frame(HEARTBEAT, 0, b""))
        if number < len(CONSUMED):
            parts.append(method_bytes(2, commands.Basic.Get, queue="cut"))
            parts.append(method_bytes(2, commands.Basic.Ack, delivery_tag=number + 1))
        parts.append(method_bytes(2, commands.Queue.Declare, queue="cut", passive=True))
    parts.append(method_bytes(1, commands.Channel.Close, **close_arguments()))
    return b"".join(parts)


STREAM = mixed_stream()


def read_everything(client):
    """Return the broker's answers to the stream: bodies delivered, and message counts declared."""
    taken, counts = [], []
    for number in range(len(BODIES)):
        if number < len(CONSUMED):
            taken.append(client.read_content(2, commands.Basic.GetOk).body)
        counts.append(client.read_method(2, commands.Queue.DeclareOk).message_count)
    client.read_method(1, commands.Channel.CloseOk)
    left = [client.get("cut", channel=2) for _ in BODIES[len(CONSUMED) :]]
    return taken, counts, left


@settings(
    max_examples=40,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.integers(1, len(STREAM) - 1), max_size=60))
def test_it_does_not_matter_how_a_stream_is_cut(broker, cuts):
    places = [0, *sorted(set(cuts)), len(STREAM)]
    with opened(broker, frame_max=FRAME_MAX_SMALL) as client:
        client.open_channel(2)
        client.declare("cut")
        for start, stop in itertools.pairwise(places):
            client.send(STREAM[start:stop])
        taken, counts, left = read_everything(client)
    assert taken == CONSUMED
    assert counts == [0, 0, 0, 0, 1, 2, 3, 4, 5]
    assert left == BODIES[len(CONSUMED) :]
    assert broker.queue_length("cut") == 0
