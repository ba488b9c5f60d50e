"""Deleting queues does not affect others."""

import asyncio
import random

import pytest

from leveret.broker.config import Config, TcpSettings
from leveret.broker.declarations.values import DeleteQueue, PutQueue
from leveret.broker.node.broker import Broker
from leveret.broker.runtime.pending_in_task import in_task
from leveret.storage.messages.message import Message
from leveret.storage.messages.message_run import run_of
from leveret.storage.metadata.metadata import SqliteMetadata
from tests.storage.machine import ADDRESSES, PERSISTENT, Machine
from tests.storage.reading import ready_entries


@pytest.mark.parametrize("seed", range(5))
async def test_queues_come_and_go_while_they_page(tmp_path, seed):
    chance = random.Random(seed)
    machine = Machine(tmp_path, seed)
    machine.start()
    store = machine.store
    failures = []
    store.failed = failures.append
    queues = {}
    for step in range(400):
        number = 100 + step
        queues[number] = store.queue(number, 0, "brief", True, False)
        for queue in queues.values():
            messages = [Message(ADDRESSES[0], PERSISTENT, bytes(500)) for _ in range(5)]
            queue.publish(run_of(messages), 0)
        if len(queues) > 20:
            for doomed in chance.sample(sorted(queues), 10):
                queues.pop(doomed).delete()
        await asyncio.sleep(0.0005)
    for queue in queues.values():
        assert len(ready_entries(queue)) == queue.ready_count
        queue.delete()
    await store.close()
    assert failures == []
    left = [path for path in (tmp_path / "queues").iterdir() if int(path.name) >= 25600]
    assert left == []


async def test_the_storage_id_of_a_deleted_queue_is_not_used_again(tmp_path):
    """Its directory may come back after a power cut: another queue must not find messages in it."""
    ids = []
    for name in ("first", "second", "third"):
        metadata = SqliteMetadata(tmp_path / "metadata.sqlite")
        broker = Broker(Config(tcp=TcpSettings(listeners=())), metadata, data_dir=tmp_path)
        await broker.start()
        declarations = broker.services.declarations
        await in_task(declarations.submit(PutQueue("/", name, True, False, b"\0\0\0\0")))
        ids.append(broker.services.vhosts["/"].queues[name].storage_id)
        await in_task(declarations.submit(DeleteQueue("/", name)))
        await broker.stop()
    assert len(set(ids)) == 3
