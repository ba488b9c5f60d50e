"""Queues and messages for tests of the turns of the event loop, and what a turn may do."""

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.declarations.values import PutBinding, PutQueue
from leveret.broker.runtime.names import QUEUE
from tests.protocol.raw_client import publish_bytes

CALLS_MAX = 60_000
"""Of a turn: 8 to 15 ms."""
NO_TABLE = b"\0\0\0\0"


def declare(node, *names, arguments=NO_TABLE, exchange=None):
    """Declare queues, and bind them to an exchange."""
    submit = node.broker.services.declarations.submit
    for name in names:
        submit(PutQueue("/", name, False, False, arguments)).result()
        if exchange is not None:
            submit(PutBinding("/", exchange, name, "", QUEUE, NO_TABLE)).result()
    return [node.vhost.queues[name] for name in names]


def table(**arguments):
    """Arguments of a queue: x_max_length=5 is x-max-length."""
    letters = {int: "I", str: "S"}
    return encode_table(
        {name.replace("_", "-"): (letters[type(of)], of) for name, of in arguments.items()}
    )


def bodies(queue):
    return [entry.message.body for entry in queue.backing.cursor().read(1 << 30)]


def numbered(count, **where):
    """Messages that differ in their bodies only, which the broker takes as runs."""
    return b"".join(publish_bytes(1, body=b"%06d" % number, **where) for number in range(count))


def irregular(count, **where):
    """Messages of growing size, each of which is a run of its own."""
    return b"".join(publish_bytes(1, body=bytes(number), **where) for number in range(count))
