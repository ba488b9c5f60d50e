"""The server at the other end of a shovel or a federation link sends without end: the connection
ends with one reason, or with the shovel, and what the node keeps of it is limited.
"""

import struct
from itertools import repeat

import pika
import pytest
from pamqp import commands

from leveret.broker.amqp.frames import BODY, HEADER, HEARTBEAT_FRAME, METHOD, encode_frame
from leveret.broker.amqp.methods import encode_method, method_frame
from leveret.broker.config import MemorySettings
from leveret.broker.declarations.values import (
    DeleteParameter,
    Policy,
    PutExchange,
    PutParameter,
    PutPolicy,
)
from leveret.broker.moving.client import connection as client_connection
from leveret.broker.moving.transfers import stopping
from leveret.broker.resources.memory_measures import resident_bytes
from leveret.broker.resources.memory_monitor import MemoryMonitor
from leveret.testing import EmbeddedBroker
from tests.declaring import declare
from tests.mgmt import far_side
from tests.mgmt.far_side import FarSide, silent
from tests.protocol.raw_client import wait_until

BODY_FRAME = encode_frame(BODY, 1, bytes(100_000))
OTHER_CANCELLED = method_frame(1, commands.Basic.Cancel, consumer_tag="other", nowait=False)
SHOVEL, EXCHANGE = "shovel", "exchange"


def begun(size, channel=1, consumer_tag="tag"):
    """The first frames of a delivery of the given size."""
    method = encode_method(
        commands.Basic.Deliver,
        consumer_tag=consumer_tag, delivery_tag=1, exchange="", routing_key="k",
    )  # fmt: skip
    header = b"\0\x3c\0\0" + size.to_bytes(8, "big") + b"\0\0"
    return encode_frame(METHOD, channel, method) + encode_frame(HEADER, channel, header)


def endless(first, frame, sent=lambda size: None):
    """Consume is answered with this, and then with a frame again and again, until the end.

    sent: called with the size of each part that the node's system has taken.
    """

    def answer(session, channel, method):
        session.send(channel, commands.Basic.ConsumeOk("tag"))
        session.connection.sendall(first)
        for data in repeat(frame * (1 + 200_000 // len(frame))):
            session.connection.sendall(data)
            sent(len(data))

    return answer


@pytest.fixture
def far():
    with FarSide() as made:
        yield made


@pytest.fixture
def broker():
    with EmbeddedBroker.in_thread() as broker:
        yield broker


def set_shovel(broker, far, **more):
    value = {
        "src-uri": far.uri, "src-queue": "from", "dest-uri": "amqp://", "dest-queue": "to",
        "reconnect-delay": 3600, **more,
    }  # fmt: skip
    broker.call(lambda one: declare(one, PutParameter("shovel", "/", "s", value)))


def federate(broker, far):
    value = {"uri": far.uri, "reconnect-delay": 3600}
    exchange = PutExchange("/", "x", "fanout", True, False, False, b"\0\0\0\0")
    upstream = PutParameter("federation-upstream", "/", "u", value)
    policy = Policy("/", "p", "^x$", "exchanges", {"federation-upstream": "u"}, 0)
    broker.call(lambda one: declare(one, exchange, upstream, PutPolicy("policy", policy)))


def shovels(broker):
    return broker.call(lambda one: list(one.broker.shovels.statuses))


def reasons(broker, kind):
    if kind == SHOVEL:
        return [one.reason for one in shovels(broker) if one.reason]
    links = broker.call(lambda one: list(one.broker.federation.statuses))
    return [one.error for one in links if one.error]


def delete_shovel(broker):
    broker.call(lambda one: declare(one, DeleteParameter("shovel", "/", "s")))
    wait_until(lambda: not shovels(broker))


class Publishing:
    """A client of the broker that publishes with confirms, one message after the other.

    The node may use this much more memory before it blocks publishers.
    """

    def __init__(self, broker, connection, room_bytes):
        self._broker = broker
        limit = MemorySettings(
            high_watermark_bytes=resident_bytes() + room_bytes, calculation_strategy="rss"
        )
        services = broker.call(lambda one: one.broker.services)
        self.monitor = MemoryMonitor(limit, services.clock, services.alarms)
        self._channel = connection.channel()
        self._channel.queue_declare("mine")
        self._channel.confirm_delivery()
        self.published = 0

    def publish(self):
        """Publish a message, and wait for its confirm; the publisher must not be blocked."""
        self._broker.call(lambda one: self.monitor.check())
        assert not self._broker.call(lambda one: one.broker.services.alarms.are_in_force)
        self._channel.basic_publish("", "mine", b"message")
        self.published += 1

    def count(self):
        return self._channel.queue_declare("mine", passive=True).method.message_count


def is_over(session):
    return session.connection.fileno() < 0


@pytest.mark.parametrize("kind", [SHOVEL, EXCHANGE])
@pytest.mark.parametrize(
    ("first", "frame", "told"),
    [
        (
            begun(1 << 63), BODY_FRAME,
            "311, CONTENT_TOO_LARGE - the server has begun a message of 9223372036854775808 bytes, "
            "and this node takes 134217728 at most: see max_message_size",
        ),
        (struct.pack(">BHI", BODY, 1, 1 << 31), bytes(100_000), "frame_too_large,2147483648,"),
        (b"", encode_frame(BODY, 7, b"body"), "504, CHANNEL_ERROR - channel 7 is not open"),
        (b"", begun(10, consumer_tag="no"), "a delivery for the unknown consumer 'no'"),
        (b"", encode_frame(99, 1, b"body"), "501, FRAME_ERROR - type 99, "),
    ],
    ids=["a message", "a frame", "a channel", "a consumer", "unknown frames"],
)  # fmt: skip
def test_one_reason_is_told_and_the_connection_ends(broker, far, caplog, kind, first, frame, told):
    far.answers[commands.Basic.Consume] = endless(first, frame)
    if kind == SHOVEL:
        set_shovel(broker, far)
    else:
        federate(broker, far)
    wait_until(lambda: reasons(broker, kind))
    (reason,) = reasons(broker, kind)
    assert told in reason
    (session,) = far.sessions
    wait_until(lambda: is_over(session))
    assert len([line for line in caplog.messages if told in line]) == 1
    assert not [record for record in caplog.records if record.exc_info]


def test_a_limit_of_the_server_that_is_none_is_that_of_this_node(broker, far, monkeypatch):
    monkeypatch.setitem(far_side.TUNE, "frame_max", 0)
    far.answers[commands.Basic.Consume] = endless(
        struct.pack(">BHI", BODY, 1, 1 << 31), bytes(100_000)
    )
    set_shovel(broker, far)
    wait_until(lambda: reasons(broker, SHOVEL))
    assert "frame_too_large,2147483648,131064" in reasons(broker, SHOVEL)[0]


@pytest.mark.parametrize("method", [commands.Connection.StartOk, commands.Connection.Open])
def test_the_connection_ends_with_a_shovel_that_is_deleted_in_the_handshake(broker, far, method):
    far.answers[method] = silent
    set_shovel(broker, far)
    wait_until(lambda: far.sessions)
    delete_shovel(broker)
    (session,) = far.sessions
    wait_until(lambda: is_over(session))


@pytest.mark.parametrize(
    "frame",
    [
        HEARTBEAT_FRAME,
        OTHER_CANCELLED,
        begun(0),
        begun(1 << 20) + BODY_FRAME * 10 + encode_frame(BODY, 1, bytes(48_576)),
    ],
    ids=["heartbeats", "methods", "messages", "large messages"],
)
@pytest.mark.parametrize("ack_mode", ["on-confirm", "no-ack"])
def test_the_connection_ends_with_the_shovel_though_the_server_reads_nothing(
    broker, far, monkeypatch, frame, ack_mode
):
    monkeypatch.setattr(stopping, "SETTLE_SECONDS_MAX", 0.05)
    monkeypatch.setattr(client_connection, "CLOSE_SECONDS", 0.05)
    far.answers[commands.Basic.Consume] = endless(b"", frame)
    set_shovel(broker, far, **{"ack-mode": ack_mode})
    wait_until(lambda: [one for one in shovels(broker) if one.state in ("running", "flow")])
    delete_shovel(broker)
    (session,) = far.sessions
    wait_until(lambda: is_over(session))


@pytest.mark.parametrize(
    ("first", "frame", "octets"),
    [
        (begun(1 << 63), BODY_FRAME, 400_000_000),
        (struct.pack(">BHI", BODY, 1, 1 << 31), bytes(100_000), 400_000_000),
        (b"", begun(10, consumer_tag="no"), 400_000_000),
        (b"", HEARTBEAT_FRAME, 8_000_000),
        (b"", OTHER_CANCELLED, 8_000_000),
    ],
    ids=["a message", "a frame", "a consumer", "heartbeats", "methods"],
)  # fmt: skip
def test_other_publishers_go_on(broker, far, monkeypatch, first, frame, octets):
    """The server has sent this much, or has been connected to ten times."""
    monkeypatch.setattr(stopping, "SETTLE_SECONDS_MAX", 0.05)
    monkeypatch.setattr(client_connection, "CLOSE_SECONDS", 0.05)
    sent = []
    far.answers[commands.Basic.Consume] = endless(first, frame, sent.append)
    with pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port)) as connection:
        publishing = Publishing(broker, connection, room_bytes=200_000_000)
        set_shovel(broker, far, **{"reconnect-delay": 0.01})
        while sum(sent) < octets and len(far.sessions) < 10:
            publishing.publish()
        assert publishing.count() == publishing.published > 0
    delete_shovel(broker)
    wait_until(lambda: all(map(is_over, far.sessions)))
