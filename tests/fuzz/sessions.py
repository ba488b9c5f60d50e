"""A valid session with a mixture of operations, as the frames of a client.

Tests damage these frames.
"""

from pamqp import commands

from leveret.broker.amqp.frames import PROTOCOL_HEADER
from tests.protocol.raw_client import (
    close_arguments,
    method_bytes,
    open_arguments,
    publish_bytes,
    start_ok_bytes,
)

TABLE = {
    "x-match": ("S", "all"),
    "n": ("I", 1),
    "deep": ("F", {"list": ("A", [("S", "a"), ("t", True), ("d", 1.5)])}),
}
QUEUE_ARGUMENTS = {
    "x-max-length": ("I", 10),
    "x-message-ttl": ("I", 1000),
    "x-max-priority": ("I", 3),
    "x-dead-letter-exchange": ("S", ""),
}


def valid_session(number):
    """A mixture of operations, with names unique to this session."""
    queue, exchange, late = f"q{number}", f"x{number}", f"d{number}"
    off = {"if_unused": False, "if_empty": False, "nowait": False}

    def one(method, **arguments):
        return method_bytes(1, method, **arguments)

    def two(method, **arguments):
        return method_bytes(2, method, **arguments)

    return [
        one(commands.Channel.Open),
        one(
            commands.Exchange.Declare, exchange=exchange, exchange_type="headers",
            auto_delete=True,
        ),
        one(commands.Queue.Declare, queue=queue, exclusive=True, arguments=QUEUE_ARGUMENTS),
        one(
            commands.Queue.Bind, queue=queue, exchange=exchange, routing_key="", arguments=TABLE
        ),
        one(commands.Confirm.Select),
        publish_bytes(1, "", b"first", exchange, headers=TABLE, delivery_mode=2, priority=1),
        publish_bytes(1, queue, b"second", expiration="100", reply_to="r", user_id="guest"),
        publish_bytes(
            1, queue, b"third", headers={"CC": ("A", [("S", queue)]), "BCC": ("A", [])}
        ),
        publish_bytes(1, queue, bytes(5000), frame_bytes_max=4096, timestamp=1, app_id="a"),
        publish_bytes(1, queue, b""),
        one(commands.Basic.Get, queue=queue),
        one(commands.Basic.Get, queue=queue),
        one(commands.Basic.Get, queue=queue),
        one(commands.Basic.Ack, delivery_tag=1),
        one(commands.Basic.Nack, delivery_tag=2, multiple=False, requeue=True),
        one(commands.Basic.Reject, delivery_tag=3, requeue=False),
        one(commands.Basic.Qos, prefetch_size=0, prefetch_count=3, global_=True),
        one(
            commands.Basic.Consume, queue=queue, consumer_tag="c",
            arguments={"x-priority": ("I", 1)},
        ),
        one(commands.Basic.Recover, requeue=True),
        two(commands.Channel.Open),
        two(commands.Tx.Select),
        publish_bytes(2, queue, b"in a transaction"),
        two(commands.Basic.Get, queue=queue),
        two(commands.Basic.Ack, delivery_tag=1, multiple=True),
        two(commands.Tx.Commit),
        two(commands.Tx.Rollback),
        two(
            commands.Exchange.Declare, exchange=late, exchange_type="x-delayed-message",
            auto_delete=True, arguments={"x-delayed-type": ("S", "topic")},
        ),
        two(
            commands.Exchange.Bind, destination=exchange, source=late, routing_key="#",
            nowait=False,
        ),
        publish_bytes(2, "a.b", b"later", late, headers={"x-delay": ("I", 1)}),
        two(commands.Tx.Commit),
        two(commands.Queue.Purge, queue=queue, nowait=False),
        one(commands.Basic.Cancel, consumer_tag="c", nowait=False),
        two(
            commands.Queue.Unbind, queue=queue, exchange=exchange, routing_key="",
            arguments=TABLE,
        ),
        two(commands.Queue.Delete, queue=queue, **off),
        two(commands.Exchange.Delete, exchange=exchange, if_unused=False, nowait=False),
        two(commands.Channel.Close, **close_arguments()),
        method_bytes(0, commands.Connection.Close, **close_arguments()),
    ]  # fmt: skip


HANDSHAKE = [
    PROTOCOL_HEADER,
    start_ok_bytes(),
    method_bytes(0, commands.Connection.TuneOk, channel_max=10, frame_max=8192, heartbeat=0),
    method_bytes(0, commands.Connection.Open, **open_arguments()),
]
