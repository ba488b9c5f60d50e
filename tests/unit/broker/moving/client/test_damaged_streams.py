"""Streams of a server in which octets are changed, missing or too many, in chunks of any size.

Whatever comes, a connection goes on or ends with a reply code: it never ends with an internal
error, and nothing is taken after the end.
"""

import random

import pytest
from pamqp import commands

from leveret.broker.amqp.frames import HEARTBEAT_FRAME
from leveret.broker.amqp.methods import method_frame
from tests.unit.broker.moving.client.fakes import Server, delivery

SEEDS = range(50)
CHANGES = 40


def stream():
    """Return what a server may send on a channel with a consumer, in frames."""
    return [
        *(delivery(1, "tag", tag, bytes(tag * 5)) for tag in range(1, 5)),
        HEARTBEAT_FRAME,
        method_frame(1, commands.Basic.Ack, delivery_tag=3, multiple=True),
        method_frame(1, commands.Basic.Nack, delivery_tag=4),
        delivery(1, "tag", 5, bytes(100), frame_bytes_max=50),
        method_frame(1, commands.Channel.Flow, active=True),
        method_frame(0, commands.Connection.Blocked, reason="no memory"),
        method_frame(0, commands.Connection.Unblocked),
        method_frame(1, commands.Basic.Cancel, consumer_tag="other", nowait=True),
        delivery(1, "tag", 6, properties=b"\x80\0\1t"),
    ]


def damaged(chance):
    """Return the stream with a change, in chunks."""
    frames = stream()
    match chance.randrange(4):
        case 0:
            chance.shuffle(frames)
        case 1:
            del frames[chance.randrange(len(frames))]
    data = bytearray(b"".join(frames))
    at = chance.randrange(len(data))
    match chance.randrange(4):
        case 0:
            data[at] = chance.randrange(256)
        case 1:
            data[at] ^= 1 << chance.randrange(8)
        case 2:
            del data[at : at + chance.randrange(1, 9)]
        case 3:
            data[at:at] = chance.randbytes(chance.randrange(1, 9))
    size = chance.choice((1, 7, 50, 200, len(data)))
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_connection_goes_on_or_ends_with_a_code(seed, caplog):
    chance = random.Random(seed)
    for _ in range(CHANGES):
        server = await Server().open()
        await server.received()
        channel = await server.open_channel()
        taken, ended = [], server.connection.closed
        await server.consume(
            channel, lambda run, taken=taken, ended=ended: taken.append(ended.done())
        )
        for chunk in damaged(chance):
            server.send_bytes(chunk)
        assert True not in taken
        if ended.done():
            code, text = ended.result()
            assert code or not text, text
            assert channel.closed.done()
    assert not [record for record in caplog.records if record.exc_info]
