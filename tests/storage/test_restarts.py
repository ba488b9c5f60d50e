"""A store that is repeatedly stopped, killed or cut off from power keeps its promises."""

import asyncio
import contextlib
import os
import random

import pytest

from leveret.storage.disk.disk import POINTS
from leveret.storage.messages import intervals
from leveret.storage.queue import in_memory, purging, queue_log
from leveret.storage.segments import ledger
from tests.storage.machine import Machine
from tests.storage.power_cut_disk import PowerCutDisk, PowerIsOff
from tests.storage.unlucky import Unlucky

SEEDS = range(int(os.environ.get("LEVERET_STORE_SEEDS", "6")))


pytestmark = pytest.mark.usefixtures("small_segments", "space_given_back_often")


@pytest.fixture(autouse=True)
def _frees_few_messages_at_a_time(monkeypatch):
    monkeypatch.setattr(in_memory, "PIECE_ENTRIES", 2)


@pytest.fixture(autouse=True)
def _records_few_positions_at_a_time(monkeypatch):
    monkeypatch.setattr(purging, "RECORDED_AT_ONCE", 3)
    monkeypatch.setattr(purging, "STEPS_AT_ONCE", 1)
    monkeypatch.setattr(intervals, "BLOCK_INTERVALS_MAX", 2)
    monkeypatch.setattr(ledger, "MOVED_BLOCKS", 1)
    monkeypatch.setattr(queue_log, "PROGRESS_BYTES_MAX", 60)


@pytest.fixture(autouse=True)
def _no_false_errors(caplog):
    """No restart may report a loss: whatever the node was writing when it stopped was not safe."""
    yield
    words = ("lost", "missing", "damaged", "cannot be read")
    lines = [record.getMessage() for record in caplog.get_records("call")]
    assert [line for line in lines if any(word in line for word in words)] == []


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_stop_keeps_everything_as_it_was(tmp_path, seed):
    machine = Machine(tmp_path, seed)
    machine.start()
    for _ in range(3):
        await machine.work(machine.random.randint(10, 600))
        await machine.stop()
        machine.start()
        assert machine.check(is_exact=True) == []
        machine.forget_lost()
    await machine.stop()


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_killed_process_loses_nothing_confirmed(tmp_path, seed):
    machine = Machine(tmp_path, seed, PowerCutDisk(random.Random(seed)))
    machine.start()
    for _ in range(4):
        await machine.work(machine.random.randint(10, 400))
        # What the process wrote is in the operating system, and survives unchanged.
        machine.disk.is_off = True
        await machine.halt()
        machine.disk = PowerCutDisk(random.Random(seed))
        machine.start()
        assert machine.check() == []
        machine.forget_lost()
    await machine.stop()


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_power_cut_loses_nothing_confirmed(tmp_path, seed):
    await cut_again_and_again(tmp_path, seed, lambda chance: None)


async def test_a_new_data_directory_and_its_messages_survive_a_power_cut(tmp_path):
    directory = tmp_path / "some" / "where"
    machine = Machine(directory, 1, PowerCutDisk(Unlucky()))
    machine.start()
    await machine.work(50)
    await machine.store.log.sync()
    machine.disk.is_off = True
    await machine.halt()
    machine.disk.cut()
    machine.disk = PowerCutDisk(Unlucky())
    machine.start()
    assert machine.record.confirmed
    assert machine.check() == []
    await machine.store.close()


@pytest.mark.parametrize("point", [point for point in POINTS if not point.startswith("metadata")])
@pytest.mark.parametrize("seed", SEEDS[: max(2, len(SEEDS) // 10)])
async def test_a_power_cut_at_each_point_loses_nothing_confirmed(tmp_path, seed, point):
    await cut_again_and_again(tmp_path, seed, lambda chance: (point, chance.choice((1, 2, 5, 9))))


KINDS = ["stopped", *(point for point in POINTS if not point.startswith("metadata"))]
"""How the process before the power cut ended: in order, or killed at one of the points."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS[: max(3, len(SEEDS) // 10)])
async def test_a_power_cut_after_a_restart_loses_nothing_confirmed(tmp_path, seed, kind):
    chance = random.Random(seed)
    machine = Machine(tmp_path, seed, PowerCutDisk(chance))
    machine.start()
    for _ in range(4):
        if kind == "stopped":
            await machine.work(machine.random.randint(10, 400))
            await machine.stop()
        else:
            await killed_at(machine, (kind, chance.choice((1, 2, 5))))
        machine.disk = machine.disk.after_kill()
        machine.start()
        machine.unacked = {key: [] for key in machine.unacked}
        await machine.work(chance.choice((0, 5, 100)))
        machine.disk.is_off = True
        await machine.halt()
        machine.disk.cut()
        machine.disk = PowerCutDisk(chance)
        machine.start()
        assert machine.check() == []
        machine.forget_lost()
    await machine.stop()


async def killed_at(machine, dies_at):
    """Work until the store passes the point, or for long enough, and kill the process there."""
    machine.disk.dies_at(dies_at)
    with contextlib.suppress(PowerIsOff):
        for _ in range(10):
            if machine.disk.is_off:
                break
            await machine.work(60)
            await asyncio.sleep(0.002)
    machine.disk.is_off = True
    await machine.halt()


async def cut_again_and_again(directory, seed, dies_at):
    chance = random.Random(seed)
    machine = Machine(directory, seed, PowerCutDisk(chance, None))
    machine.start()
    for _ in range(4):
        try:
            await machine.work(machine.random.randint(10, 400))
            await asyncio.sleep(0.005)
        except PowerIsOff:
            pass
        machine.disk.is_off = True
        await machine.halt()
        machine.disk.cut()
        machine.disk = PowerCutDisk(chance, dies_at(chance))
        try:
            machine.start()
        except PowerIsOff:
            machine.disk.cut()
            machine.disk = PowerCutDisk(chance)
            machine.start()
        assert machine.check() == []
        machine.forget_lost()
    await machine.halt()
