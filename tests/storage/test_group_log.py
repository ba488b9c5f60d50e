"""The log of groups: what was synced is found, what a snapshot needs is readable, at any cut."""

import asyncio
import random
import tempfile
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.storage.check.check import check_store
from leveret.storage.disk.disk import GROUP_POINTS, POINTS, Disk, DiskFull, StoreError
from leveret.storage.group_log import entry_blocks, kept_files, rounds, rows
from leveret.storage.group_log.group_state import SnapshotName
from leveret.storage.group_log.kept_files import kept_numbers
from leveret.storage.group_log.rounds import TakenSnapshot
from leveret.storage.messages.formats import FILE_HEADER_BYTES, encode_record, named_head
from tests.storage.power_cut_disk import PowerCutDisk, PowerIsOff
from tests.storage.stored_groups import GroupNode

LOG_POINTS = [point for point in POINTS if point.startswith("log")]


async def restarted(node):
    await node.stop()
    return GroupNode(node.directory)


async def test_all_of_a_group_comes_back(tmp_path):
    node = GroupNode(tmp_path)
    node.create(7)
    node.term(7, "b")
    node.append(7, b"one", b"two", b"three")
    node.truncate(7, 1)
    node.append(7, b"other")
    node.create(8)
    before = node.views()
    node = await restarted(node)
    assert node.views() == before
    node.check_reading()
    await node.stop()


async def test_a_record_of_a_feature_that_is_not_there_stops_the_start(tmp_path):
    node = GroupNode(tmp_path)
    await node.stop()
    (path,) = (tmp_path / "log").glob("*.log")
    with path.open("r+b") as file:
        data = file.read().rstrip(b"\0")
        file.seek(len(data))
        file.write(encode_record(201, named_head("streams", b"...")))
    with pytest.raises(StoreError, match=r"the feature 'streams' wrote .* start a version"):
        GroupNode(tmp_path)
    assert path.read_bytes()[FILE_HEADER_BYTES:].rstrip(b"\0").endswith(b"...")


async def test_one_sync_serves_all_groups(tmp_path):
    node = GroupNode(tmp_path, file_bytes_max=1 << 20)
    for group in range(1, 101):
        node.create(group)
        node.append(group, b"payload")
    await node.node_log.sync()
    before = node.disk.counts.syncs
    for group in range(1, 101):
        node.append(group, b"more")
    await node.node_log.sync()
    assert node.disk.counts.syncs == before + 1
    await node.stop()


async def test_entries_outlive_their_log_file_without_being_copied(tmp_path):
    node = GroupNode(tmp_path)
    node.create(1)
    for number in range(60):
        node.append(1, b"%050d" % number)
        node.apply(1)
        await node.sync()
    assert len(kept_numbers(node.disk, tmp_path / "quorum")) > 3
    written = node.disk.counts.write_bytes
    node.check_reading()
    assert written < 60 * 50 * 8
    before = node.views()
    node = await restarted(node)
    assert node.views() == before
    await node.stop()


async def test_what_is_not_copied_is_readable_until_the_rows_say_that_it_is_not_needed(tmp_path):
    disk = WatchedDisk("groups.linked")
    disk.link = lambda path, other: False
    node = GroupNode(tmp_path, disk)
    node.create(1)
    found = []

    def read():
        block = entry_blocks.block_of(node.log.groups[1].blocks, 1)
        found.append(node.log.reader.read_now(block, 1))

    disk.call = read
    for number in range(60):
        node.append(1, b"%050d" % number)
        node.apply(1)
        node.settle(1, [1])
        await node.sync()
        if found:
            break
    assert found == [b"%050d" % 0]
    await node.stop()


class FailsOnce(Disk):
    """Has no links, and fails once when the rows are to be written after a file was kept."""

    def __init__(self):
        super().__init__()
        self.is_linked = self.has_failed = False

    def link(self, path, other):
        return False

    def passed(self, point):
        super().passed(point)
        self.is_linked = self.is_linked or point == "groups.linked"

    def write(self, descriptor, path, data, offset):
        if self.is_linked and not self.has_failed and path.suffix == ".groups":
            self.has_failed = True
            raise DiskFull("the disk is full")
        super().write(descriptor, path, data, offset)


async def test_a_file_is_copied_again_if_its_round_has_failed(tmp_path):
    disk = FailsOnce()
    node = GroupNode(tmp_path, disk)
    node.create(1)
    for number in range(60):
        node.append(1, b"%050d" % number)
        node.apply(1)
        await node.sync()
    assert disk.has_failed
    node.check_reading()
    before = node.views()
    node = await restarted(node)
    assert node.views() == before
    await node.stop()


async def test_truncated_entries_do_not_come_back_with_a_snapshot(tmp_path):
    node = GroupNode(tmp_path)
    node.create(1)
    node.append(1, *[b"old %d" % number for number in range(1, 6)])
    await node.node_log.sync()
    node.truncate(1, 3)
    node.term(1, "b")
    node.append(1, b"new 3", b"new 4")
    node.apply(1)
    await node.store.rounds.free_space([1])
    node = await restarted(node)
    state = node.log.groups[1]
    assert (state.last, state.snapshot.index) == (4, 4)
    assert [node.read(1, index) for index in (2, 3, 4)] == [b"old 2", b"new 3", b"new 4"]
    await node.stop()


async def test_kept_files_go_when_their_entries_are_settled(tmp_path):
    node = GroupNode(tmp_path)
    node.create(1)
    for number in range(60):
        node.append(1, b"%050d" % number)
        node.apply(1)
        await node.sync()
    node.settle(1, range(1, 60))
    await node.store.rounds.free_space([1])
    assert len(kept_numbers(node.disk, tmp_path / "quorum")) == 0
    node.check_reading()
    await node.stop()


async def test_one_old_entry_costs_its_own_blocks_only(tmp_path):
    node = GroupNode(tmp_path, file_bytes_max=4 * 1024 * 1024)
    node.create(1)
    for number in range(100):
        node.append(1, b"%050d" % number + bytes(200_000))
        node.apply(1)
        if number % 10 == 0:
            await node.sync()
    await node.sync()
    node.settle(1, range(2, 101))
    await node.store.rounds.free_space([1])
    quorum = tmp_path / "quorum"
    assert kept_numbers(node.disk, quorum) == [1]
    assert node.disk.used_bytes(quorum / "0000000001.log") < 300_000
    assert node.read(1, 1) == b"%050d" % 0 + bytes(200_000)
    await node.stop()


class WatchedDisk(Disk):
    """Calls when a step of a round is done."""

    def __init__(self, point, call=None):
        super().__init__()
        self.point, self.call = point, call

    def passed(self, point):
        super().passed(point)
        if point == self.point and self.call is not None:
            self.call()


async def test_nothing_that_is_punched_out_can_be_read_meanwhile(tmp_path):
    disk = WatchedDisk("groups.punched")
    node = GroupNode(tmp_path, disk, file_bytes_max=4 * 1024 * 1024)
    node.create(1)
    for number in range(100):
        node.append(1, b"%050d" % number + bytes(200_000))
        node.apply(1)
        if number % 10 == 0:
            await node.sync()
    await node.sync()
    found = []
    disk.call = lambda: found.append(entry_blocks.block_of(node.log.groups[1].blocks, 2))
    node.settle(1, range(2, 101))
    await node.store.rounds.free_space([1])
    assert found == [None]
    await node.stop()


async def test_where_there_are_no_links_needed_entries_are_copied(tmp_path):
    disk = Disk()
    disk.link = lambda path, other: False
    node = GroupNode(tmp_path, disk)
    node.create(1)
    for number in range(60):
        node.append(1, b"%050d" % number)
        node.apply(1)
        await node.sync()
    assert kept_numbers(node.disk, tmp_path / "quorum")
    before = node.views()
    node = await restarted(node)
    assert node.views() == before
    await node.stop()


async def test_a_removed_group_leaves_nothing(tmp_path):
    node = GroupNode(tmp_path)
    node.create(1)
    node.create(2)
    for number in range(40):
        node.append(1, b"%050d" % number)
        node.apply(1)
        await node.sync()
    node.remove(1)
    for number in range(40):
        node.append(2, b"%050d" % number)
        node.apply(2)
        node.settle(2, [number + 1])
        await node.sync()
    node = await restarted(node)
    assert list(node.models) == [2]
    assert len(kept_numbers(node.disk, tmp_path / "quorum")) <= 1
    await node.stop()


async def test_what_removed_groups_have_written_leaves_the_memory(tmp_path):
    node = GroupNode(tmp_path)
    for group in (1, 2):
        node.create(group)
        node.append(group, b"one", b"two")
    node.remove(1)
    assert len(node.log._recent) == 1
    assert node.log.is_in_memory(2, 2)
    node.remove(2)
    assert len(node.log._recent) == node.log._recent_bytes == 0
    await node.stop()


async def test_a_received_snapshot_takes_the_place_of_the_log(tmp_path):
    node = GroupNode(tmp_path)
    node.create(1)
    node.append(1, b"kept", b"other")
    name = SnapshotName(90, 4)
    for index in (20, 30, 40):
        node.log.receive(1, name, index, 2, 0, b"body %d" % index)
    snapshot = TakenSnapshot(name, b"newer", b"\x94\x01\x14\x1e\x28", [(1, 1), (20, 20)], 90)
    await node.store.rounds.install(node.store.log.groups[1], snapshot, 1)
    node.log.reset(1, name)
    node.log.append(1, 91, 4, 0, [b"after"])
    await node.sync()
    await node.stop()
    node = GroupNode(tmp_path)
    state = node.log.groups[1]
    assert (state.snapshot, state.configuration, state.damage) == (name, b"newer", "")
    assert node.views()[1][3] == {
        1: b"kept", 20: b"body 20", 30: b"body 30", 40: b"body 40", 91: b"after"
    }  # fmt: skip
    await node.stop()


async def test_entries_that_came_twice_for_a_snapshot_are_there_once(tmp_path):
    node = GroupNode(tmp_path)
    node.create(1)
    name = SnapshotName(90, 4)
    for index in (1, 3, 20):
        node.log.receive(1, name, index, 2, 0, b"%d" % index)
    # The first transfer has failed. Before the next one another leader sends entries.
    node.log.append(1, 1, 2, 0, [b"1"])
    node.log.append(1, 2, 3, 0, [b"2", b"3", b"4"])
    for index in (20, 30):
        node.log.receive(1, name, index, 2, 0, b"%d" % index)
    live = [(index, index) for index in (1, 2, 3, 4, 20, 30)]
    await node.store.rounds.install(
        node.store.log.groups[1], TakenSnapshot(name, b"", b"\x90", live, 90), 4
    )
    node.log.reset(1, name)
    await node.sync()
    blocks = node.log.groups[1].blocks
    assert [index for one in blocks for index in range(one.first, one.last + 1)] == [
        1, 2, 3, 4, 20, 30
    ]  # fmt: skip
    assert [node.read(1, first) for first, _ in live] == [b"%d" % first for first, _ in live]
    await node.stop()


async def test_a_received_snapshot_without_its_reset_leaves_the_log(tmp_path):
    node = GroupNode(tmp_path)
    node.create(1)
    node.append(1, b"kept", b"other")
    name = SnapshotName(90, 4)
    node.log.receive(1, name, 20, 2, 0, b"body")
    snapshot = TakenSnapshot(name, b"newer", b"\x90", [], 90)
    await node.store.rounds.install(node.store.log.groups[1], snapshot, 1)
    await node.halt()
    node = GroupNode(tmp_path, models={})
    state = node.log.groups[1]
    assert state.snapshot == name
    assert [(run.first, run.count) for run in state.runs()] == [(1, 2)]
    node.log.reset(1, name)
    await node.sync()
    assert node.read(1, 20) == b"body"
    assert list(state.runs()) == []
    await node.stop()


async def fill_files(node, group):
    """Another group has the log give up its oldest files."""
    for number in range(20):
        node.append(group, b"%050d" % number)
        node.apply(group)
        await node.sync()


async def test_entries_of_a_snapshot_that_came_over_many_log_files_are_found(tmp_path):
    node = GroupNode(tmp_path)
    node.create(1)
    node.create(2)
    name = SnapshotName(90, 4)
    for index in (20, 30, 40):
        node.log.receive(1, name, index, 2, 0, b"body %d" % index)
        await fill_files(node, 2)
    assert len(kept_numbers(node.disk, tmp_path / "quorum")) > 3
    snapshot = TakenSnapshot(
        name, b"newer", b"\x93\x14\x1e\x28", [(20, 20), (30, 30), (40, 40)], 90
    )
    await node.store.rounds.install(node.store.log.groups[1], snapshot, 0)
    node.log.reset(1, name)
    await fill_files(node, 2)
    await node.stop()
    node = GroupNode(tmp_path)
    assert node.views()[1][3] == {20: b"body 20", 30: b"body 30", 40: b"body 40"}
    await node.stop()


async def test_entries_that_were_truncated_after_their_file_was_kept_are_not_found(tmp_path):
    node = GroupNode(tmp_path)
    node.create(1)
    node.create(2)
    node.append(1, b"one", b"two", b"three", b"four")
    node.models[1].applied = 2
    await fill_files(node, 2)
    assert kept_numbers(node.disk, tmp_path / "quorum")[0] == 1
    node.truncate(1, 2)
    node.append(1, b"other three")
    node.apply(1)
    await fill_files(node, 2)
    node.append(1, b"other four")
    await node.store.rounds.free_space([1])
    await node.stop()
    node = GroupNode(tmp_path)
    assert node.log.groups[1].damage == ""
    assert list(node.models[1].entries.values()) == [b"one", b"two", b"other three", b"other four"]
    await node.stop()


async def test_a_received_snapshot_that_the_log_has_reached_is_sent_with_what_it_needs(tmp_path):
    node = GroupNode(tmp_path)
    node.create(1)
    node.append(1, *[b"%d" % index for index in range(1, 11)])
    node.models[1].applied = 4
    await node.store.rounds.free_space([1])
    snapshot = TakenSnapshot(SnapshotName(8, 0), b"", b"\x92\x01\x07", [(1, 1), (7, 7)], 8)
    # Another leader has sent the entries meanwhile: the log is not reset.
    await node.store.rounds.install(node.store.log.groups[1], snapshot, 4)
    user = object()
    assert (await node.store.rounds.pin(1, user)).name == snapshot.name
    assert node.log.groups[1].pins[user] == snapshot.live
    await node.stop()


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3), st.integers(1, 150)),
        st.tuples(st.just("append"), st.integers(1, 3), st.integers(1, 150)),
        st.tuples(st.just("truncate"), st.integers(1, 3), st.integers(1, 6)),
        st.tuples(st.just("apply"), st.integers(1, 3)),
        st.tuples(st.just("term"), st.integers(1, 3)),
        st.tuples(st.just("settle"), st.integers(1, 3), st.integers(0, 9)),
        st.tuples(st.just("remove"), st.integers(1, 3)),
        st.tuples(st.just("free"), st.integers(1, 3)),
        st.tuples(st.just("sync")),
        st.tuples(st.just("sync")),
        st.tuples(st.just("turn")),
        st.tuples(
            st.just("crash"), st.sampled_from((None, *LOG_POINTS, *GROUP_POINTS)), st.integers(1, 4)
        ),
    ),
    max_size=80,
)


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(OPERATIONS, st.integers(0, 1 << 32))
def test_power_cuts_leave_what_was_synced(operations, seed):
    small = (
        patch.object(rows, "GARBAGE_BYTES_MIN", 1000),
        patch.object(rounds, "FREED_BYTES_MIN", 100),
        patch.object(kept_files, "HOLE_BYTES_MIN", 1),
        patch.object(entry_blocks, "GAP_MIN", 1 + seed % 4),
    )
    with ExitStack() as stack:
        for one in small:
            stack.enter_context(one)
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        asyncio.run(run(Path(directory), operations, random.Random(seed)))


async def run(directory, operations, chance):
    node = GroupNode(directory, PowerCutDisk(chance))
    for value, operation in enumerate(operations, 1):
        try:
            node = await step(node, operation, value, chance)
        except PowerIsOff:
            node = await after_cut(node, chance, None, 1)
    node = await after_cut(node, chance, None, 1)
    await node.halt()


async def step(node, operation, value, chance):
    what, *arguments = operation
    group = arguments[0] if arguments else 0
    if what == "crash":
        return await after_cut(node, chance, *arguments)
    if what == "sync":
        await node.sync()
        node.check_reading()
    elif what == "turn":
        await asyncio.sleep(0)
    elif what == "free":
        await node.store.rounds.free_space([group])
        node.check_reading()
    elif group not in node.models:
        node.create(group, f"member {value}")
    elif what == "append":
        node.append(group, *[b"%d.%d" % (value, place) for place in range(arguments[1] // 30)],
                    b"%d" % value + bytes(arguments[1]))  # fmt: skip
    elif what == "term":
        node.term(group, f"voter {value}")
    elif what == "settle":
        model = node.models[group]
        node.settle(group, [index for index in model.entries if index % 10 >= arguments[1]])
    elif what == "truncate":
        node.truncate(*arguments)
    else:
        getattr(node, what)(group)
    return node


async def after_cut(node, chance, point, times):
    """Cut the power, restart, and compare what is there with what was promised."""
    node.disk.is_off = True
    await node.halt()
    node.disk.cut()
    allowed = node.history[node.synced :]
    settled = {group: model.settled for group, model in node.models.items()}
    assert check_store(node.directory).problems == []
    disk = PowerCutDisk(chance, (point, times) if point else None)
    try:
        node = GroupNode(node.directory, disk)
    except PowerIsOff:
        disk.cut()
        node = GroupNode(node.directory, PowerCutDisk(chance))
    assert not node.problems
    assert not any(state.damage for state in node.log.groups.values())
    found = node.views()
    assert any(is_like(found, view, settled) for view in allowed), (found, allowed)
    node.history = [node.views()]
    return node


def is_like(found, view, settled):
    """Whether what was found is a state that was written, but for entries that were settled."""
    if found.keys() != view.keys():
        return False
    for group, (me, term, vote, entries) in view.items():
        *head, found_entries = found[group]
        if head != [me, term, vote]:
            return False
        missing = entries.keys() - found_entries.keys()
        if missing - settled.get(group, set()):
            return False
        if any(entries.get(index) != data for index, data in found_entries.items()):
            return False
    return True
