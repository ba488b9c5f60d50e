"""Groups of three members whose disks lose power all at once, fill up, or fail."""

import errno
from random import Random

import pytest

from leveret.storage.disk.disk import StoreError
from tests.patience import until
from tests.storage.faulty_disk import ONCE, FaultyDisk
from tests.storage.power_cut_disk import PowerCutDisk
from tests.unit.cluster.groups.grouped_nodes import NAMES, Client, GroupedNodes

BODY = bytes(1_500)
FILE_BYTES = 60_000


class Publisher:
    """Adds entries through one node, life after life. confirmed: those that were applied."""

    def __init__(self):
        self.confirmed = set()
        self._number = self._sender = 0

    def begin(self, node):
        self._sender += 1
        self.client = Client(node, 1, self._sender)
        self._payloads = []

    def add(self, count):
        for _ in range(count):
            self._number += 1
            self._payloads.append(b"%d " % self._number + BODY)
            self.client.add(self._payloads[-1])

    def note(self):
        self.confirmed |= set(self._payloads[: self.client.applied])


async def check(nodes, publisher):
    """All that was confirmed is there, once, on every member."""
    await nodes.led([1])
    publisher.begin(nodes.leader(1))
    publisher.add(1)
    await until(lambda: publisher.client.is_done)
    publisher.note()
    await nodes.equal([1])
    found = list(publisher.client.got.values())
    assert publisher.confirmed <= set(found)
    assert len(found) == len(set(found))


async def cut(nodes, chance):
    """Cut the power of all nodes, and start them again."""
    for node in nodes:
        node.disk.is_off = True
    for node in list(nodes):
        node.retirement_error = None
        await nodes.kill(node.name)
        node.disk.cut()
        nodes.disks[node.name] = PowerCutDisk(chance)
    for name in NAMES:
        await nodes.start(name)
    assert not any(node.groups.members[1].damage for node in nodes)


@pytest.mark.parametrize("seed", range(3))
async def test_the_power_of_all_members_is_cut_at_once(tmp_path, seed):
    chance = Random(seed)
    disks = {name: PowerCutDisk(chance) for name in NAMES}
    async with GroupedNodes(tmp_path, FILE_BYTES, disks=disks) as nodes:
        await nodes.create([1])
        publisher = Publisher()
        for _ in range(3):
            publisher.begin(nodes.by_name[chance.choice(NAMES)])
            publisher.add(60)
            least = chance.randint(1, 60)
            await until(lambda least=least: publisher.client.applied >= least)
            publisher.note()
            await cut(nodes, chance)
            await check(nodes, publisher)


@pytest.mark.parametrize("point", ["groups.linked", "groups.written", "groups.synced"])
async def test_the_power_is_cut_in_the_middle_of_a_round_of_a_member(tmp_path, point):
    chance = Random(point)
    disks = {name: PowerCutDisk(chance) for name in NAMES}
    async with GroupedNodes(tmp_path, FILE_BYTES, disks=disks) as nodes:
        await nodes.create([1])
        publisher = Publisher()
        publisher.begin(nodes.by_name[NAMES[0]])
        disks[NAMES[1]].dies_at((point, 2))
        while not disks[NAMES[1]].is_off:
            publisher.add(10)
            await until(lambda: publisher.client.is_done or disks[NAMES[1]].is_off)
            publisher.note()
        await cut(nodes, chance)
        await check(nodes, publisher)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("operation", ["write", "sync", "link", "open"])
async def test_the_disk_of_a_member_fails_or_is_full(tmp_path, operation, number):
    count = ONCE if number == errno.EIO else 3
    async with GroupedNodes(tmp_path, FILE_BYTES) as nodes:
        await nodes.create([1])
        await nodes.led([1])
        failing = nodes.leader(1).name
        await nodes.kill(failing)
        disk = FaultyDisk(Random(1), operation, 20 if operation in {"write", "sync"} else 1, count,
                          number)  # fmt: skip
        nodes.disks[failing] = disk
        try:
            await nodes.start(failing)
        except StoreError:
            nodes.disks[failing] = None
            await nodes.start(failing)
        publisher = Publisher()
        user = next(name for name in NAMES if name != failing)
        publisher.begin(nodes.by_name[user])
        for _ in range(10):
            publisher.add(20)
            await until(lambda: publisher.client.is_done)
        publisher.note()
        node = nodes.by_name[failing]
        disk.failing = range(0)
        await until(lambda: not node.is_retiring)
        if node.node_log.failure is not None or node.retirement_error is not None:
            # A node stops then, and is started again by its operator.
            node.retirement_error = None
            await nodes.kill(failing)
            nodes.disks[failing] = None
            await nodes.start(failing)
        await check(nodes, publisher)
