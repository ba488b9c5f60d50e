"""AMQP 1.0: SASL, open, idle time-outs, sessions that begin and end, errors of the connection."""

import struct
from dataclasses import replace

import pytest

from leveret.broker.amqp.frames import PROTOCOL_HEADER
from leveret.broker.config.authentication_settings import AuthenticationSettings
from leveret.broker.protocols.amqp10.connection import FORCED_MS, REFUSAL_MS
from leveret.broker.protocols.amqp10.login import HEADER, SASL_HEADER
from leveret.broker.protocols.amqp10.performatives import (
    Attach,
    Begin,
    Close,
    End,
    Flow,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
)
from leveret.broker.protocols.ending import CLOSE_TIMEOUT_MS
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.protocol.amqp10_peer import Amqp10Node

SILENT_SECONDS = 60
"""Twice the idle time-out that the broker tells."""
PLUGIN = "rabbitmq_amqp1_0"


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
async def node(clock):
    async with Amqp10Node(clock) as node:
        yield node


async def test_every_step(node):
    client = node.connect()
    client.send_bytes(SASL_HEADER)
    header, mechanisms = await client.frames()
    assert header.performative == SASL_HEADER
    assert mechanisms.performative == SaslMechanisms(["PLAIN", "AMQPLAIN", "ANONYMOUS"])
    assert await client.answers(SaslInit("PLAIN", b"\0guest\0guest")) == [SaslOutcome(0)]
    client.send_bytes(HEADER)
    client.send(Open("test", "vhost:/", channel_max=5))
    answered, opened = await client.frames()
    assert answered.performative == HEADER
    assert opened.performative[:5] == (node.broker.config.node_name, None, 131_072, 5, 30_000)
    assert await client.answers(Close()) == [Close()]
    assert client.socket.is_closed


async def test_handshake_in_single_bytes(node):
    client = node.connect()
    for byte in SASL_HEADER:
        client.send_bytes(bytes((byte,)))
    assert [type(one.performative) for one in await client.frames()] == [bytes, SaslMechanisms]


async def test_a_client_without_sasl_is_told_its_header(node):
    client = node.connect()
    client.send_bytes(HEADER)
    assert [one.performative for one in await client.frames()] == [SASL_HEADER]
    assert client.socket.is_closed


@pytest.mark.parametrize(("plugins", "answer"), [((), PROTOCOL_HEADER), ((PLUGIN,), SASL_HEADER)])
async def test_a_node_as_rabbitmq_3_serves_it_with_the_plugin(plugins, answer):
    async with Amqp10Node(compat="3.12", plugins=plugins) as node:
        client = node.connect()
        client.send_bytes(SASL_HEADER)
        assert (await client.frames())[0].performative == answer


async def test_anonymous_is_not_offered_where_other_mechanisms_are_configured():
    chosen = AuthenticationSettings(mechanisms=("PLAIN",))
    async with Amqp10Node(authentication=chosen) as node:
        client = node.connect()
        client.send_bytes(SASL_HEADER)
        assert (await client.frames())[1].performative == SaslMechanisms(["PLAIN"])
        assert await client.answers(SaslInit("ANONYMOUS")) == []
        assert client.socket.is_closed


async def test_a_wrong_password_is_told_and_the_socket_closed_later(node, clock):
    client = node.connect()
    assert await client.log_in(password="wrong") == [SaslOutcome(1)]
    assert not client.socket.is_closed
    clock.advance(REFUSAL_MS / 1000)
    assert client.socket.is_closed


@pytest.mark.parametrize("request_", [SaslInit("KERBEROS"), SaslInit("PLAIN", b"x"), Open("test")])
async def test_what_is_out_of_order_closes_the_socket(node, request_):
    client = node.connect()
    client.send_bytes(SASL_HEADER)
    await client.frames()
    assert await client.answers(request_) == []
    assert client.socket.is_closed


async def test_a_missing_vhost_closes_the_socket(node):
    client = node.connect()
    await client.log_in()
    client.send_bytes(HEADER)
    await client.answers(Open("test", "vhost:missing"))
    assert client.socket.is_closed


async def test_a_small_max_frame_size_closes_the_socket(node):
    client = node.connect()
    await client.log_in()
    client.send_bytes(HEADER)
    await client.answers(Open("test", max_frame_size=511))
    assert client.socket.is_closed


async def test_the_connection_counts_once_and_is_listed(node):
    opened = node.broker.services.counts.connections_opened
    client = await node.connect().open()
    assert node.broker.services.counts.connections_opened == opened + 1
    assert set(node.broker.connections) == {client.connection}
    status = client.connection.status()
    assert (status.protocol, status.mechanism, status.heartbeat_s) == ("AMQP 1-0", "PLAIN", 60)


async def test_empty_frames_are_sent_within_the_time_of_the_client(node, clock):
    client = await node.connect().open(idle_time_out=1000)
    clock.advance(0.5)
    clock.advance(0.5)
    assert [one.performative for one in await client.frames()] == [None]


async def test_a_silent_client_is_given_up(node, clock):
    client = await node.connect().open()
    client.send_bytes(struct.pack(">IBBH", 8, 2, 0, 0))
    clock.advance(SILENT_SECONDS)
    assert not client.socket.is_closed
    clock.advance(SILENT_SECONDS)
    (close,) = [one.performative for one in await client.frames()]
    assert close.error[:2] == (
        "amqp:resource-limit-exceeded",
        "no frame received from client within idle timeout threshold",
    )
    assert client.socket.is_closed


async def test_idle_time_outs_follow_the_heartbeat_that_is_configured():
    async with Amqp10Node(heartbeat_s=10) as node:
        client = node.connect()
        await client.log_in()
        client.send_bytes(HEADER)
        [_, opened] = await client.answers(Open("test"))
        assert opened.idle_time_out == 5000


async def test_a_client_cannot_have_frames_sent_all_the_time(node):
    client = node.connect()
    await client.log_in()
    client.send_bytes(HEADER)
    await client.answers(Open("test", idle_time_out=1))
    assert client.socket.is_closed
    assert not client.connection.is_open


async def test_the_end_of_a_token_is_told(node):
    client = await node.connect().open()
    client.connection.credential_expired()
    (close,) = [one.performative for one in await client.frames()]
    assert close.error[:2] == ("amqp:unauthorized-access", "credential expired")


async def test_a_connection_stays_for_the_whole_seconds_that_its_token_has(node, clock):
    clock.advance(0.5)
    connection = (await node.connect().open()).connection
    end_s = int(clock.wall_time_s()) + 2
    connection.renew(replace(connection.user, expires_at_s=end_s))
    clock.advance(1.9)
    assert connection.is_open
    clock.advance(0.1)
    assert not connection.is_open


async def test_sessions(node):
    client = await node.connect().open()
    answers = await client.answers(Begin(None, 7, 100, 100, 10), 3)
    assert answers == [Begin(3, 2**32 - 4, 400, 2**32 - 1, 10)]
    assert await client.answers(End(), 3) == [End()]


@pytest.mark.parametrize(
    ("channel", "performative", "condition"),
    [
        (64, Begin(None, 0, 1, 1), "amqp:connection:framing-error"),
        (65_535, Begin(None, 0, 1, 1), "amqp:connection:framing-error"),
        (0, Begin(None, 0, 1, 1), "amqp:illegal-state"),
        (1, Flow(None, 1, 0, 1), "amqp:illegal-state"),
        (0, SaslInit("PLAIN"), "amqp:illegal-state"),
    ],
)
async def test_errors_of_the_connection(node, clock, channel, performative, condition):
    client = await node.client()
    [close] = await client.answers(performative, channel)
    assert close.error.condition == condition
    assert not client.socket.is_closed
    clock.advance(CLOSE_TIMEOUT_MS / 1000)
    assert client.socket.is_closed


@pytest.mark.parametrize(
    ("frame", "condition"),
    [
        (struct.pack(">IBBH", 200_000, 2, 0, 0), "amqp:connection:framing-error"),
        (struct.pack(">IBBH", 7, 2, 0, 0), "amqp:connection:framing-error"),
        (struct.pack(">IBBH", 8, 3, 0, 0), "amqp:connection:framing-error"),
        (struct.pack(">IBBH", 12, 2, 5, 0) + b"abcd", "amqp:connection:framing-error"),
        (struct.pack(">IBBH", 12, 2, 0, 0) + b"\xff\xff\xff\xff", "amqp:internal-error"),
        (struct.pack(">IBBH", 11, 2, 0, 0) + b"\0\x53\x14", "amqp:internal-error"),
    ],
)
async def test_bad_frames(node, frame, condition):
    client = await node.client()
    client.send_bytes(frame)
    [close] = [one.performative for one in await client.frames()]
    assert isinstance(close, Close)
    assert close.error.condition == condition


async def test_the_end_of_the_broker_is_told(node, clock):
    client = await node.client()
    client.connection.force_close("maintenance")
    [close] = [one.performative for one in await client.frames()]
    assert (close.error.condition, close.error.description) == (
        "amqp:connection:forced", "maintenance",
    )  # fmt: skip
    assert not client.socket.is_closed
    clock.advance(FORCED_MS / 1000)
    assert client.socket.is_closed


async def test_frames_after_the_end_of_a_session_are_ignored(node):
    client = await node.client()
    [end] = await client.answers(Attach("a", 0, True))
    assert end.error.condition == "amqp:invalid-field"
    assert await client.answers(Attach("b", 1, True)) == []
    assert await client.answers(End()) == []
    assert [type(one) for one in await client.answers(Begin(None, 0, 1, 1))] == [Begin]
