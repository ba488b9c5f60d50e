"""Cycles of queues, exchanges and bindings, declared, used and deleted by clients.

Each is a coroutine function of the node, the number of the first cycle, and how many to do. What
one client has sent is handled together, so that cycles share the syncs of the disk.
"""

from functools import partial

from pamqp import commands

from tests.protocol.raw_client import method_bytes, publish_bytes

TEXT, NUMBER = "S", "I"
QUORUM = {"x-queue-type": (TEXT, "quorum")}
STREAM = {"x-queue-type": (TEXT, "stream")}
LETTERS = {"x-dead-letter-exchange": (TEXT, ""), "x-dead-letter-routing-key": (TEXT, "letters")}
DELETING = {"if_unused": False, "if_empty": False, "nowait": False}
AT_ONCE = 50
"""Cycles that one client does."""


def method(kind, **arguments):
    """The frame of a method on channel 1."""
    return method_bytes(1, kind, **arguments)


def in_parts(cycle):
    """A kind of object, of the bytes of one cycle by its number."""

    async def run(node, first, count):
        for start in range(first, first + count, AT_ONCE):
            end = min(start + AT_ONCE, first + count)
            await node.used(b"".join(map(cycle, range(start, end))))

    return run


def queue(arguments, n, *, durable=False, auto_delete=False, exclusive=False):
    """Declare a queue, publish to it, get one of three messages, consume, purge, delete it."""
    name = f"q{n}"
    flags = {"durable": durable, "auto_delete": auto_delete, "exclusive": exclusive}
    publish = publish_bytes(1, name, b"message", delivery_mode=2, expiration="60000")
    return b"".join((
        method(commands.Queue.Declare, queue=name, arguments=arguments, **flags),
        method(commands.Queue.Bind, queue=name, exchange="amq.topic", routing_key=f"k{n}.#"),
        publish * 3,
        publish_bytes(1, f"k{n}.x", b"message", "amq.topic", priority=2),
        method(commands.Basic.Get, queue=name, no_ack=True),
        method(commands.Basic.Consume, queue=name, consumer_tag=name, no_ack=bool(n % 2)),
        b"" if n % 2 else method(commands.Queue.Purge, queue=name, nowait=False),
        method(commands.Basic.Cancel, consumer_tag=name, nowait=False),
        # The last consumer of an auto-delete queue takes it along.
        b"" if auto_delete else method(commands.Queue.Delete, queue=name, **DELETING),
    ))  # fmt: skip


def stream(n):
    """Declare a stream, publish to it, consume, delete it."""
    name = f"s{n}"
    return b"".join((
        method(commands.Queue.Declare, queue=name, arguments=STREAM, durable=True),
        method(commands.Basic.Qos, prefetch_count=10),
        publish_bytes(1, name, b"message", delivery_mode=2) * 3,
        method(commands.Basic.Consume, queue=name, consumer_tag=name),
        publish_bytes(1, name, b"message", delivery_mode=2),
        method(commands.Basic.Cancel, consumer_tag=name, nowait=False),
        method(commands.Queue.Delete, queue=name, **DELETING),
    ))  # fmt: skip


def temporary_queue(n):
    """A queue that the node names, which is deleted as the channel's last one."""
    return b"".join((
        method(commands.Queue.Declare, queue="", exclusive=True),
        method(commands.Basic.Consume, queue="", consumer_tag=f"c{n}"),
        method(commands.Queue.Delete, queue="", **DELETING),
    ))  # fmt: skip


def exchange(kind, n, *, durable=False, auto_delete=False, arguments=None):
    """Declare an exchange, bind a queue and an exchange, publish to it, unbind, delete it."""
    name, key = f"x{n}", "1" if kind in ("x-consistent-hash", "x-modulus-hash") else f"a.{n}"
    bound = {"exchange": name, "routing_key": key}
    to_exchange = {"source": name, "destination": "amq.fanout", "routing_key": key}
    headers = {"a": ("I", n)} if kind == "headers" else {}
    return b"".join((
        method(
            commands.Exchange.Declare, exchange=name, exchange_type=kind, durable=durable,
            auto_delete=auto_delete, arguments=arguments or {},
        ),
        method(commands.Queue.Declare, queue="bound"),
        method(commands.Queue.Bind, queue="bound", arguments=headers, **bound),
        method(commands.Exchange.Bind, nowait=False, arguments=headers, **to_exchange),
        publish_bytes(1, key, b"message", name, headers=headers),
        method(commands.Exchange.Unbind, nowait=False, arguments=headers, **to_exchange),
        method(commands.Queue.Unbind, queue="bound", arguments=headers, **bound),
        method(commands.Queue.Purge, queue="bound", nowait=False),
        b"" if auto_delete else method(
            commands.Exchange.Delete, exchange=name, if_unused=False, nowait=False
        ),
    ))  # fmt: skip


def delayed_exchange(n):
    """An exchange with a message that waits when it is deleted."""
    kind = {"x-delayed-type": (TEXT, "direct")}
    return b"".join((
        method(
            commands.Exchange.Declare, exchange=f"d{n}", exchange_type="x-delayed-message",
            durable=True, arguments=kind,
        ),
        publish_bytes(1, "k", b"message", f"d{n}", headers={"x-delay": ("I", 60_000)}),
        method(commands.Exchange.Delete, exchange=f"d{n}", if_unused=False, nowait=False),
    ))  # fmt: skip


def bindings(n):
    """Between what stays."""
    queue_key = {"queue": "bound", "exchange": "amq.topic", "routing_key": f"b.{n}.*"}
    exchange_key = {"source": "amq.direct", "destination": "amq.fanout", "routing_key": f"b{n}"}
    return b"".join((
        method(commands.Queue.Declare, queue="bound"),
        method(commands.Queue.Bind, **queue_key),
        publish_bytes(1, f"b.{n}.c", b"message", "amq.topic"),
        method(commands.Exchange.Bind, nowait=False, **exchange_key),
        publish_bytes(1, f"b{n}", b"message", "amq.direct"),
        method(commands.Queue.Purge, queue="bound", nowait=False),
        method(commands.Queue.Unbind, **queue_key),
        method(commands.Exchange.Unbind, nowait=False, **exchange_key),
    ))  # fmt: skip


QUEUES = {
    "transient": ({}, {}),
    "durable": ({}, {"durable": True}),
    "exclusive": ({}, {"exclusive": True}),
    "auto-delete": ({}, {"auto_delete": True}),
    "priority": ({"x-max-priority": (NUMBER, 3)}, {"durable": True}),
    "lazy": ({"x-queue-mode": (TEXT, "lazy")}, {"durable": True}),
    "expiring": ({"x-message-ttl": (NUMBER, 60_000), "x-expires": (NUMBER, 60_000)}, {}),
    "dead-lettering": ({**LETTERS, "x-max-length": (NUMBER, 1)}, {"durable": True}),
    "refusing": ({"x-max-length": (NUMBER, 1), "x-overflow": (TEXT, "reject-publish")}, {}),
    "single active consumer": ({"x-single-active-consumer": ("t", True)}, {}),
    "quorum": (QUORUM, {"durable": True}),
    "quorum, at least once": ({
        **QUORUM, **LETTERS, "x-max-length": (NUMBER, 1), "x-overflow": (TEXT, "reject-publish"),
        "x-dead-letter-strategy": (TEXT, "at-least-once"),
    }, {"durable": True}),
}  # fmt: skip
EXCHANGES = (
    "direct", "fanout", "topic", "headers", "x-consistent-hash", "x-modulus-hash", "x-random",
    "x-recent-history",
)  # fmt: skip
QUEUE_KINDS = {
    **{
        f"queues: {name}": in_parts(partial(queue, arguments, **flags))
        for name, (arguments, flags) in QUEUES.items()
    },
    "queues: temporary": in_parts(temporary_queue),
    "queues: stream": in_parts(stream),
}
EXCHANGE_KINDS = {
    **{f"exchanges: {kind}": in_parts(partial(exchange, kind)) for kind in EXCHANGES},
    "exchanges: durable": in_parts(partial(exchange, "topic", durable=True)),
    "exchanges: auto-delete": in_parts(partial(exchange, "direct", auto_delete=True)),
    "exchanges: x-delayed-message": in_parts(delayed_exchange),
    "bindings": in_parts(bindings),
}
