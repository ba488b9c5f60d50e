"""A queue's number of messages in each storage tier, by RabbitMQ's names."""

import asyncio

from leveret.storage.messages.message import Message
from leveret.storage.messages.message_run import run_of
from tests.patience import until
from tests.storage.machine import ADDRESSES, PERSISTENT, TRANSIENT, Machine


def publish(queue, count, header=PERSISTENT, size=100):
    messages = [Message(ADDRESSES[0], header, bytes(size)) for _ in range(count)]
    queue.publish(run_of(messages), 0)


async def test_all_in_memory(tmp_path):
    machine = Machine(tmp_path, 1)
    machine.start()
    queue = machine.queues[1]
    publish(queue, 10)
    publish(queue, 5, TRANSIENT)
    queue.ack(queue.fetch(3, ack_required=True)[:1])
    counts, parts = queue.counts(), queue.status()
    assert (parts["q1"], parts["q2"], parts["q3"], parts["q4"]) == (0, 0, 0, 12)
    assert parts["delta"][2] == 0
    assert (parts["len"], parts["ram_msg_count"], parts["ram_ack_count"]) == (12, 12, 2)
    assert parts["target_ram_count"] == "infinity"
    assert parts["next_seq_id"] == 15
    assert (counts.persistent, counts.persistent_bytes) == (9, 900)
    assert (counts.ram, counts.ram_bytes) == (14, 1400)
    await machine.store.close()


async def test_messages_that_are_paged_out_are_in_delta(tmp_path):
    machine = Machine(tmp_path, 1)
    machine.start()
    queue = machine.queues[1]
    for _ in range(50):
        publish(queue, 20)
    await machine.store.pager.note_all()
    await until(lambda: queue.delta.count > 500)
    counts, parts = queue.counts(), queue.status()
    in_parts = parts["q1"] + parts["q2"] + parts["delta"][2] + parts["q3"] + parts["q4"]
    assert in_parts == parts["len"] == 1000
    assert parts["ram_msg_count"] + counts.paged_out == 1000
    assert counts.ram_bytes + counts.paged_out_bytes == 100_000
    assert 0 < parts["target_ram_count"] < 500
    await machine.store.close()


async def test_a_lazy_queue_wants_nothing_in_memory(tmp_path):
    machine = Machine(tmp_path, 1)
    machine.start()
    queue = machine.queues[3]
    for _ in range(300):
        publish(queue, 10, size=200)
    await until(lambda: queue.delta.count > 2000)
    parts = queue.status()
    assert (parts["mode"], parts["target_ram_count"]) == ("lazy", 0)
    queue.is_lazy = False
    assert queue.status()["mode"] == "default"
    await machine.store.close()


async def test_a_queue_becomes_lazy_and_back_under_load(tmp_path):
    machine = Machine(tmp_path, 1)
    machine.start()
    machine.store.pager.set_budget(10_000_000)
    queue = machine.queues[1]
    taken = []
    for step in range(600):
        queue.is_lazy = step // 100 % 2 == 1
        body = b"%d" % step + bytes(2000)
        queue.publish(run_of([Message(ADDRESSES[0], PERSISTENT, body)]), 0)
        if step % 3 == 0:
            taken += queue.fetch(1, ack_required=True)
        await asyncio.sleep(0.0002)
    await until(lambda: queue.delta.count or not queue.is_lazy)
    while queue.ready_count:
        taken += queue.fetch(50, ack_required=True)
    numbers = [int(entry.message.body.partition(b"\0")[0]) for entry in taken]
    assert numbers == list(range(600))
    await machine.store.close()
