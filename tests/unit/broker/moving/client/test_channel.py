"""A channel of the client: contents in all shapes, answers, flow, and how it ends."""

import asyncio

import pytest
from pamqp import commands

from leveret.broker.amqp.content import content_frames
from leveret.broker.amqp.frames import BODY, HEADER, encode_frame
from leveret.broker.amqp.methods import encode_method
from leveret.broker.moving.client.ended import ChannelClosed
from tests.unit.broker.moving.client.fakes import Server, delivery


@pytest.fixture
async def server():
    server = await Server().open()
    await server.received()
    return server


@pytest.fixture
async def channel(server):
    return await server.open_channel()


def shape(runs):
    return [[(one.tag, one.body) for one in run] for run in runs]


def got(tag, body):
    """The frames of a message that basic.get takes."""
    method = encode_method(
        commands.Basic.GetOk,
        delivery_tag=tag, redelivered=False, exchange="", routing_key="key", message_count=0,
    )  # fmt: skip
    return b"".join(content_frames(1, method, b"\0\0", body, 0))


async def test_a_method_is_sent_before_what_follows_its_call(server, channel):
    call = channel.call(commands.Tx.Commit)
    channel.ack(7)
    (_, commit), (_, ack) = await server.received()
    assert isinstance(commit, commands.Tx.Commit)
    assert isinstance(ack, commands.Basic.Ack)
    server.send(channel.number, commands.Tx.CommitOk)
    assert isinstance(await call, commands.Tx.CommitOk)


class TestDeliveries:
    async def test_those_that_come_together_are_taken_together(self, server, channel):
        runs = []
        await server.consume(channel, runs.append)
        frames = [delivery(1, "tag", tag, b"body %d" % tag) for tag in range(1, 5)]
        server.send_bytes(b"".join(frames))
        assert shape(runs) == [[(tag, b"body %d" % tag) for tag in range(1, 5)]]

    async def test_what_differs_between_them_is_kept(self, server, channel):
        runs = []
        await server.consume(channel, runs.append)
        server.send_bytes(
            delivery(1, "tag", 1, exchange="one", routing_key="a.b", redelivered=True)
            + delivery(1, "tag", 2, b"", exchange="other", routing_key="", properties=b"\x10\0\2")
            + delivery(1, "tag", 3, exchange="", routing_key="\u00e4")
        )
        ((first, second, third),) = runs
        assert (first.exchange, first.routing_key, first.redelivered) == ("one", "a.b", True)
        assert (second.exchange, second.routing_key, second.redelivered) == ("other", "", False)
        assert (second.properties, second.body) == (b"\x10\0\2", b"")
        assert (third.exchange, third.routing_key) == ("", "\u00e4")

    async def test_consumers_and_channels_get_their_own_in_order(self, server, channel):
        other = await server.open_channel()
        taken = []
        for one, tag in ((channel, "a"), (channel, "b"), (other, "a")):
            await server.consume(
                one, lambda run, of=(one.number, tag): taken.append((of, len(run))), tag
            )
        server.send_bytes(
            delivery(1, "a", 1) + delivery(1, "a", 2) + delivery(1, "b", 3)
            + delivery(2, "a", 1) + delivery(1, "a", 4)
        )  # fmt: skip
        assert taken == [((1, "a"), 2), ((1, "b"), 1), ((2, "a"), 1), ((1, "a"), 1)]

    @pytest.mark.parametrize("size", [1, 7, 40, 61, 62, 100])
    async def test_chunks_of_any_size_make_the_same_deliveries(self, server, channel, size):
        runs = []
        await server.consume(channel, runs.append)
        bodies = [b"", b"x", bytes(100), bytes(20)]
        stream = b"".join(
            delivery(1, "tag", tag, body, properties=b"\x08\0\5", frame_bytes_max=48)
            for tag, body in enumerate(bodies, 1)
        )
        for start in range(0, len(stream), size):
            server.send_bytes(stream[start : start + size])
        taken = [one for run in runs for one in run]
        assert [one.body for one in taken] == bodies
        assert [one.tag for one in taken] == [1, 2, 3, 4]
        assert {one.properties for one in taken} == {b"\x08\0\5"}

    async def test_deliveries_that_come_with_consume_ok_are_not_lost(self, server, channel):
        runs = []
        consuming = asyncio.ensure_future(channel.consume("queue", runs.append))
        await server.received()
        server.send(1, commands.Basic.ConsumeOk, consumer_tag="tag")
        server.send_bytes(delivery(1, "tag", 1))
        assert len(runs) == 1
        assert await consuming == "tag"

    async def test_one_message_is_taken_from_a_queue(self, server, channel):
        getting = asyncio.ensure_future(channel.get("queue", no_ack=True))
        asked = await server.received_method()
        assert (asked.queue, asked.no_ack) == ("queue", True)
        server.send_bytes(got(7, b"body"))
        message = await getting
        assert (message.tag, message.routing_key, message.body) == (7, "key", b"body")

    async def test_an_empty_queue_has_no_message(self, server, channel):
        getting = asyncio.ensure_future(channel.get("queue"))
        await server.received_method()
        server.send(1, commands.Basic.GetEmpty)
        assert await getting is None

    async def test_a_message_that_was_not_asked_for_closes_the_connection(self, server, channel):
        server.send_bytes(got(7, b"body"))
        assert server.connection.closed.result().reply_code == 503

    @pytest.mark.parametrize(
        ("data", "code"),
        [
            (delivery(1, "unknown", 1), 503),
            (delivery(1, "tag", 1, b"")[:-1] + b"\0", 501),
            (encode_frame(BODY, 1, b"body"), 505),
            (encode_frame(HEADER, 1, bytes(14)), 505),
            (delivery(1, "tag", 1)[:30] + delivery(1, "tag", 2), 505),
            (encode_frame(1, 1, b"\0\x3c\0\x3c\x03ta"), 501),
            (delivery(1, "tag", 1).replace(b"\3key", b"\4key"), 501),
            (encode_frame(1, 1, b"\0\x3c\0\x28\0\0\0\0\0"), 503),
        ],
    )
    async def test_damaged_ones_close_the_connection(self, server, channel, data, code):
        runs = []
        await server.consume(channel, runs.append)
        server.send_bytes(data)
        if not server.connection.closed.done():
            server.send_bytes(encode_frame(1, 1, b"\0\x14\0\x0b\0\0\0\0"))
        assert server.connection.closed.result().reply_code == code
        assert not runs
        assert channel.closed.done()

    async def test_an_error_of_the_consumer_closes_the_connection(self, server, channel, caplog):
        def take(deliveries):
            raise KeyError("a mistake")

        await server.consume(channel, take)
        server.send_bytes(delivery(1, "tag", 1))
        assert server.connection.closed.result() == (
            0, "an internal error of this node: KeyError('a mistake')",
        )  # fmt: skip
        assert "a mistake" in caplog.text


class TestPublishes:
    async def test_tags_count_from_the_request_for_confirms(self, server, channel):
        assert channel.publish("", "key", b"\0\0", b"before") == 0
        confirming = asyncio.ensure_future(channel.confirm())
        await server.received()
        assert channel.publish("", "key", b"\0\0", b"one") == 1
        server.send(1, commands.Confirm.SelectOk)
        await confirming
        assert channel.publish("", "key", b"\0\0", b"two") == 2

    async def test_address_and_flags_are_those_of_each_message(self, server, channel):
        channel.publish("x", "a", b"\0\0", b"1")
        channel.publish("x", "a", b"\0\0", b"2", True)
        channel.publish("x", "b", b"\0\0", b"")
        channel.publish("y", "b", b"\x10\0\2", b"4")
        sent = [
            (method.exchange, method.routing_key, method.mandatory, properties, body)
            for _, method, properties, body in await server.received()
        ]
        assert sent == [
            ("x", "a", False, b"\0\0", b"1"),
            ("x", "a", True, b"\0\0", b"2"),
            ("x", "b", False, b"\0\0", b""),
            ("y", "b", False, b"\x10\0\2", b"4"),
        ]

    async def test_a_body_above_frame_max_goes_in_several_frames(self):
        server = await Server().open(frame_max=4096)
        await server.received()
        channel = await server.open_channel()
        channel.publish("", "key", b"\0\0", bytes(10_000))
        frames = [content for _, content in await server.received()]
        assert isinstance(frames[0], commands.Basic.Publish)
        assert [len(payload) for kind, payload in frames[2:]] == [4088, 4088, 1824]

    async def test_much_is_written_before_the_round_ends(self, server, channel):
        for _ in range(100):
            channel.publish("", "key", b"\0\0", bytes(1024))
        assert len(server.socket.unread) > 64 * 1024

    async def test_acks_and_nacks_of_the_server(self, server, channel):
        told = []
        channel.on_confirmed = lambda *confirm: told.append(confirm)
        server.send(1, commands.Basic.Ack, delivery_tag=1)
        server.send(1, commands.Basic.Ack, delivery_tag=5, multiple=True)
        server.send(1, commands.Basic.Nack, delivery_tag=6)
        server.send(1, commands.Basic.Nack, delivery_tag=9, multiple=True)
        assert told == [
            (1, False, True), (5, True, True), (6, False, False), (9, True, False),
        ]  # fmt: skip

    async def test_a_text_that_is_too_long(self, channel):
        with pytest.raises(ValueError, match="range"):
            channel.publish("", "k" * 256, b"\0\0", b"")

    async def test_settlements(self, server, channel):
        channel.ack(1)
        channel.ack(2, multiple=True)
        channel.nack(3, requeue=False)
        channel.nack(4, multiple=True, requeue=True)
        ack, acks, nack, nacks = [method for _, method in await server.received()]
        assert (ack.delivery_tag, ack.multiple) == (1, False)
        assert (acks.delivery_tag, acks.multiple) == (2, True)
        assert (nack.delivery_tag, nack.multiple, nack.requeue) == (3, False, False)
        assert (nacks.delivery_tag, nacks.multiple, nacks.requeue) == (4, True, True)

    async def test_a_returned_message(self, server, channel):
        returned = []
        channel.on_returned = returned.append
        method = encode_method(
            commands.Basic.Return,
            reply_code=312, reply_text="NO_ROUTE", exchange="x", routing_key="key",
        )  # fmt: skip
        server.send_bytes(b"".join(content_frames(1, method, b"\x10\0\2", b"lost", 0)))
        (message,) = returned
        assert (message.reply_code, message.reply_text) == (312, "NO_ROUTE")
        assert (message.properties, message.body) == (b"\x10\0\2", b"lost")


class TestMethods:
    async def test_flow_is_answered_and_stops_publishes(self, server, channel):
        told = []
        channel.on_writable = lambda: told.append(True)
        server.send(1, commands.Channel.Flow, active=False)
        assert not channel.is_writable
        assert (await server.received_method()).active is False
        server.send(1, commands.Channel.Flow, active=True)
        assert channel.is_writable
        assert (await server.received_method()).active is True
        assert told == [True]

    async def test_a_channel_that_has_ended_takes_no_more(self, server, channel):
        server.send(1, commands.Channel.Close, reply_code=404, reply_text="NOT_FOUND")
        assert not channel.is_writable

    async def test_a_cancellation_by_the_server(self, server, channel):
        told = []
        channel.on_cancelled = told.append
        await server.consume(channel, told.append)
        server.send(1, commands.Basic.Cancel, consumer_tag="tag", nowait=True)
        assert told == ["tag"]
        assert await server.received() == []
        server.send(1, commands.Basic.Cancel, consumer_tag="gone")
        assert (await server.received_method()).consumer_tag == "gone"
        assert told == ["tag"]

    async def test_consumers_may_come_and_go_without_an_answer(self, server, channel):
        runs = []
        channel.consume_unanswered("q", runs.append, "tag", no_ack=True, arguments={})
        asked = await server.received_method()
        assert (asked.queue, asked.consumer_tag, asked.nowait) == ("q", "tag", True)
        channel.cancel_unanswered("tag")
        assert (await server.received_method()).nowait
        server.send_bytes(delivery(1, "tag", 1))
        assert shape(runs) == [[(1, b"body")]]

    async def test_no_consumer_comes_or_goes_when_the_channel_has_ended(self, server, channel):
        server.send(1, commands.Channel.Close, reply_code=404, reply_text="NOT_FOUND")
        await server.received()
        channel.consume_unanswered("q", print, "tag", no_ack=True, arguments={})
        channel.cancel_unanswered("tag")
        assert await server.received() == []

    @pytest.mark.parametrize("method", [commands.Basic.Publish, commands.Basic.Get])
    async def test_methods_with_content_are_no_calls(self, channel, method):
        with pytest.raises(ValueError, match="not a method with a plain answer"):
            await channel.call(method)

    async def test_methods_without_an_answer_are_no_calls(self, channel):
        with pytest.raises(ValueError, match="not a method with a plain answer"):
            await channel.call(commands.Queue.Declare, queue="q", nowait=True)

    async def test_an_answer_to_another_method_closes_the_connection(self, server, channel):
        waiting = asyncio.ensure_future(channel.call(commands.Tx.Select))
        await server.received()
        server.send(1, commands.Confirm.SelectOk)
        assert server.connection.closed.result().reply_code == 503
        await asyncio.wait([waiting])
        assert waiting.exception() is not None

    async def test_a_call_that_was_given_up_leaves_its_answer_to_no_other(self, server, channel):
        first = asyncio.ensure_future(channel.call(commands.Queue.Declare, queue="first"))
        second = asyncio.ensure_future(channel.call(commands.Queue.Declare, queue="second"))
        await server.received()
        first.cancel()
        for name in ("first", "second"):
            server.send(1, commands.Queue.DeclareOk, queue=name)
        assert (await second).queue == "second"


class TestEnds:
    async def test_by_the_server_with_a_method_that_waits(self, server, channel):
        waiting = asyncio.ensure_future(channel.call(commands.Tx.Select))
        await server.received()
        server.send(1, commands.Channel.Close, reply_code=406, reply_text="PRECONDITION_FAILED")
        assert isinstance(await server.received_method(), commands.Channel.CloseOk)
        with pytest.raises(ChannelClosed, match="406, PRECONDITION_FAILED"):
            await waiting
        assert channel.closed.result() == (406, "PRECONDITION_FAILED")

    async def test_what_the_server_sent_before_it_knew_is_discarded(self, server, channel):
        runs = []
        await server.consume(channel, runs.append)
        closing = asyncio.ensure_future(channel.close())
        assert isinstance(await server.received_method(), commands.Channel.Close)
        server.send_bytes(delivery(1, "tag", 1) + delivery(1, "tag", 2, bytes(10))[:-5])
        server.send_bytes(delivery(1, "tag", 2, bytes(10))[-5:])
        server.send(1, commands.Basic.Nack, delivery_tag=1)
        with pytest.raises(ChannelClosed, match="closed by this node"):
            await channel.call(commands.Tx.Select)
        server.send(1, commands.Channel.CloseOk)
        await closing
        await channel.close()
        assert not runs
        assert channel.closed.result() == (200, "closed by this node")

    async def test_both_sides_at_once(self, server, channel):
        closing = asyncio.ensure_future(channel.close())
        await server.received()
        server.send(1, commands.Channel.Close, reply_code=404, reply_text="NOT_FOUND")
        await closing
        assert isinstance(await server.received_method(), commands.Channel.CloseOk)
        # The number is free when the other close is answered, too.
        other = await server.open_channel()
        assert other.number == 2
        server.send(1, commands.Channel.CloseOk)
        assert (await server.open_channel()).number == 1
