"""Dead letters with the strategy at-least-once, of a node that is killed while messages die.

tests/storage/test_dead_letter_restarts.py cuts the power at many more points.
"""

import contextlib

import pika
import pytest
from pika.exceptions import AMQPError

from tests.crash.killed_node import Node
from tests.protocol.raw_client import wait_until

COUNT = 120
TARGETS = {"classic": {}, "quorum": {"x-queue-type": "quorum"}}
SOURCE = {
    "x-queue-type": "quorum", "x-dead-letter-exchange": "amq.fanout",
    "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
}  # fmt: skip
SMALL_FILES = {
    "LEVERET_MSG_LOG_FILE_SIZE_LIMIT": "100000",
    "LEVERET_VM_MEMORY_HIGH_WATERMARK_PAGING_RATIO": "0.0001",
}
"""The node may keep almost nothing in memory, and pages out at once."""


@pytest.fixture
def node(tmp_path):
    node = Node(tmp_path / "data", **SMALL_FILES)
    assert node.start(LEVERET_CRASH_AT="log.synced:90")
    yield node
    node.kill()


def declare(node):
    channel = node.connect().channel()
    channel.queue_declare("source", durable=True, arguments=SOURCE)
    for queue, arguments in TARGETS.items():
        channel.queue_declare(queue, durable=True, arguments=arguments)
        channel.queue_bind(queue, "amq.fanout")


def let_messages_die(node):
    """Until the node is killed: every other message expires, the others are rejected.

    Returns those that were confirmed.
    """
    confirmed = set()
    with contextlib.suppress(AMQPError, OSError):
        channel = node.connect().channel()
        channel.confirm_delivery()
        for number in range(COUNT):
            expires = pika.BasicProperties(expiration="0" if number % 2 else None)
            channel.basic_publish("", "source", b"%d " % number + bytes(3000), expires)
            confirmed.add(number)
            if not number % 2:
                method, _, _ = channel.basic_get("source")
                channel.basic_reject(method.delivery_tag, requeue=False)
    return confirmed


def taken(channel, queue):
    """All messages that are ready in a queue."""
    got = iter(lambda: channel.basic_get(queue, auto_ack=True)[2], None)
    return {int(body.split()[0]) for body in got}


def test_what_was_confirmed_is_in_the_source_or_in_every_target(node):
    declare(node)
    confirmed = let_messages_die(node)
    assert 10 < len(confirmed) < COUNT, "it is killed while messages die"
    node.kill()
    assert node.start()
    channel = node.connect().channel()
    left = taken(channel, "source")
    found = {queue: set() for queue in TARGETS}

    def has_all(queue):
        found[queue] |= taken(channel, queue)
        return confirmed <= left | found[queue]

    for queue in TARGETS:
        wait_until(lambda queue=queue: has_all(queue))
