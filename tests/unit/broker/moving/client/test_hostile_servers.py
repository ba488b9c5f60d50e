"""What a connection keeps, does in a turn and answers is limited, whatever its server sends."""

import asyncio

import pytest
from pamqp import commands

from leveret.broker.amqp.frames import BODY, HEADER, HEARTBEAT_FRAME, METHOD, encode_frame
from leveret.broker.amqp.methods import encode_method, method_frame
from leveret.broker.moving.client import connection as client_connection
from leveret.broker.moving.client.address import ServerAddress
from leveret.broker.moving.client.incoming import FRAMES_MAX
from leveret.broker.moving.client.output import UNREAD_BYTES_MAX
from tests.unit.broker.moving.client.fakes import ADDRESS, ROUNDS, Server, delivery

LIMITED = ServerAddress("rabbit.example", message_bytes_max=1_000_000)
LONG = "t" * 255


async def opened(address=ADDRESS):
    server = await Server(address).open()
    await server.received()
    return server, await server.open_channel()


async def turns():
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


def content_header(size, kind):
    """The frames with which a message of this size begins."""
    if kind is commands.Basic.Deliver:
        arguments = {"consumer_tag": "tag", "delivery_tag": 1, "exchange": "", "routing_key": "k"}
    else:
        arguments = {"reply_code": 312, "reply_text": "", "exchange": "", "routing_key": "k"}
    header = b"\0\x3c\0\0" + size.to_bytes(8, "big") + b"\0\0"
    return encode_frame(METHOD, 1, encode_method(kind, **arguments)) + encode_frame(
        HEADER, 1, header
    )


@pytest.mark.parametrize("kind", [commands.Basic.Deliver, commands.Basic.Return])
@pytest.mark.parametrize("size", [1_000_001, 1 << 63])
async def test_a_message_that_is_too_large_ends_it_before_its_body_comes(kind, size):
    server, channel = await opened(LIMITED)
    await server.consume(channel, lambda run: None)
    server.send_bytes(content_header(size, kind))
    told = (
        f"CONTENT_TOO_LARGE - the server has begun a message of {size} bytes, and this node takes "
        "1000000 at most: see max_message_size"
    )
    assert server.connection.closed.result() == (311, told)
    close = await server.received_method()
    assert (close.reply_code, close.reply_text) == (311, told)


async def test_the_largest_message_is_taken():
    server, channel = await opened(LIMITED)
    taken = []
    await server.consume(channel, taken.extend)
    server.send_bytes(delivery(1, "tag", 1, bytes(1_000_000), frame_bytes_max=131_072))
    assert [len(one.body) for one in taken] == [1_000_000]


async def test_a_frame_that_is_too_large_ends_it_though_the_server_has_no_limit():
    server = await Server().open(frame_max=0)
    await server.received()
    assert server.connection.limits.frame_max == 131_072
    await server.open_channel()
    server.send_bytes(encode_frame(BODY, 1, b"")[:3] + (1 << 31).to_bytes(4, "big") + b"body")
    code, told = server.connection.closed.result()
    assert code == 501
    assert "frame_too_large" in told


@pytest.mark.parametrize("frame_max", [1, 8, 4095])
async def test_frames_that_are_too_small_are_refused(frame_max):
    server = Server()
    await server.tune(frame_max=frame_max)
    assert server.connection.opened.result() == (
        f"amqp://rabbit.example:5672 and this node agree on a frame_max of {frame_max} bytes: 4096 "
        "is the least"
    )


async def test_the_mechanisms_of_a_server_are_not_told_at_length():
    server = Server()
    server.start(mechanisms="M" * 10_000)
    assert len(server.connection.opened.result()) < 400


async def test_content_for_a_consumer_that_is_not_there_is_not_gathered():
    server, _ = await opened()
    server.send_bytes(content_header(1000, commands.Basic.Deliver))
    assert server.connection.closed.result().reply_code == 503


async def test_a_channel_that_is_being_closed_keeps_nothing():
    server, channel = await opened()
    await server.consume(channel, lambda run: None)
    server.send_bytes(content_header(1000, commands.Basic.Deliver))
    closing = asyncio.ensure_future(channel.close())
    await server.received()
    body = encode_frame(BODY, 1, bytes(500))
    server.send_bytes(body * 3 + content_header(1 << 63, commands.Basic.Deliver) + body)
    server.send(1, commands.Channel.CloseOk)
    await closing
    assert server.connection.is_open


async def test_a_connection_that_is_being_closed_takes_nothing():
    server, channel = await opened()
    taken = []
    await server.consume(channel, taken.extend)
    closing = asyncio.ensure_future(server.connection.close())
    await server.received()
    server.send_bytes(delivery(1, "tag", 1) + content_header(1 << 63, commands.Basic.Deliver))
    server.send(1, commands.Channel.Flow, active=False)
    server.send(0, commands.Connection.Blocked, reason="no memory")
    server.send(0, commands.Connection.CloseOk)
    server.connection.connection_lost(None)
    await closing
    assert server.connection.closed.result().reply_code == 200
    assert not taken
    assert server.socket.unread == b""


async def test_a_close_is_not_answered(monkeypatch):
    monkeypatch.setattr(client_connection, "CLOSE_SECONDS", 0.01)
    server, _ = await opened()
    closing = asyncio.ensure_future(server.connection.close())
    await server.connection.closed
    assert server.socket.ended == "aborted"
    server.connection.connection_lost(None)
    await closing


async def test_answers_that_are_never_read_end_it():
    method = method_frame(1, commands.Basic.Cancel, consumer_tag=LONG, nowait=False)
    server, _ = await opened()
    server.connection.pause_writing()
    answered = 0
    while not server.connection.closed.done():
        server.send_bytes(method * FRAMES_MAX)
        await turns()
        answered += FRAMES_MAX
        assert answered * len(method) < 2 * UNREAD_BYTES_MAX
    assert server.connection.closed.result().text == (
        "the server sends requests and does not read the answers"
    )


async def test_acks_count_only_while_the_socket_is_full():
    server, channel = await opened()
    for tag in range(UNREAD_BYTES_MAX // 21 // 100):
        server.connection.pause_writing()
        for _ in range(120):
            channel.ack(tag)
        server.connection.resume_writing()
    await turns()
    assert server.connection.is_open


async def test_frames_are_handled_some_at_a_time_and_in_order():
    server, channel = await opened()
    taken = []
    await server.consume(channel, taken.extend)
    frames = 3 * FRAMES_MAX
    server.send_bytes(HEARTBEAT_FRAME * frames + delivery(1, "tag", 1) + HEARTBEAT_FRAME[:5])
    server.send_bytes(HEARTBEAT_FRAME[5:] + delivery(1, "tag", 2))
    assert not taken
    assert not server.socket.is_read
    seen = []
    while not server.socket.is_read:
        seen.append(len(taken))
        await asyncio.sleep(0)
    assert seen[:2] == [0, 0]
    assert [one.tag for one in taken] == [1, 2]
    server.send_bytes(delivery(1, "tag", 3))
    assert [one.tag for one in taken] == [1, 2, 3]


async def test_frames_that_wait_are_forgotten_with_the_connection():
    server, channel = await opened()
    taken = []
    await server.consume(channel, taken.extend)
    server.send_bytes(HEARTBEAT_FRAME * FRAMES_MAX + delivery(1, "tag", 1))
    server.send_bytes(delivery(1, "tag", 2))
    server.connection.drop("enough")
    await turns()
    assert not taken


async def test_large_reads_leave_others_a_turn():
    server, channel = await opened()
    await server.consume(channel, lambda run: None)
    message = delivery(1, "tag", 1, bytes(client_connection.BIG_READ_BYTES), frame_bytes_max=65_536)
    for _ in range(client_connection.BIG_READS_MAX - 1):
        server.send_bytes(message)
        assert server.socket.is_read
    server.send_bytes(message)
    assert not server.socket.is_read
    await turns()
    assert server.socket.is_read


async def test_one_that_was_paused_meanwhile_stays_paused():
    server, _ = await opened()
    server.send_bytes(HEARTBEAT_FRAME * FRAMES_MAX)
    server.connection.pause_reading()
    await turns()
    assert not server.socket.is_read
    server.connection.resume_reading()
    assert server.socket.is_read


async def test_a_server_that_blocks_and_unblocks_is_logged_once(caplog):
    server, _ = await opened()
    for _ in range(5):
        server.send(0, commands.Connection.Blocked, reason="no memory")
        server.send(0, commands.Connection.Unblocked)
    told = [line for line in caplog.messages if "blocks publishes: no memory" in line]
    assert len(told) == 1
