"""Delayed messages are stored, paged and counted as those of a queue are."""

import errno
import os
import shutil
import threading

import pytest
from pamqp import commands

from leveret.broker.registry.objects.exchanges import STORED_EXCHANGE
from leveret.broker.runtime.pending_in_task import in_task
from leveret.broker.vhost.delayed_inspection import DelayedInspection
from leveret.storage.disk.disk import Disk, failure
from tests.patience import PATIENCE_SECONDS
from tests.protocol.raw_client import opened, publish_bytes, wait_until
from tests.stored_broker import started

HOUR_MS = 3_600_000


class HeldDisk(Disk):
    """A disk whose syncs wait until the test allows them.

    is_exhausted: no segment can be opened. failed_opens: how often that was tried.
    """

    def __init__(self):
        super().__init__()
        self.is_exhausted = False
        self.failed_opens = 0
        self.may_sync = threading.Event()
        self.may_sync.set()

    def sync(self, descriptor, path):
        assert self.may_sync.wait(PATIENCE_SECONDS)
        super().sync(descriptor, path)

    def _open(self, path, flags):
        if self.is_exhausted and path.suffix == ".segment":
            self.failed_opens += 1
            raise failure("open", path, OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
        return super()._open(path, flags)


class Node:
    """A broker on a virtual clock, which can be stopped, killed and started again."""

    def __init__(self, directory):
        self.directory = directory / "first"
        self.directory.mkdir()
        self._next_directory = directory / "second"
        self.disk = HeldDisk()
        self.broker = started(self.directory, disk=self.disk, virtual_clock=True)

    def restart(self):
        self.broker.stop()
        self._start_again()

    def kill(self):
        """Go on with a copy of the files as they are at this moment."""
        shutil.copytree(self.directory, self._next_directory)
        self.broker.stop()
        self.directory = self._next_directory
        self._start_again()

    def _start_again(self):
        self.broker = started(self.directory, virtual_clock=True)

        def read_at_once(embedded):
            # What is due is released when the clock has advanced, from the disk, too.
            embedded.broker._store.reads.worker = None

        self.broker.call(read_at_once)

    def advance(self, seconds):
        self.broker.advance(seconds)

    def delayed_count(self):
        return self.of_exchange(lambda exchange: exchange.delayed.count)

    def of_exchange(self, read):
        return self.broker.call(
            lambda embedded: read(embedded.broker.services.vhosts["/"].exchanges["later"])
        )


@pytest.fixture
def node(tmp_path):
    node = Node(tmp_path)
    yield node
    node.disk.may_sync.set()
    node.broker.stop()


def declare(client):
    """A durable exchange, and queues bound to it by `k` and `copy`."""
    arguments = {"x-delayed-type": ("S", "direct")}
    client.declare_exchange("later", "x-delayed-message", durable=True, arguments=arguments)
    for queue, key in (("q", "k"), ("copies", "copy")):
        client.declare(queue, durable=True)
        client.bind(queue, "later", key)
    client.call(1, commands.Confirm.Select, commands.Confirm.SelectOk)


def delayed_bytes(body, delay_ms, **properties):
    headers = {"x-delay": ("l", delay_ms), **properties.pop("headers", {})}
    return publish_bytes(
        1, "k", body, "later", **{"delivery_mode": 2, "headers": headers, **properties}
    )


def publish(client, body, delay_ms, **properties):
    """Publish a message, and wait for its confirm."""
    client.send(delayed_bytes(body, delay_ms, **properties))
    client.read_method(1, commands.Basic.Ack)


def bodies(node, queue="q"):
    with opened(node.broker) as client:
        return list(iter(lambda: client.get(queue), None))


def test_a_confirm_waits_for_the_disk(node):
    with opened(node.broker) as client:
        declare(client)
        client.open_channel(2)
        node.disk.may_sync.clear()
        client.send(delayed_bytes(b"x", 1000))
        # The next frame is of channel 2.
        client.call(2, commands.Basic.Qos, commands.Basic.QosOk, prefetch_size=0, prefetch_count=1)
        node.disk.may_sync.set()
        client.read_method(1, commands.Basic.Ack)


@pytest.mark.parametrize("way", ["restart", "kill"])
def test_a_restart_keeps_what_was_confirmed(node, way):
    with opened(node.broker) as client:
        declare(client)
        for body, delay_ms in [(b"late", 2 * HOUR_MS), (b"soon", HOUR_MS), (b"first", 60_000)]:
            publish(client, body, delay_ms)
    getattr(node, way)()
    assert node.delayed_count() == 3
    node.advance(3500)
    assert bodies(node) == [b"first"]
    node.advance(200)
    assert bodies(node) == [b"soon"]
    node.advance(3600)
    assert bodies(node) == [b"late"]
    assert node.delayed_count() == 0


def cancel(piece, chosen):
    return piece.cancel(chosen)


def release(piece, chosen):
    return piece.release(chosen)


def act_on(node, body, act):
    """Release or cancel the messages with a body as an operator does; return their number."""

    async def steps():
        exchange = node.broker._embedded.broker.services.vhosts["/"].exchanges["later"]
        inspection = DelayedInspection(exchange.delayed)
        done = 0
        async for piece in inspection.pieces(1):
            found = [one for one in piece.messages if one.entry.message.body == body]
            done += await in_task(act(piece, found))
        await in_task(inspection.safe())
        return done

    return node.broker._thread.run(steps())


def test_a_cancelled_message_does_not_come_back_after_a_crash(node):
    with opened(node.broker) as client:
        declare(client)
        publish(client, b"cancelled", HOUR_MS)
        publish(client, b"kept", HOUR_MS)
    assert act_on(node, b"cancelled", cancel) == 1
    node.kill()
    assert node.delayed_count() == 1
    node.advance(3700)
    assert bodies(node) == [b"kept"]


def test_a_message_that_is_sent_now_is_not_sent_again_after_a_restart(node):
    with opened(node.broker) as client:
        declare(client)
        publish(client, b"x", HOUR_MS)
    assert act_on(node, b"x", release) == 1
    wait_until(lambda: node.delayed_count() == 0)
    node.restart()
    node.advance(3700)
    assert bodies(node) == [b"x"]


def test_what_was_released_is_not_released_again(node):
    with opened(node.broker) as client:
        declare(client)
        publish(client, b"x", 1000)
        node.advance(1)
        wait_until(lambda: node.delayed_count() == 0)
        assert client.get("q") == b"x"
    node.restart()
    node.advance(10)
    assert (node.delayed_count(), bodies(node)) == (0, [])


def test_a_message_that_is_not_persistent_ends_with_the_node(node):
    with opened(node.broker) as client:
        declare(client)
        publish(client, b"transient", 1000, delivery_mode=1)
        assert node.delayed_count() == 1
    node.restart()
    node.advance(10)
    assert (node.delayed_count(), bodies(node)) == (0, [])


def test_the_properties_of_a_message_outlive_a_restart(node):
    with opened(node.broker) as client:
        declare(client)
        bcc = {"BCC": ("A", [("S", "copy")])}
        publish(client, b"x", HOUR_MS, headers=bcc, expiration=f"{HOUR_MS}", message_id="m")
    # The clock begins at the system's time, which has gone on: the message expires an hour later.
    node.restart()
    node.advance(3600)
    with opened(node.broker) as client:
        client.send_method(1, commands.Basic.Get, queue="q", no_ack=False)
        message = client.read_content(1, commands.Basic.GetOk)
        assert client.get("copies") == b"x"
    assert message.properties == {
        "delivery_mode": 2, "expiration": f"{HOUR_MS}", "message_id": "m",
        "headers": {"x-delay": ("I", -HOUR_MS)},
    }  # fmt: skip
    node.advance(3601)
    assert bodies(node) == []


def publish_more_than_memory_holds(node, count):
    """Messages of a kilobyte that are due in an hour, nearly all of which are on disk only."""
    with opened(node.broker) as client:
        declare(client)
        node.broker.call(lambda embedded: embedded.broker.store.pager.set_budget(1_000_000))
        client.send(b"".join(delayed_bytes(bytes(1000), HOUR_MS + n) for n in range(count)))
        confirmed = 0
        while confirmed < count:
            confirmed = client.read_method(1, commands.Basic.Ack).delivery_tag
    memory = lambda: node.broker.call(lambda it: it.broker.store.pager.memory_bytes)  # noqa: E731
    wait_until(lambda: memory() < 1_500_000)
    assert node.delayed_count() == count


def test_messages_that_cannot_be_read_when_they_are_due_are_released_later(node, caplog):
    count = 3000
    publish_more_than_memory_holds(node, count)
    node.disk.is_exhausted = True
    node.advance(3600)
    node.advance(10)
    wait_until(lambda: "delayed messages cannot be read, and wait: " in caplog.text)
    assert node.broker.queue_length("q") < count
    failed_opens = node.disk.failed_opens
    node.advance(1)
    wait_until(lambda: node.disk.failed_opens > failed_opens)
    assert node.delayed_count() + node.broker.queue_length("q") == count
    node.disk.is_exhausted = False
    node.advance(1)
    wait_until(lambda: node.broker.queue_length("q") == count)
    assert node.delayed_count() == 0


def test_many_messages_are_on_disk_when_memory_is_short(node):
    count = 5000
    publish_more_than_memory_holds(node, count)
    node.advance(3600)
    node.advance(10)
    wait_until(lambda: node.broker.queue_length("q") == count)
    assert node.delayed_count() == 0


def test_an_exchange_of_an_earlier_version_is_named(node, caplog):
    with opened(node.broker) as client:
        declare(client)
    node.broker.call(
        lambda embedded: embedded.metadata.delete_parameter("/", STORED_EXCHANGE, "later")
    )
    node.restart()
    assert "exchange 'later' in vhost '/' was declared by a version that does not" in caplog.text


def test_they_are_deleted_with_their_exchange(node):
    with opened(node.broker) as client:
        declare(client)
        publish(client, b"x", 1000)
        client.call(1, commands.Exchange.Delete, commands.Exchange.DeleteOk, exchange="later",
                    if_unused=False, nowait=False)  # fmt: skip
        declare(client)
        assert node.delayed_count() == 0
    node.restart()
    node.advance(10)
    assert (node.delayed_count(), bodies(node)) == (0, [])


def test_a_queue_does_not_get_the_storage_id_of_an_exchange(node):
    with opened(node.broker) as client:
        declare(client)
    node.restart()
    with opened(node.broker) as client:
        declare(client)
        client.declare("new", durable=True)
        client.publish(1, "new", b"of the queue", delivery_mode=2)
        client.read_method(1, commands.Basic.Ack)
        publish(client, b"x", 1000)
        node.advance(1)
        assert client.get("q") == b"x"
        assert client.get("new") == b"of the queue"
