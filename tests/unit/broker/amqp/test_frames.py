"""The scanner that splits the byte stream into frames, for any chunks."""

import pytest
from pamqp import commands

from leveret.broker.amqp.content import header_frame
from leveret.broker.amqp.errors import ConnectionFault
from leveret.broker.amqp.frames import (
    BASIC_ACK,
    BASIC_PUBLISH,
    BODY,
    HEADER,
    HEARTBEAT,
    HEARTBEAT_FRAME,
    METHOD,
    FrameScanner,
    FrameSink,
    encode_frame,
    is_known_frame,
    settlement_frame,
)
from leveret.broker.amqp.methods import method_frame

ARGUMENTS = b"\0\0" + b"\0" + b"\5queue" + b"\0"
PROPERTIES = b"\x10\x00\x02"
PUBLISH_METHOD = BASIC_PUBLISH.to_bytes(4, "big") + ARGUMENTS


class Recorder(FrameSink):
    """A sink that records calls, and raises at the calls with the given numbers."""

    def __init__(self, *failures):
        self.calls = []
        self.failures = failures

    def note(self, *call):
        self.calls.append(call)
        if len(self.calls) in self.failures:
            raise RuntimeError("the sink does not like this frame")

    def on_publish(self, channel, arguments, properties, bodies, body_bytes):
        assert body_bytes == sum(map(len, bodies))
        self.note("publish", channel, arguments, properties, bodies)

    def on_ack(self, channel, delivery_tags, multiple):
        self.note("ack", channel, delivery_tags, multiple)

    def on_frame(self, kind, channel, payload):
        self.note("frame", kind, channel, bytes(payload))


def publish(body, channel=1, properties=PROPERTIES):
    """Return the frames of one message."""
    frames = encode_frame(METHOD, channel, PUBLISH_METHOD)
    frames += header_frame(channel, properties, len(body))
    return frames + (encode_frame(BODY, channel, body) if body else b"")


def ack(tag, multiple=0, channel=1):
    """Return a basic.ack."""
    payload = BASIC_ACK.to_bytes(4, "big") + tag.to_bytes(8, "big") + bytes((multiple,))
    return encode_frame(METHOD, channel, payload)


def scan(*chunks, frame_bytes_max=0):
    """Return the sink's calls for these chunks."""
    recorder = Recorder()
    scanner = FrameScanner(recorder, frame_bytes_max)
    for chunk in chunks:
        scanner.add(chunk)
        scanner.scan()
    return recorder.calls


def flattened(calls):
    """Return the frames, by whatever method they were delivered."""
    frames = []
    for name, channel, *rest in calls:
        if name == "publish":
            arguments, properties, bodies = rest
            for one, body in zip(properties, bodies, strict=True):
                frames.append((METHOD, channel, BASIC_PUBLISH.to_bytes(4, "big") + arguments))
                header = b"\0\x3c\0\0" + len(body).to_bytes(8, "big") + one
                frames.append((HEADER, channel, header))
                frames += [(BODY, channel, body)] if body else []
        elif name == "ack":
            tags, multiple = rest
            frames += [(METHOD, channel, ack(tag, multiple)[7:-1]) for tag in tags]
        else:
            frames.append((channel, *rest))
    return frames


def test_a_message_comes_in_one_call():
    assert scan(publish(b"hello")) == [("publish", 1, ARGUMENTS, [PROPERTIES], [b"hello"])]


def test_an_empty_message_has_no_body_frame():
    assert scan(publish(b"")) == [("publish", 1, ARGUMENTS, [PROPERTIES], [b""])]


def test_messages_with_the_same_publish_come_in_one_call():
    (call,) = scan(publish(b"one") + publish(b"two") + publish(b"") + publish(b"three"))
    assert call == ("publish", 1, ARGUMENTS, [PROPERTIES] * 4, [b"one", b"two", b"", b"three"])


def test_each_message_has_its_properties():
    others = [b"\x08\x00" + bytes((number,)) for number in range(3)]
    stream = b"".join(publish(b"one", properties=one) for one in [PROPERTIES, *others])
    assert scan(stream) == [("publish", 1, ARGUMENTS, [PROPERTIES, *others], [b"one"] * 4)]


def test_equal_properties_are_one_object():
    ((*_, properties, _),) = scan(publish(b"one") + publish(b"two"))
    assert properties[0] is properties[1]


def test_a_run_ends_where_the_publish_differs():
    stream = publish(b"one") + publish(b"three") + publish(b"after", 2)
    assert [(call[1], call[-1]) for call in scan(stream)] == [
        (1, [b"one", b"three"]), (2, [b"after"]),
    ]  # fmt: skip


def test_a_run_is_cut_with_its_chunk():
    stream = publish(b"one") + publish(b"two") + publish(b"six")
    cut = 2 * len(publish(b"one")) + 4
    calls = scan(stream[:cut], stream[cut:])
    assert calls[0] == ("publish", 1, ARGUMENTS, [PROPERTIES] * 2, [b"one", b"two"])
    assert flattened(calls) == flattened(scan(stream))


def test_acks_on_one_channel_come_in_one_call():
    calls = scan(ack(1) + ack(7) + ack(3) + ack(4, channel=2) + publish(b"") + ack(5))
    assert [call[:3] for call in calls if call[0] == "ack"] == [
        ("ack", 1, [1, 7, 3]), ("ack", 2, [4]), ("ack", 1, [5]),
    ]  # fmt: skip


def test_a_multiple_ack_comes_alone():
    assert scan(ack(1) + ack(7, 1) + ack(8, 1) + ack(9)) == [
        ("ack", 1, [1], 0), ("ack", 1, [7], 1), ("ack", 1, [8], 1), ("ack", 1, [9], 0),
    ]  # fmt: skip


def test_a_wrong_end_octet_behind_the_second_ack_of_a_row():
    assert "{invalid_frame_end_marker,1}" in broken_by(ack(1) + ack(2)[:-1] + b"\1")


def test_heartbeats_and_unknown_types_are_frames_like_others():
    assert scan(HEARTBEAT_FRAME + encode_frame(9, 8, b"?")) == [
        ("frame", HEARTBEAT, 0, b""), ("frame", 9, 8, b"?"),
    ]  # fmt: skip


STREAM = (
    publish(b"one") + publish(b"two") + HEARTBEAT_FRAME + ack(5) + publish(b"", 4)
    + encode_frame(METHOD, 2, b"\0\x14\0\x0a\0") + publish(b"a longer one") + ack(6, 1)
)  # fmt: skip


def test_a_stream_cut_anywhere_has_the_same_frames():
    whole = flattened(scan(STREAM))
    for cut in range(len(STREAM) + 1):
        assert flattened(scan(STREAM[:cut], STREAM[cut:])) == whole


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 11, 30])
def test_a_stream_in_small_pieces_has_the_same_frames(size):
    pieces = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]
    assert flattened(scan(*pieces)) == flattened(scan(STREAM))


@pytest.mark.parametrize("size", [1000, 4096, 65536, 99_999])
def test_a_big_body_comes_whole_however_many_pieces_it_came_in(size):
    body = bytes(range(256)) * 1000
    stream = publish(body) + publish(b"next")
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert flattened(scan(*pieces)) == flattened(scan(stream))


def test_a_message_in_several_body_frames_comes_frame_by_frame():
    stream = encode_frame(METHOD, 1, PUBLISH_METHOD) + header_frame(1, PROPERTIES, 6)
    stream += encode_frame(BODY, 1, b"one") + encode_frame(BODY, 1, b"two")
    assert scan(stream)[2:] == [("frame", BODY, 1, b"one"), ("frame", BODY, 1, b"two")]


def test_channels_may_take_turns():
    stream = encode_frame(METHOD, 1, PUBLISH_METHOD) + publish(b"other", 2)
    stream += header_frame(1, PROPERTIES, 3) + encode_frame(BODY, 1, b"one")
    kinds = [call[:3] for call in scan(stream)]
    assert kinds == [
        ("frame", METHOD, 1), ("publish", 2, ARGUMENTS), ("frame", HEADER, 1),
        ("frame", BODY, 1),
    ]  # fmt: skip


def broken_by(*chunks, frame_bytes_max=0):
    """Return the fault's text; the scanner then ignores further input."""
    recorder = Recorder()
    scanner = FrameScanner(recorder, frame_bytes_max)
    with pytest.raises(ConnectionFault) as caught:
        for chunk in chunks:
            scanner.add(chunk)
            scanner.scan()
    assert caught.value.reply_code == 501
    assert scanner.is_broken
    calls = len(recorder.calls)
    scanner.scan()
    assert len(recorder.calls) == calls
    return caught.value.reply_text


def test_a_wrong_end_octet_breaks_the_stream():
    text = broken_by(encode_frame(METHOD, 1, b"\0\x14\0\x28")[:-1] + b"X" + publish(b"after"))
    assert text == (
        "FRAME_ERROR - type 1, all octets = <<0,20,0,40>>: {invalid_frame_end_marker,88}"
    )


def test_a_wrong_end_octet_behind_a_body():
    text = broken_by(publish(b"hello, hello, hello")[:-1] + b"\0")
    assert text == (
        'FRAME_ERROR - type 3, first 16 octets = <<"hello, hello, he">>: '
        "{invalid_frame_end_marker,0}"
    )


@pytest.mark.parametrize("cut", [1, 5, 19, 20])
def test_a_wrong_end_octet_behind_a_body_that_came_in_pieces(cut):
    stream = publish(b"hello, hello, hello")[:-1] + b"\0"
    assert '<<"hello, hello, he">>: {invalid_frame_end_marker,0}' in broken_by(
        stream[:-cut], stream[-cut:]
    )


def test_a_wrong_end_octet_behind_the_second_message_of_a_run():
    stream = publish(b"one") + publish(b"two")[:-1] + b"\1"
    assert "{invalid_frame_end_marker,1}" in broken_by(stream)


def test_a_frame_may_have_frame_max_octets_of_payload_as_in_rabbitmq():
    assert scan(encode_frame(BODY, 1, b"x" * 4096), frame_bytes_max=4096)
    text = broken_by(encode_frame(BODY, 1, b"x" * 4097), frame_bytes_max=4096)
    assert text == "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,4097,4088}"


def test_a_frame_that_is_too_large_is_noticed_before_it_has_come():
    text = broken_by(b"\3\0\1\xff\xff\xff\xff", frame_bytes_max=131072)
    assert text == ("FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,4294967295,131064}")


def test_a_body_too_large_behind_a_publish():
    assert "frame_too_large,5000," in broken_by(publish(b"x" * 5000), frame_bytes_max=4096)


def test_without_a_frame_max_no_frame_is_too_large():
    assert scan(publish(b"x" * 500_000))[0][-1] == [b"x" * 500_000]


@pytest.mark.parametrize("failure", range(1, 8))
@pytest.mark.parametrize("cut", [0, 30, 60, len(STREAM)])
def test_after_the_sink_raised_the_scan_goes_on_behind_the_frame(failure, cut):
    recorder = Recorder(failure)
    scanner = FrameScanner(recorder, 0)
    for chunk in (STREAM[:cut], STREAM[cut:]):
        scanner.add(chunk)
        try:
            scanner.scan()
        except RuntimeError:
            scanner.scan()
    assert flattened(recorder.calls) == flattened(scan(STREAM))


def test_after_the_sink_raised_at_a_body_in_pieces_the_scan_goes_on_behind_it():
    body = b"x" * 1000
    stream = encode_frame(BODY, 1, body) + HEARTBEAT_FRAME
    recorder = Recorder(1)
    scanner = FrameScanner(recorder, 0)
    scanner.add(stream[:500])
    scanner.scan()
    scanner.add(stream[500:])
    with pytest.raises(RuntimeError):
        scanner.scan()
    scanner.scan()
    assert recorder.calls == [("frame", BODY, 1, body), ("frame", HEARTBEAT, 0, b"")]


@pytest.mark.parametrize(
    ("kind", "payload", "is_known"),
    [
        (METHOD, b"\0\x0a\0\x0a", True),
        (METHOD, b"\0\x0a\0", False),
        (HEADER, b"\0" * 14, True),
        (HEADER, b"\0" * 13, False),
        (BODY, b"", True),
        (HEARTBEAT, b"", True),
        (HEARTBEAT, b"x", False),
        (4, b"", False),
    ],
)
def test_frames_that_exist(kind, payload, is_known):
    assert is_known_frame(kind, payload) is is_known


@pytest.mark.parametrize("multiple", [False, True])
def test_the_frames_of_settlements_are_those_of_the_methods(multiple):
    tag = 1 << 40
    settled = {"delivery_tag": tag, "multiple": multiple}
    ack = method_frame(7, commands.Basic.Ack, **settled)
    nack = method_frame(7, commands.Basic.Nack, **settled, requeue=True)
    assert settlement_frame(7, True, tag, multiple) == ack
    assert settlement_frame(7, False, tag, multiple) == nack
