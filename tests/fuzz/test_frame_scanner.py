"""The frame scanner with random input in random pieces; and a broker with damaged sessions."""

import asyncio
import itertools
import logging
import random
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import commands

from leveret.broker.amqp.content import header_frame
from leveret.broker.amqp.errors import ConnectionFault
from leveret.broker.amqp.frames import (
    BASIC_ACK,
    BASIC_PUBLISH,
    BODY,
    HEADER,
    METHOD,
    FrameScanner,
    FrameSink,
    encode_frame,
)
from leveret.broker.amqp.methods import METHODS
from leveret.testing import EmbeddedBroker
from tests.fuzz.sessions import HANDSHAKE, valid_session
from tests.protocol.raw_client import (
    RawClient,
    connection_count,
    method_bytes,
    opened,
    publish_bytes,
    wait_until,
)

RUN = settings(max_examples=200, deadline=None, database=None, derandomize=True)
FRAME_BYTES_MAX = 4096


class Recorder(FrameSink):
    """A sink that records frames, by whatever method it received them."""

    def __init__(self):
        self.frames = []

    def on_publish(self, channel, arguments, properties, bodies, body_bytes):
        assert body_bytes == sum(map(len, bodies))
        method = BASIC_PUBLISH.to_bytes(4, "big") + arguments
        for one, body in zip(properties, bodies, strict=True):
            header = header_frame(channel, one, len(body))[7:-1]
            self.frames += [(METHOD, channel, method), (HEADER, channel, header)]
            if body:
                self.frames.append((BODY, channel, body))

    def on_ack(self, channel, delivery_tags, multiple):
        assert len(delivery_tags) == 1 or not multiple
        for tag in delivery_tags:
            arguments = tag.to_bytes(8, "big") + bytes((multiple,))
            self.frames.append((METHOD, channel, BASIC_ACK.to_bytes(4, "big") + arguments))

    def on_frame(self, kind, channel, payload):
        self.frames.append((kind, channel, payload))


def scan(chunks):
    """Return the frames in these chunks, and the text of the fault that ended them, if any."""
    recorder = Recorder()
    scanner = FrameScanner(recorder, FRAME_BYTES_MAX)
    text = None
    for chunk in chunks:
        try:
            scanner.add(chunk)
            scanner.scan()
        except ConnectionFault as fault:
            assert scanner.is_broken
            assert text is None
            text = fault.reply_text
    return recorder.frames, text


def cut(data, places):
    """Split the data into non-empty pieces."""
    edges = [0, *sorted({place % len(data) for place in places} - {0}), len(data)]
    return [data[start:stop] for start, stop in itertools.pairwise(edges)]


CUTS = st.lists(st.integers(0, 2**16), max_size=30)
CHANNELS = st.integers(0, 3)
BODIES = st.one_of(st.binary(max_size=30), st.just(b"\xce" * 9), st.just(bytes(700)))


@st.composite
def messages(draw):
    """A run of messages that are equal, or differ in their bodies only."""
    channel = draw(CHANNELS)
    size = draw(st.integers(0, 12))
    bodies = draw(st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=4))
    properties = draw(st.sampled_from([{}, {"delivery_mode": 2}, {"content_type": "text/plain"}]))
    key = draw(st.sampled_from(["a", "b"]))
    return b"".join(publish_bytes(channel, key, body, **properties) for body in bodies)


FRAMES = st.one_of(
    messages(),
    st.builds(
        lambda channel, tag, many: method_bytes(
            channel, commands.Basic.Ack, delivery_tag=tag, multiple=many
        ),
        CHANNELS, st.integers(0, 2**64 - 1), st.booleans(),
    ),
    st.builds(encode_frame, st.sampled_from([METHOD, HEADER, BODY, 8, 99]), CHANNELS, BODIES),
    st.builds(
        lambda channel, body, frame_max: publish_bytes(
            channel, "long", body, frame_bytes_max=frame_max
        ),
        CHANNELS, BODIES, st.sampled_from([20, 256]),
    ),
    st.builds(
        lambda channel, rest: encode_frame(METHOD, channel, b"\0\x3c\0\x28" + rest),
        CHANNELS, BODIES,
    ),
    st.builds(
        lambda channel, rest: encode_frame(METHOD, channel, b"\0\x3c\0\x50" + rest),
        CHANNELS, BODIES,
    ),
)  # fmt: skip
STREAMS = st.lists(FRAMES, min_size=1, max_size=12).map(b"".join)


def frame_by_frame(data):
    """Return the frames in a valid stream, found without a scanner."""
    frames, position = [], 0
    while position < len(data):
        size = int.from_bytes(data[position + 3 : position + 7], "big")
        channel = int.from_bytes(data[position + 1 : position + 3], "big")
        frames.append((data[position], channel, data[position + 7 : position + 7 + size]))
        position += size + 8
    return frames


@RUN
@given(STREAMS, CUTS)
def test_a_valid_stream_gives_the_same_frames_however_it_is_cut(data, places):
    assert scan(cut(data, places)) == (frame_by_frame(data), None)


@RUN
@given(STREAMS)
def test_a_valid_stream_byte_by_byte(data):
    assert scan(cut(data, range(len(data)))) == (frame_by_frame(data), None)


@RUN
@given(st.lists(st.binary(max_size=40), max_size=20))
def test_any_bytes_in_any_pieces_raise_nothing_but_faults(chunks):
    scan(chunks)


@RUN
@given(STREAMS, CUTS, st.data())
def test_a_damaged_stream_gives_the_same_however_it_is_cut(data, places, draw):
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        damaged[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    damaged = bytes(damaged)
    assert scan(cut(damaged, places)) == scan([damaged])


class Refusing(Recorder):
    """A sink that records some frames and then refuses them."""

    def __init__(self, refused):
        super().__init__()
        self.refused = refused
        self.calls = 0

    def consider(self):
        self.calls += 1
        if self.calls in self.refused:
            raise ValueError

    def on_publish(self, *arguments):
        super().on_publish(*arguments)
        self.consider()

    def on_ack(self, *arguments):
        super().on_ack(*arguments)
        self.consider()

    def on_frame(self, *arguments):
        super().on_frame(*arguments)
        self.consider()


@RUN
@given(STREAMS, CUTS, st.sets(st.integers(1, 20)))
def test_a_sink_that_refuses_a_frame_misses_none_of_the_others(data, places, refused):
    sink = Refusing(refused)
    scanner = FrameScanner(sink, FRAME_BYTES_MAX)
    for chunk in cut(data, places):
        scanner.add(chunk)
        while True:
            try:
                scanner.scan()
                break
            except ValueError:
                continue
    assert sink.frames == frame_by_frame(data)


@RUN
@given(st.integers(FRAME_BYTES_MAX + 1, 2**32 - 1), st.sampled_from([METHOD, HEADER, BODY, 8]))
def test_a_frame_that_is_too_large_is_refused_by_its_first_seven_bytes(size, kind):
    start = bytes((kind, 0, 1)) + size.to_bytes(4, "big")
    text = f"{{frame_too_large,{size},{FRAME_BYTES_MAX - 8}}}"
    for chunks in ([start], cut(start, range(7))):
        frames, fault = scan(chunks)
        assert frames == []
        assert fault.endswith(text)


def test_a_wrong_end_octet_is_found_by_scan_wherever_the_chunks_meet():
    frame = encode_frame(BODY, 1, b"body")[:-1] + b"\0"
    for place in range(1, len(frame)):
        scanner = FrameScanner(Recorder(), FRAME_BYTES_MAX)
        scanner.add(frame[:place])
        scanner.scan()
        scanner.add(frame[place:])
        with pytest.raises(ConnectionFault, match="invalid_frame_end_marker,0"):
            scanner.scan()


# A whole broker

SESSIONS = 150
"""Few, since each connects: clients without sockets send many more (test_mutations.py)."""
INTERESTING = (0, 1, 0x7F, 0x80, 0xFF, 0xCE, ord("S"), ord("F"), ord("A"), ord("I"), ord("x"))


def test_a_session_that_is_not_damaged_is_served():
    with EmbeddedBroker.in_thread() as broker, RawClient(broker) as client:
        client.send(b"".join(HANDSHAKE + valid_session(0)))
        client.socket.shutdown(socket.SHUT_WR)
        answers = [
            METHODS[int.from_bytes(payload[:4], "big")]
            for kind, _, payload in frame_by_frame(client.read_end())
            if kind == METHOD
        ]
    assert answers[-1] is commands.Connection.CloseOk
    assert commands.Channel.Close not in answers
    assert commands.Connection.Close not in answers


def damaged(chance, frames):
    """Return the frames with some bytes changed, and some frames missing, repeated or moved."""
    frames = list(frames)
    for _ in range(chance.choice((0, 0, 0, 1, 3))):
        place = chance.randrange(len(frames))
        match chance.randrange(3):
            case 0:
                del frames[place]
            case 1:
                frames.insert(place, frames[chance.randrange(len(frames))])
            case _:
                frames.insert(place, frames.pop(chance.randrange(len(frames))))
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        place = chance.randrange(len(frames))
        frame = bytearray(frames[place])
        # Mostly after the start of a frame: damage there would just end the stream.
        position = chance.randrange(min(11, len(frame) - 1), len(frame))
        if chance.random() < 0.1:
            position = chance.randrange(len(frame))
        frame[position] = chance.choice(INTERESTING) if chance.random() < 0.7 else (
            chance.randrange(256)
        )  # fmt: skip
        frames[place] = bytes(frame)
    return b"".join(frames)


class ReadableRecord(logging.LogRecord):
    """A log record without the lone surrogates of damaged names, which cannot be written."""

    def getMessage(self):
        return super().getMessage().encode("ascii", "backslashreplace").decode()


@pytest.fixture
def _readable_logs():
    before = logging.getLogRecordFactory()
    logging.setLogRecordFactory(ReadableRecord)
    yield
    logging.setLogRecordFactory(before)


def unforeseen(caplog):
    """Return the broker's internal errors from the log, and clear it."""
    found = [
        f"{record.getMessage()}\n{record.exc_text or ''}"
        for record in caplog.records
        if record.exc_info or "internal error" in record.getMessage()
    ]
    caplog.clear()
    return found


@pytest.mark.usefixtures("_readable_logs")
@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_sessions_do_no_harm(seed, caplog):
    chance = random.Random(seed)
    slipped = []

    def watch(_):
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: note(ascii(context)))

    def note(context):
        slipped.append(context)

    with EmbeddedBroker.in_thread() as broker, opened(broker) as other:
        broker.call(watch)
        other.declare("kept")
        other.publish(1, "kept", b"kept")
        other.declare("kept")
        for number in range(SESSIONS):
            attack(broker, chance, valid_session(number))
            assert unforeseen(caplog) == []
            assert slipped == []
        assert other.declare("kept").message_count == 1
        assert other.get("kept") == b"kept"
        with opened(broker) as late:
            late.declare("new", exclusive=True)
            late.publish(1, "new", b"served")
            assert late.get("new") == b"served"
        wait_until(lambda: connection_count(broker) == 1)


def attack(broker, chance, session):
    """Run a damaged session; some have a damaged handshake, too."""
    if chance.random() < 0.1:
        handshake, session = b"", damaged(chance, HANDSHAKE + session)
    else:
        handshake, session = b"".join(HANDSHAKE), damaged(chance, session)
    with RawClient(broker) as client:
        try:
            if chance.random() < 0.5:
                client.send(handshake + session)
            else:
                place = chance.randrange(len(session))
                client.send(handshake + session[:place])
                client.send(session[place:])
            client.socket.shutdown(socket.SHUT_WR)
            client.read_end()
        except OSError:
            pass  # the broker has closed the connection
    wait_until(lambda: connection_count(broker) == 1)
