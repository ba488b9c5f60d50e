"""Deleting queues while they are paged out does not affect others."""

import asyncio
import random

import pytest

from leveret.storage.message import Message
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
            queue.publish(messages, 2500, 0)
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
