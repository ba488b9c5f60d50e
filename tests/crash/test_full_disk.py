"""A disk that is really full: a small file system of its own, which requires root."""

import os
import subprocess
import threading

import pika
import pytest

from tests.crash.killed_node import Node

MEGABYTE = 1024 * 1024

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system")


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def connect(node):
    return pika.BlockingConnection(pika.URLParameters(node.url))


def test_publishers_wait_for_room_and_nothing_confirmed_is_lost(small_disk, tmp_path):
    node = Node(small_disk / "data", LEVERET_DISK_FREE_LIMIT_ABSOLUTE="0")
    filling = small_disk / "filling"
    filling.write_bytes(bytes(16 * MEGABYTE))
    assert node.start()
    confirmed = []

    def publish():
        channel = connect(node).channel()
        channel.queue_declare("full", durable=True)
        channel.confirm_delivery()
        for number in range(60):
            channel.basic_publish(
                "", "full", b"%d " % number + bytes(200_000), pika.BasicProperties(delivery_mode=2)
            )
            confirmed.append(number)

    publisher = threading.Thread(target=publish, daemon=True)
    publisher.start()
    publisher.join(6)
    assert publisher.is_alive(), "the disk was not full"
    assert 0 < len(confirmed) < 60
    assert "No space left on device" in node.text
    before = len(confirmed)
    filling.unlink()
    publisher.join(20)
    assert len(confirmed) == 60 > before
    assert "the disk has room again" in node.text
    node.kill()
    assert node.start()
    channel = connect(node).channel()
    assert channel.queue_declare("full", passive=True).method.message_count == 60
    node.kill()
