"""A purge whose messages are freed in steps, and a node that stops between two of them."""

import pytest

from leveret.storage.messages.message import Message
from leveret.storage.messages.message_run import run_of
from leveret.storage.queue import in_memory, purging
from tests.storage.machine import ADDRESSES, PERSISTENT, Machine
from tests.storage.reading import ready_entries

MESSAGES, HELD = 12, 4


@pytest.fixture(autouse=True)
def _frees_few_messages_at_a_time(monkeypatch):
    monkeypatch.setattr(in_memory, "PIECE_ENTRIES", 2)


@pytest.fixture(params=[4096, -1])
def _recorded_at_once(request, monkeypatch):
    monkeypatch.setattr(purging, "RECORDED_AT_ONCE", request.param)


def bodies_of(numbers):
    return [b"%d:" % number + bytes(10 * number) for number in numbers]


async def purged_in_segments(machine):
    """A queue with messages in segments and in memory: some are held, the others purged."""
    store, queue = machine.store, machine.queues[1]
    messages = [Message(ADDRESSES[0], PERSISTENT, body) for body in bodies_of(range(MESSAGES))]
    queue.publish(run_of(messages), 0)
    await store.log.sync()
    await store.pager.move_out([(queue, MESSAGES)])
    await store._sync_segments()
    held = queue.fetch(HELD, True)
    assert len(held) == HELD
    return queue, queue.purge().freeing


@pytest.mark.usefixtures("_recorded_at_once")
@pytest.mark.parametrize("is_stated_before", [False, True])
@pytest.mark.parametrize("steps", range(1 + (MESSAGES - HELD) // 2))
async def test_a_stop_between_its_steps_leaves_the_right_bytes(tmp_path, steps, is_stated_before):
    machine = Machine(tmp_path, 1)
    machine.start()
    queue, freeing = await purged_in_segments(machine)
    if is_stated_before:
        machine.store.queue_log._append_states([queue])
        await machine.store.log.sync()
    for _ in range(steps):
        next(freeing)
    machine.store.queue_log._append_states([queue])
    await machine.stop()

    machine.start()
    again = machine.queues[1]
    held_bytes = sum(map(len, bodies_of(range(HELD))))
    assert (again.ready_count, again.ready_bytes) == (HELD, held_bytes)
    await machine.store.close()


@pytest.mark.parametrize("steps", range(1 + (MESSAGES - HELD) // 2))
async def test_a_kill_before_all_positions_are_recorded_brings_back_the_others(
    tmp_path, monkeypatch, steps
):
    monkeypatch.setattr(purging, "RECORDED_AT_ONCE", -1)
    machine = Machine(tmp_path, 1)
    machine.start()
    queue, freeing = await purged_in_segments(machine)
    for _ in range(steps):
        next(freeing)
    machine.store.queue_log._append_states([queue])
    await machine.store.log.sync()
    await machine.halt()

    machine.start()
    again = machine.queues[1]
    left = bodies_of([*range(HELD), *range(HELD + 2 * steps, MESSAGES)])
    assert [entry.message.body for entry in ready_entries(again)] == left
    assert (again.ready_count, again.ready_bytes) == (len(left), sum(map(len, left)))
    await machine.store.close()


async def test_no_slice_is_planned_before_all_positions_are_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(purging, "RECORDED_AT_ONCE", -1)
    machine = Machine(tmp_path, 1)
    machine.start()
    queue, _ = await purged_in_segments(machine)
    queue.publish(run_of([Message(ADDRESSES[0], PERSISTENT, b"12:")]), 0)
    await machine.store.log.sync()
    found = queue.plan_slice(1000, MESSAGES + 1)
    assert (found.entries, found.end) == ([], MESSAGES)
    await machine.store.pager.move_out([(queue, MESSAGES + 1)])
    assert queue.ledger.flushed_to == MESSAGES + 1
    assert queue.ledger.is_gone(MESSAGES - 1)
    await machine.store.close()
