"""A check and a restart agree, whatever a kill or a power cut left on disk.

A store is killed at a random point, or its power is cut; a check finds nothing, and a repair
changes nothing. Then a copy is damaged. If a restart of the copy delivers less than one of the
original, the check finds the damage; after a repair it finds nothing, and a restart delivers no
less than before the repair.
"""

import os
import random
import shutil

import pytest

from leveret.storage.check.check import check_store
from leveret.storage.check.repair import repair_store
from leveret.storage.disk.disk import POINTS, Disk
from leveret.storage.log.log_files import synced_bytes
from leveret.storage.log.torn_end import torn_from
from tests.storage.machine import Machine
from tests.storage.power_cut_disk import PowerCutDisk
from tests.storage.test_damage import FILES, check, restarted
from tests.storage.test_restarts import killed_at

SEEDS = range(int(os.environ.get("LEVERET_STORE_SEEDS", "8")))
KILLED_AT = [point for point in POINTS if not point.startswith("metadata")]


pytestmark = pytest.mark.usefixtures("small_segments", "space_given_back_often")


async def ended_store(directory, seed, chance):
    """A store that was killed, or whose power was cut, at a random point."""
    machine = Machine(directory, seed, PowerCutDisk(chance))
    for _ in range(2):
        machine.start()
        machine.unacked = {key: [] for key in machine.unacked}
        await killed_at(machine, (chance.choice(KILLED_AT), chance.choice((1, 2, 5, 9))))
        if chance.random() < 0.5:
            machine.disk.cut()
        machine.disk = PowerCutDisk(chance)
    return machine


def contents(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def flip_a_bit(path, data, chance):
    data = bytearray(data)
    place = chance.randrange(len(data))
    data[place] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def cut_short(path, data, chance):
    path.write_bytes(data[: chance.randrange(len(data))])


def overwrite(path, data, chance):
    start = chance.randrange(len(data))
    path.write_bytes(data[:start] + bytes(50) + data[start + 50 :])


def remove(path, data, chance):
    path.unlink()


def damage(directory, chance):
    """Damage a file, if there is one of the chosen kind, in bytes that a kill does not leave."""
    paths = sorted(directory.glob(chance.choice(FILES)))
    if not paths:
        return
    path = chance.choice(paths)
    data = path.read_bytes()
    kinds = [flip_a_bit, cut_short, overwrite, remove]
    if path.suffix == ".log" and size_of(path, paths) is None:
        # The node may have stopped before it wrote the end.
        certain = torn_from(data)
        flip_a_bit(path, data[:certain], chance)
        path.write_bytes(path.read_bytes() + data[certain:])
    elif data:
        chance.choice(kinds)(path, data, chance)


def size_of(path, paths):
    """How many bytes of a log file count, if that is known."""
    numbers = [int(one.stem) for one in paths]
    return synced_bytes(Disk(), path.parent, int(path.stem), numbers)


async def delivered(machine, directory):
    """What a restart of a copy of these files delivers."""
    place = directory.with_name("started")
    shutil.copytree(directory, place)
    copy = Machine(place, 1)
    copy.record = machine.record
    try:
        return await restarted(copy)
    finally:
        shutil.rmtree(place)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_check_finds_what_a_restart_would_lose_and_nothing_else(tmp_path, seed):
    chance = random.Random(seed)
    original = tmp_path / "original"
    machine = await ended_store(original, seed, chance)
    before = contents(original)
    assert check_store(original).problems == []
    assert repair_store(original).files == []
    assert contents(original) == before
    all_of_it = await delivered(machine, original)
    for number in range(8):
        copy = tmp_path / str(number)
        shutil.copytree(original, copy)
        damage(copy, chance)
        found = check_store(copy).problems
        left = await delivered(machine, copy)
        lost = check(all_of_it, left, machine)
        assert found or not lost
        if found and not any("missing: data that only" in problem for problem in found):
            repair_store(copy)
            assert check_store(copy).problems == []
            repaired = await delivered(machine, copy)
            assert check(left, repaired, machine) == 0
