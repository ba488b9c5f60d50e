"""A full disk on each file system, with another program that takes all space, the reserve too.

The node is killed or goes on. It starts, has everything that it confirmed, and acks and purges free
the space of the messages.
"""

import contextlib
import os
import threading

import pika
import pytest

from tests.crash.test_full_disk import (
    PERSISTENT,
    has_reserve,
    keeps_reserve_again,
    node_on,
    publish_confirmed,
)
from tests.protocol.raw_client import wait_until
from tests.small_disk import (
    MAKING,
    MEGABYTE,
    MIXED_BTRFS,
    TMPFS,
    fill,
    free_bytes,
    small_disk,
)

BODY_BYTES = 100_000
ROOM_BYTES = 20 * MEGABYTE
"""What is left on the disk for messages: about half of it is in the end."""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system")


@pytest.fixture(params=sorted({TMPFS, *MAKING} - {MIXED_BTRFS}))
def disk(tmp_path, request):
    with small_disk(tmp_path / "disk", 48, request.param) as place:
        yield place


def publish_until_blocked(node):
    """Publish numbered messages until the node blocks their publisher; those that it confirmed."""
    confirmed, blocked = [], threading.Event()

    def publish():
        channel = node.connect().channel()
        channel.queue_declare("full", durable=True)
        channel.confirm_delivery()
        # It waits for the confirm of the message during which it is blocked. It publishes no more:
        # it would fill the disk again as soon as there is room.
        with contextlib.suppress(pika.exceptions.AMQPError):
            while not blocked.is_set():
                number = len(confirmed)
                body = b"%d " % number + bytes(BODY_BYTES)
                channel.basic_publish("", "full", body, PERSISTENT)
                confirmed.append(number)

    threading.Thread(target=publish, daemon=True).start()
    wait_until(lambda: "is blocked: low on disk" in node.text)
    blocked.set()
    return confirmed


def is_filled(disk):
    """Fill the disk, and return whether it is full.

    A node takes space for a batch of its log, and gives it back if that is not enough: meanwhile
    the disk is full without it. ext4 frees the space of a removed file a little later.
    """
    fill(disk)
    return free_bytes(disk) < 2 * MEGABYTE


def consume_all(channel):
    """Get and ack all messages; their numbers."""
    numbers = []
    while True:
        method, _, body = channel.basic_get("full")
        if method is None:
            return numbers
        numbers.append(int(body.split()[0]))
        channel.basic_ack(method.delivery_tag)


@pytest.mark.parametrize("is_purged", [False, True], ids=["acked", "purged"])
@pytest.mark.parametrize("is_killed", [False, True], ids=["running", "killed"])
def test_messages_of_a_full_disk_are_there_and_free_its_space(disk, is_killed, is_purged):
    node = node_on(disk, LEVERET_DISK_FREE_LIMIT_ABSOLUTE="0")
    assert node.start()
    wait_until(lambda: has_reserve(disk))
    fill(disk, ROOM_BYTES)
    confirmed = publish_until_blocked(node)
    assert len(confirmed) > 10
    wait_until(lambda: is_filled(disk))
    if is_killed:
        node.kill()
        assert node.start(), node.text
    known = set(confirmed)
    channel = node.connect().channel()
    if is_purged:
        assert channel.queue_purge("full").method.message_count >= len(known)
    else:
        assert known <= set(consume_all(channel))
    wait_until(lambda: free_bytes(disk) > len(known) * BODY_BYTES // 2)
    (disk / "filling").unlink()
    wait_until(lambda: keeps_reserve_again(node))
    publish_confirmed(node, "again")
    node.kill()


@pytest.mark.parametrize("is_killed", [False, True], ids=["running", "killed"])
@pytest.mark.parametrize("kind", ["btrfs", MIXED_BTRFS])
def test_nothing_is_lost_on_a_full_btrfs_and_the_node_goes_on_when_there_is_room(
    tmp_path, kind, is_killed
):
    """Less is promised than elsewhere: what frees space may wait for room, and nothing is lost."""
    with small_disk(tmp_path / "disk", 48, kind) as disk:
        node = node_on(disk, LEVERET_DISK_FREE_LIMIT_ABSOLUTE="0")
        assert node.start()
        wait_until(lambda: has_reserve(disk))
        fill(disk, ROOM_BYTES)
        confirmed = publish_until_blocked(node)
        fill(disk)
        if is_killed:
            node.kill()
        if is_killed and not node.start():
            assert "No space left on device; make room on its disk" in node.text
        else:
            with contextlib.suppress(pika.exceptions.ConnectionClosedByBroker):
                node.connect().channel().queue_declare("another", durable=True)
        (disk / "filling").unlink()
        assert node.process.poll() is None or node.start(), node.text
        assert set(confirmed) <= set(consume_all(node.connect().channel()))
        node.kill()
