"""The log of groups on disks that fail, fill up, or give back other bytes than were written."""

import asyncio
import errno
import random

import pytest

from leveret.storage.check.check import check_store
from leveret.storage.check.check_segments import MESSAGES
from leveret.storage.check.repair import repair_store
from leveret.storage.disk.disk import Disk, StoreError
from leveret.storage.group_log.entry_reader import EntryDamaged
from leveret.storage.group_log.kept_files import kept_numbers
from tests.patience import PATIENCE_SECONDS
from tests.storage.faulty_disk import ONCE, FaultyDisk
from tests.storage.stored_groups import GroupNode
from tests.storage.test_group_log import is_like

STEPS = 18
CALLS = {"open": 40, "write": 60, "sync": 60, "unlink": 12, "punch": 6, "link": 8}


async def use(node):
    """Write, settle and retire files, until something fails."""
    node.create(1)
    node.create(2)
    for number in range(STEPS):
        group = 1 + number % 2
        node.term(group, "b")
        node.append(group, b"%060d" % number)
        if number % 3 == 0:
            node.truncate(group, 1)
            node.append(group, b"other")
        node.apply(group)
        node.settle(group, range(number // 2))
        await node.sync()
        if number % 5 == 4:
            await node.store.rounds.free_space([1, 2])
    node.check_reading()


@pytest.mark.parametrize("operation", CALLS)
async def test_a_failing_call_loses_nothing_that_was_synced(tmp_path, operation):
    for first in range(0, CALLS[operation], 7):
        directory = tmp_path / str(first)
        disk = FaultyDisk(random.Random(1), operation, first, ONCE)
        await use_until_failure(directory, disk)


@pytest.mark.parametrize("operation", ["write", "open", "link"])
async def test_a_full_disk_loses_nothing_that_was_synced(tmp_path, operation):
    for first in range(1, CALLS[operation], 11):
        directory = tmp_path / str(first)
        disk = FaultyDisk(random.Random(1), operation, first, 3, errno.ENOSPC)
        await use_until_failure(directory, disk)


async def use_until_failure(directory, disk):
    """Use a node until it ends, or the disk fails; then another one on what is there."""
    directory.mkdir()
    try:
        node = GroupNode(directory, disk)
    except StoreError:
        # It could not be started; another one can.
        node = GroupNode(directory)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await use(node)
    except (StoreError, RuntimeError):
        # The disk failed: a node stops.
        assert disk.failing
    await node.halt()
    assert check_store(directory).problems == []
    settled = {group: model.settled for group, model in node.models.items()}
    allowed = node.history[node.synced :]
    node = GroupNode(directory)
    found = node.views()
    assert any(is_like(found, view, settled) for view in allowed)
    node.check_reading()
    await node.stop()


# Damage


async def filled(directory, groups=2, steps=30):
    node = GroupNode(directory)
    for group in range(1, groups + 1):
        node.create(group)
    for number in range(steps):
        for group in range(1, groups + 1):
            node.append(group, b"group %d %050d" % (group, number))
            node.apply(group)
        await node.sync()
    return node


def damage(path, text):
    """Change a byte of the first occurrence of a text."""
    data = path.read_bytes()
    place = data.index(text)
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"#")


async def test_a_damaged_entry_of_a_kept_file_is_found_when_it_is_read(tmp_path):
    node = await filled(tmp_path)
    number = kept_numbers(node.disk, tmp_path / "quorum")[0]
    path = tmp_path / "quorum" / f"{number:010d}.log"
    damage(path, b"group 1")
    with pytest.raises(EntryDamaged, match=r"entry 1 of a quorum queue does not match"):
        node.read(1, 1)
    assert node.read(2, 1) == b"group 2 %050d" % 0
    await node.stop()
    (problem,) = check_store(tmp_path).problems
    assert f"{path} has a damaged entry at offset" in problem


async def test_a_check_counts_the_messages_of_groups_in_all_files(tmp_path):
    node = await filled(tmp_path)
    in_log = {block.file for state in node.log.groups.values() for block in state.blocks}
    assert in_log - set(kept_numbers(node.disk, tmp_path / "quorum"))
    await node.stop()
    report = check_store(tmp_path, messages_in=lambda entry: entry.startswith(b"group 1"))
    counts = {file.path.parent.name: 0 for file in report.files}
    for file in report.files:
        counts[file.path.parent.name] += file.counts.get(MESSAGES, 0)
    assert counts["log"] > 0
    assert counts["quorum"] > 0


async def test_a_damaged_entry_of_the_log_costs_its_group(tmp_path):
    node = GroupNode(tmp_path, file_bytes_max=1 << 20)
    for group in (1, 2):
        node.create(group)
        node.append(group, b"group %d" % group)
        await node.sync()
    await node.stop()
    damage(tmp_path / "log" / "0000000001.log", b"group 1")
    assert any("group 1 cannot be used" in one for one in check_store(tmp_path).problems)
    node = GroupNode(tmp_path)
    assert node.log.groups[1].damage == "entry 1 does not match its checksum"
    assert node.views().keys() == {2}
    await node.stop()


async def test_a_lost_record_makes_all_groups_doubtful(tmp_path):
    node = GroupNode(tmp_path, file_bytes_max=1 << 20)
    for group in (1, 2):
        node.create(group)
        await node.sync()
    node.term(1, "voted for in this record")
    await node.sync()
    node.create(3)
    await node.stop()
    damage(tmp_path / "log" / "0000000001.log", b"voted for in this record")
    node = GroupNode(tmp_path)
    assert [bool(node.log.groups[group].damage) for group in (1, 2, 3)] == [True, True, False]
    assert any("record 3" in problem for problem in node.problems)
    await node.stop()
    node = GroupNode(tmp_path)
    assert node.log.groups[2].damage
    await node.stop()


async def test_doubt_stays_when_the_log_gives_up_the_file_without_the_record(tmp_path):
    node = await filled(tmp_path)
    await node.store.rounds.free_space([1, 2])
    node.term(1, "voted for in this record")
    await node.sync()
    node.create(3)
    await node.sync()
    path = node.files.files[-1].path
    await node.stop()
    damage(path, b"voted for in this record")
    node = GroupNode(tmp_path)
    assert [bool(node.log.groups[group].damage) for group in (1, 2, 3)] == [True, True, False]
    while path.exists():
        node.append(3, bytes(100))
        await node.sync()
    await node.stop()
    node = GroupNode(tmp_path)
    assert [bool(node.log.groups[group].damage) for group in (1, 2, 3)] == [True, True, False]
    await node.stop()


async def test_a_damaged_row_costs_its_group(tmp_path):
    node = await filled(tmp_path)
    await node.store.rounds.free_space([1])
    await node.store.rounds.free_space([2])
    await node.stop()
    (path,) = (tmp_path / "quorum").glob("*.groups")
    place = path.read_bytes().rindex(
        b"configuration", 0, path.read_bytes().rindex(b"configuration")
    )
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"#")
    node = GroupNode(tmp_path)
    assert [state.group for state in node.log.groups.values() if state.damage] == [1]
    await node.stop()


async def test_a_new_member_takes_the_place_of_a_damaged_one(tmp_path):
    node = await filled(tmp_path, groups=1)
    node.create(1, "a/2")
    node.append(1, b"from the start")
    await node.stop()
    node = GroupNode(tmp_path, Disk())
    assert node.views() == {1: ("a/2", 0, "", {1: b"from the start"})}
    await node.stop()


# Repair


class Declared:
    """Declarations of groups. alone: those with one member."""

    def __init__(self, *alone):
        self.alone = alone

    def name(self, group):
        return f"group {group}"

    def has_one_member(self, group, configuration, entries):
        assert configuration == b"configuration"
        assert list(entries) == []
        return group in self.alone


async def numbered_entries(directory, covered=0):
    """Ten entries of each of two groups; a snapshot covers the first ones."""
    node = GroupNode(directory, file_bytes_max=1 << 20)
    for group in (1, 2):
        node.create(group)
    for number in range(1, 11):
        for group in (1, 2):
            node.append(group, b"group %d entry %d." % (group, number))
        await node.sync()
        if number == covered:
            for group in (1, 2):
                node.apply(group)
                node.settle(group, range(1, covered + 1))
            await node.store.rounds.free_space([1, 2])
    await node.stop()


async def entries_after(directory):
    """The entries of each group that can be used."""
    assert check_store(directory).problems == []
    node = GroupNode(directory)
    found = {group: set(view[3]) for group, view in node.views().items()}
    node.check_reading()
    await node.stop()
    return found


async def test_the_entries_of_a_single_member_before_the_damage_are_kept(tmp_path):
    await numbered_entries(tmp_path)
    path = tmp_path / "log" / "0000000001.log"
    damage(path, b"group 1 entry 7.")
    damaged = path.read_bytes()
    files, left, advice = repair_store(tmp_path, groups=Declared(1, 2))
    assert (files, left, advice) == ([path], [], [])
    assert (tmp_path / "damaged" / "log" / path.name).read_bytes() == damaged
    assert await entries_after(tmp_path) == {1: set(range(1, 7)), 2: set(range(1, 11))}


async def test_a_member_with_other_members_is_left_to_them(tmp_path):
    await numbered_entries(tmp_path)
    path = tmp_path / "log" / "0000000001.log"
    damage(path, b"group 1 entry 7.")
    before = path.read_bytes()
    files, left, advice = repair_store(tmp_path, groups=Declared(2))
    assert files == []
    assert path.read_bytes() == before
    assert any("group 1 cannot be used: entry 7 does not match" in one for one in left)
    assert advice == ["group 1 has other members: start this node, which gets a new one from these"]


async def test_a_damaged_body_of_a_single_member_stays_and_the_report_says_what_to_do(tmp_path):
    node = await filled(tmp_path)
    number = kept_numbers(node.disk, tmp_path / "quorum")[0]
    await node.stop()
    path = tmp_path / "quorum" / f"{number:010d}.log"
    damage(path, b"group 1")
    files, (problem,), (advice,) = repair_store(tmp_path, groups=Declared(1, 2))
    assert files == []
    assert f"{path} has a damaged entry at offset" in problem
    assert advice.startswith("group 1 has no other member: restore the data directory from a copy")


async def test_a_repair_of_the_log_leaves_entries_where_they_are(tmp_path):
    """Rows refer to entries by their offsets in the log."""
    await numbered_entries(tmp_path, covered=5)
    (path, *_) = sorted((tmp_path / "log").glob("*.log"))
    data = path.read_bytes()
    begin = data.index(b"group 2 entry 3.")
    assert data.index(b"group 1 entry 9.") > begin
    path.write_bytes(data[:50] + b"########" + data[58:])
    repair_store(tmp_path, groups=Declared())
    assert path.read_bytes()[begin:] == data[begin:]
