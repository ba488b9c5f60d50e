"""Clients of the log: synced entries are recovered in order, truncated ones are not."""

import asyncio
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.storage.disk.disk import Disk, StoreError
from leveret.storage.messages.formats import FILE_HEADER_BYTES, encode_record, named_head
from tests.storage.power_cut_disk import PowerCutDisk, PowerIsOff
from tests.storage.replicated_log import KIND, ReplicatedNode

POINTS = ("log.created", "log.written", "log.synced", "log.retiring", "log.retired", "log.removed")


async def test_entries_come_back_in_order(tmp_path):
    node = ReplicatedNode(tmp_path, Disk())
    for value in ("a", "b", "c"):
        node.append(1, value)
    node.append(2, "x")
    await node.stop()
    node = ReplicatedNode(tmp_path, Disk())
    assert node.replicated.state() == {1: ("a", "b", "c"), 2: ("x",)}
    node.replicated.check_reading()
    await node.stop()


async def test_a_truncated_suffix_does_not_come_back(tmp_path):
    node = ReplicatedNode(tmp_path, Disk())
    for value in ("a", "b", "c"):
        node.append(1, value)
    await node.sync()
    node.truncate(1, 2)
    node.append(1, "d")
    await node.sync()
    await node.halt()
    node = ReplicatedNode(tmp_path, Disk())
    assert node.replicated.state() == {1: ("a", "d")}
    node.replicated.check_reading()
    await node.stop()


async def test_a_truncation_that_was_not_written_leaves_all_that_was_synced(tmp_path):
    node = ReplicatedNode(tmp_path, Disk())
    node.append(1, "a")
    node.append(1, "b")
    await node.sync()
    node.truncate(1, 1)
    node.append(1, "c")
    await node.halt()
    node = ReplicatedNode(tmp_path, Disk())
    assert node.replicated.state() == {1: ("a", "b")}
    await node.stop()


async def test_a_file_stays_until_its_client_has_moved_on(tmp_path):
    node = ReplicatedNode(tmp_path, Disk())
    compacted = []
    compact = node.replicated.compact

    async def slow_compact(sequence, through):
        assert all(file.path.exists() for file in node.files.files)
        compacted.append(through)
        await asyncio.sleep(0)
        await compact(sequence, through)

    node.replicated.compact = slow_compact
    for number in range(40):
        node.append(1, f"{number:050d}")
        await node.sync()
    assert compacted
    assert len(list((tmp_path / "log").glob("*.log"))) <= 4
    node.replicated.check_reading()
    await node.stop()
    node = ReplicatedNode(tmp_path, Disk())
    assert node.replicated.state() == {1: tuple(f"{number:050d}" for number in range(40))}
    await node.stop()


async def test_numbers_go_on_when_no_entry_is_left_in_the_log(tmp_path):
    node = ReplicatedNode(tmp_path, Disk())
    for _ in range(20):
        number = node.replicated.sequences.append(1, b"x" * 100)
        await node.sync()
        node.replicated.sequences.discard(1, number)
    assert node.files.files[0].number > 1
    await node.stop()
    node = ReplicatedNode(tmp_path, Disk())
    assert node.replicated.sequences.append(1, b"y") > 20
    await node.stop()


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3), st.integers(1, 120)),
        st.tuples(st.just("truncate"), st.integers(1, 3), st.integers(1, 6)),
        st.tuples(st.just("sync")),
        st.tuples(st.just("turn")),
        st.tuples(st.just("crash"), st.sampled_from((None, *POINTS)), st.integers(1, 6)),
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(OPERATIONS, st.integers(0, 1 << 32))
def test_power_cuts_leave_what_was_synced(operations, seed):
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(run(Path(directory), operations, random.Random(seed)))


async def run(directory, operations, chance):
    disk = PowerCutDisk(chance)
    node = ReplicatedNode(directory, disk)
    value = 0
    for what, *arguments in operations:
        try:
            if what == "append":
                sequence, size = arguments
                value += 1
                node.append(sequence, f"{value}".zfill(size))
            elif what == "truncate":
                node.truncate(*arguments)
            elif what == "sync":
                await node.sync()
                node.replicated.check_reading()
            elif what == "turn":
                await asyncio.sleep(0)
            else:
                node = await restarted(directory, node, chance, *arguments)
        except PowerIsOff:
            node = await restarted(directory, node, chance, None, 1)
    node = await restarted(directory, node, chance, None, 1)
    await node.halt()


async def restarted(directory, node, chance, point, times):
    """Cut the power, restart, and compare the entries with what was promised."""
    node.disk.is_off = True
    await node.halt()
    node.disk.cut()
    allowed = node.history[node.synced :]
    disk = PowerCutDisk(chance, (point, times) if point else None)
    try:
        node = ReplicatedNode(directory, disk)
    except PowerIsOff:
        disk.cut()
        node = ReplicatedNode(directory, PowerCutDisk(chance))
    assert node.replicated.state() in allowed
    assert not any("left out" in problem for problem in node.problems)
    return node


async def test_a_record_of_a_feature_that_is_not_there_stops_the_start(tmp_path):
    node = ReplicatedNode(tmp_path, Disk())
    node.append(1, "a")
    await node.stop()
    (path,) = (tmp_path / "log").glob("*.log")
    record = encode_record(KIND + 1, named_head("streams", b"..."))
    with path.open("r+b") as file:
        data = file.read().rstrip(b"\0")
        file.seek(len(data))
        file.write(record)
    with pytest.raises(StoreError, match=r"the feature 'streams' wrote .* start a version"):
        ReplicatedNode(tmp_path, Disk())
    assert path.read_bytes()[FILE_HEADER_BYTES:].rstrip(b"\0").endswith(b"...")
