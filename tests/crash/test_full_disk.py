"""A disk that is really full: a small file system of its own, which requires root."""

import contextlib
import os
import threading

import pika
import pytest

from tests.crash.killed_node import Node
from tests.patience import PATIENCE_SECONDS
from tests.protocol.raw_client import wait_until
from tests.small_disk import MEGABYTE, fill, small_disk

PERSISTENT = pika.BasicProperties(delivery_mode=2)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system")


@pytest.fixture(params=[24])
def disk(tmp_path, request):
    """A disk of the given size in megabytes."""
    with small_disk(tmp_path / "disk", request.param) as place:
        yield place


def node_on(disk, **environment):
    """A node with its data on the disk, and its log elsewhere."""
    data = disk / "data"
    data.mkdir()
    link = disk.parent / "data"
    link.symlink_to(data)
    return Node(link, **environment)


def has_reserve(disk):
    """Whether the node has taken all of its reserve; this file is the second of two."""
    reserve = disk / "data" / "reserve"
    return reserve.exists() and reserve.stat().st_size > 0


def keeps_reserve_again(node):
    """Whether the node knows that it has the reserve again: new queues can be declared."""
    return "the reserve of disk space is kept again" in node.text


def test_publishers_wait_for_room_and_nothing_confirmed_is_lost(disk, tmp_path):
    node = node_on(disk, LEVERET_DISK_FREE_LIMIT_ABSOLUTE="0")
    filling = disk / "filling"
    filling.write_bytes(bytes(16 * MEGABYTE))
    assert node.start()
    confirmed = []

    def publish():
        channel = node.channel()
        channel.queue_declare("full", durable=True)
        for number in range(60):
            channel.basic_publish(
                "", "full", b"%d " % number + bytes(200_000), pika.BasicProperties(delivery_mode=2)
            )
            confirmed.append(number)

    publisher = threading.Thread(target=publish, daemon=True)
    publisher.start()
    wait_until(lambda: "the disk is full: the reserve of disk space is given up" in node.text)
    assert publisher.is_alive(), "the disk was not full"
    assert len(confirmed) < 60
    before = len(confirmed)
    filling.unlink()
    publisher.join(PATIENCE_SECONDS)
    assert len(confirmed) == 60 > before
    assert "the disk has room again" in node.text
    node.kill()
    assert node.start()
    channel = node.connect().channel()
    assert channel.queue_declare("full", passive=True).method.message_count == 60
    node.kill()


def publish_until_blocked(node, queue):
    """Publish persistent messages until the node blocks their publisher; how many it confirmed."""
    confirmed = []

    def publish():
        channel = node.channel()
        channel.queue_declare(queue, durable=True)
        # It waits for the confirm of the message during which it is blocked.
        with contextlib.suppress(pika.exceptions.AMQPError):
            while True:
                channel.basic_publish("", queue, bytes(100_000), PERSISTENT)
                confirmed.append(queue)

    threading.Thread(target=publish, daemon=True).start()
    wait_until(lambda: "is blocked: low on disk" in node.text)
    return len(confirmed)


def publish_confirmed(node, queue):
    channel = node.channel()
    channel.queue_declare(queue, durable=True)
    for _ in range(20):
        channel.basic_publish("", queue, b"x", PERSISTENT)
    assert channel.queue_declare(queue, passive=True).method.message_count == 20


def consume_all(node, queue, least):
    """Consume and ack everything, and delete the queue. Returns how many messages there were."""
    connection = node.connect()
    channel = connection.channel()
    count = 0
    while True:
        method, _, _ = channel.basic_get(queue)
        if method is not None:
            channel.basic_ack(method.delivery_tag)
            count += 1
        # A publisher that was blocked may go on as soon as there is room, with one more message.
        elif not channel.queue_declare(queue, passive=True).method.message_count:
            break
    channel.queue_delete(queue)
    connection.close()
    assert count >= least
    return count


@pytest.mark.parametrize("disk", [40], indirect=True)
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_full_disk_is_emptied_by_consumers(disk, is_killed):
    node = node_on(disk, LEVERET_DISK_FREE_LIMIT_ABSOLUTE="0")
    assert node.start()
    wait_until(lambda: has_reserve(disk))
    filling = disk / "filling"
    filling.write_bytes(bytes(16 * MEGABYTE))
    confirmed = publish_until_blocked(node, "full")
    assert confirmed > 10
    assert "the reserve of disk space is given up" in node.text
    if is_killed:
        fill(disk)
        node.kill()
        assert node.start(), node.text
    consume_all(node, "full", confirmed)
    filling.unlink()
    wait_until(lambda: keeps_reserve_again(node))
    publish_confirmed(node, "again")
    node.kill()


@pytest.mark.parametrize("disk", [128], indirect=True)
def test_the_disk_alarm_ends_when_messages_are_consumed(disk):
    """With the default limit of 50 MB: nothing that a publisher writes helps to end the alarm."""
    node = node_on(disk)
    assert node.start()
    confirmed = publish_until_blocked(node, "full")
    wait_until(lambda: "disk alarm" in node.text)
    consume_all(node, "full", confirmed)
    wait_until(lambda: "disk alarm cleared" in node.text)
    publish_confirmed(node, "again")
    node.kill()


def declare_until_refused(node, declared):
    """Declare new durable queues until the disk has no room for one, and note their names."""
    channel = node.connect().channel()
    for number in range(10_000):
        channel.queue_declare(f"new {number}", durable=True)
        declared.append(f"new {number}")


@pytest.mark.parametrize("is_killed", [False, True])
def test_declarations_on_a_full_disk_are_refused_and_deletions_are_not(disk, is_killed):
    node = node_on(disk, LEVERET_DISK_FREE_LIMIT_ABSOLUTE="0")
    assert node.start()
    wait_until(lambda: has_reserve(disk))
    declared = ["early"]
    node.connect().channel().queue_declare("early", durable=True)
    fill(disk)
    # The node's own files may take this before the first declaration.
    os.truncate(disk / "filling", (disk / "filling").stat().st_size - 3 * MEGABYTE)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        declare_until_refused(node, declared)
    assert closed.value.reply_code == 506
    assert "the disk of the node is full" in closed.value.reply_text
    if is_killed:
        node.kill()
        assert node.start(), node.text
    connection = node.connect()
    channel = connection.channel()
    for queue in declared:
        channel.queue_delete(queue)
    connection.close()
    (disk / "filling").unlink()
    wait_until(lambda: "the disk has room again" in node.text)
    publish_confirmed(node, "again")
    node.kill()


@pytest.mark.parametrize("disk", [40], indirect=True)
def test_very_many_queues_are_deleted_without_any_room(disk):
    """Nothing of what is written needs more than SQLite's files have, though another program fills
    the disk.
    """
    node = node_on(disk, LEVERET_DISK_FREE_LIMIT_ABSOLUTE="0")
    assert node.start()
    wait_until(lambda: has_reserve(disk))
    connection = node.connect()
    channel = connection.channel()
    for number in range(250):
        channel.queue_declare(str(number), durable=True)
    connection.close()
    (disk / "filling").write_bytes(bytes(16 * MEGABYTE))
    confirmed = publish_until_blocked(node, "full")
    wait_until(lambda: (disk / "data" / "metadata.sqlite").stat().st_size > 100_000)
    fill(disk)
    node.kill()
    assert node.start(), node.text
    connection = node.connect()
    channel = connection.channel()
    for number in range(250):
        channel.queue_delete(str(number))
    assert channel.queue_delete("full").method.message_count >= confirmed
    connection.close()
    node.kill()


def stream_offsets(node, first, count):
    """The offsets and bodies of messages of the stream `full`."""
    channel = node.connect().channel()
    channel.basic_qos(prefetch_count=1)
    found = []
    start = {"x-stream-offset": first}
    for method, properties, body in channel.consume("full", arguments=start):
        found.append((properties.headers["x-stream-offset"], int(body.split()[0])))
        if len(found) == count:
            break
        channel.basic_ack(method.delivery_tag)
    return found


@pytest.fixture(params=["ext4", "tmpfs"])
def disk_of_stream(tmp_path, request):
    with small_disk(tmp_path / "disk", 48, request.param) as place:
        yield place


@pytest.mark.parametrize("is_killed", [False, True], ids=["running", "killed"])
def test_a_stream_goes_on_when_there_is_room_and_nothing_confirmed_is_lost(
    disk_of_stream, is_killed
):
    node = node_on(disk_of_stream, LEVERET_DISK_FREE_LIMIT_ABSOLUTE="0")
    assert node.start()
    wait_until(lambda: has_reserve(disk_of_stream))
    fill(disk_of_stream, 16 * MEGABYTE)
    confirmed, blocked = [], threading.Event()

    def publish():
        channel = node.channel()
        channel.queue_declare("full", durable=True, arguments={"x-queue-type": "stream"})
        with contextlib.suppress(pika.exceptions.AMQPError):
            while not blocked.is_set():
                number = len(confirmed)
                body = b"%d " % number + bytes(100_000)
                channel.basic_publish("", "full", body, PERSISTENT)
                confirmed.append(number)

    threading.Thread(target=publish, daemon=True).start()
    wait_until(lambda: "is blocked: low on disk" in node.text)
    blocked.set()
    fill(disk_of_stream)
    if is_killed:
        node.kill()
        assert node.start(), node.text
    count = len(confirmed)
    assert count > 10
    assert stream_offsets(node, 0, count) == [(number, number) for number in range(count)]
    (disk_of_stream / "filling").unlink()
    wait_until(lambda: keeps_reserve_again(node))
    channel = node.channel()
    for number in range(20):
        channel.basic_publish("", "full", b"%d " % number, PERSISTENT)
    last = stream_offsets(node, count, 20)
    assert [number for _, number in last][-1] in {18, 19}  # The blocked message may be stored, too.
    node.kill()
