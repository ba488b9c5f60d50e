"""A connection of the client: its handshake, heartbeats, channel 0, and how it ends."""

import asyncio

import pytest
from pamqp import commands

from leveret.broker.amqp.frames import HEARTBEAT, HEARTBEAT_FRAME, METHOD, encode_frame
from leveret.broker.moving.client.address import ServerAddress
from leveret.broker.moving.client.ended import ChannelClosed, ConnectionClosed
from tests.unit.broker.moving.client.fakes import ADDRESS, Server, delivery


def failure(server):
    assert server.connection.closed.done()
    assert server.socket.ended
    return server.connection.opened.result()


class TestHandshake:
    async def test_it_logs_in_with_the_first_mechanism_that_the_server_offers(self):
        server = Server()
        server.start(mechanisms="EXTERNAL AMQPLAIN PLAIN")
        answer = await server.received_method()
        assert (answer.mechanism, answer.response) == ("PLAIN", b"\0ann\0secret")
        assert answer.client_properties["product"] == ("S", "a test")
        assert answer.client_properties["capabilities"][1]["basic.nack"] == ("t", True)
        assert server.connection.server_properties == {"product": ("S", "a fake")}

    async def test_amqplain_is_a_table_without_its_length(self):
        server = Server(ServerAddress("h", mechanisms=("EXTERNAL", "AMQPLAIN")))
        server.start(mechanisms="AMQPLAIN")
        answer = await server.received_method()
        assert answer.response == b"\5LOGINS\0\0\0\5guest\x08PASSWORDS\0\0\0\5guest"

    async def test_the_smaller_limits_are_chosen_and_0_is_none(self):
        server = Server(ServerAddress("h", heartbeat_s=10, channel_max=0, frame_max=8192))
        await server.tune(channel_max=100, frame_max=131_072, heartbeat=60)
        tune_ok, opening = [method for _, method in await server.received()]
        assert (tune_ok.channel_max, tune_ok.frame_max, tune_ok.heartbeat) == (100, 8192, 10)
        assert opening.virtual_host == "/"

    async def test_without_limits_of_either_side_channels_and_frames_are_limited(self):
        server = Server(ServerAddress("h", heartbeat_s=0, channel_max=0))
        await server.tune(channel_max=0, frame_max=0, heartbeat=0)
        tune_ok = (await server.received())[0][1]
        assert (tune_ok.channel_max, tune_ok.frame_max, tune_ok.heartbeat) == (65535, 131_072, 0)

    async def test_no_mechanism_in_common(self):
        server = Server()
        server.start(mechanisms="EXTERNAL GSSAPI")
        assert failure(server) == (
            "amqp://rabbit.example:5672 offers the authentication mechanisms EXTERNAL, GSSAPI, and "
            "not PLAIN or AMQPLAIN: choose another one with auth_mechanism"
        )

    @pytest.mark.parametrize(
        ("greeting", "problem"),
        [
            (b"AMQP\0\1\0\0", "does not speak AMQP 0-9-1; it answers with 1.0.0"),
            (b"AMQP", "does not speak AMQP 0-9-1; it answers with "),
            (b"HTTP/1.1 400 No", "does not speak AMQP; it answers with b'HTTP/1.1 400 No'"),
            (b"\x15\x03\x01\0\2\2\x46", "speaks TLS: connect with amqps://"),
        ],
    )  # fmt: skip
    async def test_a_server_that_does_not_speak_amqp(self, greeting, problem):
        server = Server()
        server.send_bytes(greeting)
        assert failure(server) == f"amqp://rabbit.example:5672 {problem}"

    async def test_a_cancelled_handshake_has_a_socket_that_the_event_loop_has_closed(self):
        server = Server()
        server.start()
        # The answer is gathered, and goes out in the next round of the loop.
        server.socket.close()
        server.connection.drop("given up")
        assert server.socket.unread == b""
        assert failure(server).endswith("refuses the login of user 'ann': given up")

    async def test_a_refused_login(self):
        server = Server()
        server.start()
        await server.received()
        server.send(0, commands.Connection.Close, reply_code=403, reply_text="ACCESS_REFUSED - no")
        assert failure(server) == (
            "amqp://rabbit.example:5672 refuses the login of user 'ann': 403, ACCESS_REFUSED - no"
        )

    async def test_a_login_that_is_refused_without_a_word(self):
        server = Server()
        server.start()
        server.socket.ended = "by the server"
        server.connection.connection_lost(None)
        assert failure(server) == (
            "amqp://rabbit.example:5672 refuses the login of user 'ann': the server closed the "
            "socket: end of file"
        )

    async def test_a_vhost_that_is_not_there(self):
        server = Server()
        await server.tune()
        await server.received()
        server.send(0, commands.Connection.Close, reply_code=530, reply_text="NOT_ALLOWED - no")
        assert failure(server) == (
            "amqp://rabbit.example:5672 refuses vhost 'burrow' to user 'ann': 530, NOT_ALLOWED - no"
        )
        assert isinstance((await server.received_method()), commands.Connection.CloseOk)

    async def test_a_method_out_of_order(self):
        server = Server()
        server.send(0, commands.Connection.Tune, channel_max=1)
        assert "503, COMMAND_INVALID" in failure(server)

    async def test_a_socket_that_is_connected_after_the_attempt_was_given_up(self):
        server = Server()
        server.connection.drop("given up")
        server.connection.connection_made(server.socket)
        assert failure(server).endswith("given up")
        assert server.socket.ended == "aborted"


class TestHeartbeats:
    async def test_they_are_sent_when_nothing_else_was(self):
        server = await Server().open(heartbeat=10)
        await server.received()
        server.clock.advance(5)
        for _ in range(3):
            server.clock.advance(5)
            server.send_bytes(HEARTBEAT_FRAME)
        assert await server.received() == [(0, (HEARTBEAT, b""))] * 3

    async def test_a_server_that_is_silent_for_two_intervals_is_given_up(self):
        server = await Server().open(heartbeat=10)
        server.clock.advance(10)
        server.send_bytes(HEARTBEAT_FRAME)
        server.clock.advance(25)
        assert not server.connection.closed.done()
        server.clock.advance(15)
        assert server.connection.closed.result() == (
            0, "the server has sent nothing, not even a heartbeat, for 20 s",
        )  # fmt: skip
        assert server.socket.ended == "aborted"

    async def test_they_are_not_awaited_while_the_socket_is_not_read(self):
        server = await Server().open(heartbeat=10)
        server.connection.pause_reading()
        assert not server.socket.is_read
        server.clock.advance(1000)
        assert not server.connection.closed.done()
        server.connection.resume_reading()
        assert server.socket.is_read

    async def test_there_are_none_if_neither_side_wants_them(self):
        server = Server(ServerAddress("h", heartbeat_s=0))
        await server.open(heartbeat=0)
        await server.received()
        server.clock.advance(10_000)
        assert await server.received() == []


class TestEnds:
    async def test_close_in_order(self):
        server = await Server().open()
        closing = asyncio.ensure_future(server.connection.close())
        assert isinstance((await server.received())[-1][1], commands.Connection.Close)
        server.send(0, commands.Connection.CloseOk)
        server.connection.connection_lost(None)
        await closing
        assert server.connection.closed.result() == (200, "closed by this node")
        await server.connection.close()

    async def test_the_server_closes_while_this_side_does(self):
        server = await Server().open()
        closing = asyncio.ensure_future(server.connection.close())
        await server.received()
        server.send(0, commands.Connection.Close, reply_code=320, reply_text="CONNECTION_FORCED")
        assert isinstance(await server.received_method(), commands.Connection.CloseOk)
        server.connection.connection_lost(None)
        await closing
        assert server.connection.closed.result() == (320, "CONNECTION_FORCED")

    async def test_a_close_that_is_cancelled_closes_the_socket_at_once(self):
        server = await Server().open()
        closing = asyncio.ensure_future(server.connection.close())
        await server.received()
        closing.cancel()
        await asyncio.wait([closing])
        assert server.socket.ended == "aborted"
        assert server.connection.closed.result().reply_code == 0

    async def test_a_channel_whose_caller_stopped_waiting_is_closed(self):
        server = await Server().open()
        await server.received()
        opening = asyncio.ensure_future(server.connection.open_channel())
        await server.received()
        opening.cancel()
        assert isinstance(await server.received_method(), commands.Channel.Close)
        server.send(1, commands.Channel.OpenOk)
        server.send(1, commands.Channel.CloseOk)
        assert (await server.open_channel()).number == 1

    async def test_no_channel_is_opened_while_it_closes(self):
        server = await Server().open()
        closing = asyncio.ensure_future(server.connection.close())
        await server.received()
        with pytest.raises(ConnectionClosed, match="closed by this node"):
            await server.connection.open_channel()
        server.connection.connection_lost(None)
        await closing

    async def test_the_end_is_that_of_all_channels_and_of_what_waits(self):
        server = await Server().open()
        await server.received()
        channel = await server.open_channel()
        opening = asyncio.ensure_future(server.connection.open_channel())
        waiting = asyncio.ensure_future(channel.call(commands.Tx.Select))
        await server.received()
        server.connection.connection_lost(ConnectionResetError("reset by peer"))
        for pending in (opening, waiting):
            with pytest.raises(ConnectionClosed, match="reset by peer"):
                await pending
        assert channel.closed.result() == server.connection.closed.result()
        channel.ack(1)
        channel.nack(2)
        assert channel.publish("", "key", b"\0\0", b"discarded") == 0
        await channel.close()
        with pytest.raises(ConnectionClosed):
            await channel.call(commands.Tx.Select)

    @pytest.mark.parametrize(
        ("data", "code"),
        [
            (b"\x01\0\0\0\0\0\4\0\0\0\0\0", 501),
            (encode_frame(METHOD, 0, b"\0\x0a\0\x63"), 501),
            (encode_frame(METHOD, 0, b"\0\x0a"), 501),
            (encode_frame(77, 0, b"what"), 501),
            (encode_frame(METHOD, 7, b"\0\x14\0\x0b\0\0\0\0"), 504),
            (encode_frame(2, 0, bytes(14)), 505),
            (encode_frame(METHOD, 0, b"\0\x0a\0\x0b"), 501),
            (delivery(7, "tag", 1), 504),
            (encode_frame(3, 1, bytes(200_000)), 501),
        ],
    )
    async def test_a_server_that_breaks_the_protocol_is_told_so(self, data, code):
        server = await Server().open()
        await server.received()
        server.send_bytes(data)
        assert server.connection.closed.result().reply_code == code
        server.send_bytes(data)
        method = await server.received_method()
        assert isinstance(method, commands.Connection.Close)
        assert method.reply_code == code
        assert server.socket.ended == "closed"

    async def test_texts_that_are_not_utf_8_can_be_logged(self, caplog):
        server = await Server().open()
        server.send(0, commands.Connection.Blocked, reason="\udcff")
        server.send(0, commands.Connection.Close, reply_code=320, reply_text="\udcff")
        assert server.connection.closed.result() == (320, "\ufffd")
        assert "blocks publishes: \ufffd" in caplog.text

    async def test_blocked_and_unblocked(self):
        server = await Server().open()
        await server.received()
        channel = await server.open_channel()
        told = []
        channel.on_writable = lambda: told.append(channel.is_writable)
        server.send(0, commands.Connection.Blocked, reason="low on memory")
        assert (server.connection.is_blocked, channel.is_writable) == (True, False)
        server.connection.pause_writing()
        server.send(0, commands.Connection.Unblocked)
        assert not told
        server.connection.resume_writing()
        assert told == [True]

    async def test_blocking_is_reported_to_a_callback_in_place_of_the_log(self, caplog):
        told = []
        server = await Server(on_blocked=told.append).open()
        server.send(0, commands.Connection.Blocked, reason="low on memory")
        server.send(0, commands.Connection.Unblocked)
        assert told == ["low on memory", None]
        assert not caplog.messages

    async def test_no_more_channels_than_negotiated(self):
        server = await Server().open(channel_max=1)
        await server.received()
        channel = await server.open_channel()
        with pytest.raises(ChannelClosed, match="all 1 channels are in use"):
            await server.connection.open_channel()
        closing = asyncio.ensure_future(channel.close())
        await server.received()
        server.send(1, commands.Channel.CloseOk)
        await closing
        assert (await server.open_channel()).number == 1

    def test_its_text_names_the_server_and_no_password(self):
        assert "secret" not in f"{ADDRESS!r} {ADDRESS}"
