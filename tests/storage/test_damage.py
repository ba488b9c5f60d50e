"""Damaged files: intact messages are served, damage is reported, wrong data is never delivered."""

import asyncio
import random
import re
import shutil
from zlib import crc32

import pytest

from leveret.storage.contract.backing_queue import Unreadable
from leveret.storage.disk.disk import StoreError
from leveret.storage.messages.formats import (
    FILE_HEADER_BYTES,
    STORED,
    ScannedRecord,
    decode_run,
    read_records,
)
from leveret.storage.segments import ledger
from leveret.storage.store import store as store_module
from tests.conftest import begin_segments_after
from tests.storage.machine import DURABLE, Machine, intact, number_of
from tests.storage.reading import ready_entries

FILES = ("log/*.log", "queues/*/*.segment", "bodies/*.bodies")


def stay(monkeypatch):
    """What the tests damage is still there when the store is stopped, on a slow machine, too."""
    monkeypatch.setattr(store_module, "CHECK_SECONDS", 1000)


@pytest.fixture(autouse=True)
def _small_segments_stay(small_segments, monkeypatch):
    stay(monkeypatch)


async def stopped_store(directory, seed=5, steps=700):
    """A store with data in files of every kind and in its queues."""
    machine = Machine(directory, seed)
    machine.start()
    await machine.work(steps)
    await machine.stop()
    machine.start()
    while not (
        all(list(directory.glob(pattern)) for pattern in FILES)
        and refers_to_body(directory)
        and any(queue.delta.positions for queue in machine.queues.values())
    ):
        # What is paged out, and what of it is left, depends on the speed of the disk.
        await machine.work(steps)
        await asyncio.sleep(0.02)
        await machine.stop()
        machine.start()
    bodies = {key: contents(queue) for key, queue in machine.queues.items()}
    await machine.store.close()
    return machine, bodies


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Such a store, and the messages in it. Each test damages a copy of its files."""
    with pytest.MonkeyPatch.context() as patched:
        begin_segments_after(64, patched)
        stay(patched)
        return asyncio.run(stopped_store(tmp_path_factory.mktemp("original")))


@pytest.fixture
def stopped(original, tmp_path):
    """A machine with a copy of the store, and the messages in it."""
    machine, bodies = original
    copy = Machine(tmp_path / "copy", 1)
    copy.record = machine.record
    shutil.copytree(machine.directory, copy.directory)
    return copy, bodies


def refers_to_body(directory):
    """Whether a segment has a message whose body is in the message store."""
    for path in directory.glob(FILES[1]):
        records = read_records(path.read_bytes(), FILE_HEADER_BYTES)
        runs = [decode_run(one.head) for one in records if isinstance(one, ScannedRecord)]
        if any(run.flags & STORED for run in runs):
            return True
    return False


def contents(queue):
    return {number_of(entry): entry.message.body for entry in ready_entries(queue)}


def choose(directory, pattern, chance):
    return chance.choice([path for path in sorted(directory.glob(pattern)) if path.stat().st_size])


async def restarted(machine):
    """Return the messages that a restarted store delivers, by queue."""
    machine.start(is_damaged=True)
    found = {}
    for key, queue in machine.queues.items():
        entries = []
        while queue.ready_count:
            entries += queue.fetch(100, ack_required=True)
        assert len(entries) == queue.unacked_count
        traced = machine.record.traced
        assert all(entry.message.number == traced[number_of(entry)] for entry in entries)
        found[key] = {number_of(entry): entry.message.body for entry in entries}
        assert len(found[key]) == len(entries)
    await machine.store.close()
    return found


def check(before, found, machine):
    """Check that all found messages are correct; returns the number of lost ones."""
    lost = 0
    for key in DURABLE:
        for number, body in found[key].items():
            assert intact(body)
            assert number in machine.record.published[key]
        lost += len(before[key].keys() - found[key].keys())
    return lost


@pytest.mark.parametrize("pattern", FILES)
@pytest.mark.parametrize("seed", range(6))
async def test_a_flipped_bit(stopped, caplog, pattern, seed):
    chance = random.Random(seed)
    machine, before = stopped
    path = choose(machine.directory, pattern, chance)
    data = bytearray(path.read_bytes())
    place = chance.randrange(len(data.rstrip(b"\0")) or 1)
    data[place] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    caplog.clear()
    refusal = None
    try:
        found = await restarted(machine)
    except StoreError as error:
        refusal = str(error)
    if refusal is not None:
        assert str(path) in refusal
        return
    lost = check(before, found, machine)
    assert lost <= 70, "more than what the damaged part held is lost"
    if lost:
        assert path.name in caplog.text


@pytest.mark.parametrize("pattern", FILES)
@pytest.mark.parametrize("seed", range(3))
async def test_a_file_that_ends_too_early(stopped, caplog, pattern, seed):
    chance = random.Random(seed)
    machine, before = stopped
    path = choose(machine.directory, pattern, chance)
    size = chance.randrange(path.stat().st_size)
    with path.open("r+b") as file:
        file.truncate(size)
    caplog.clear()
    found = await restarted(machine)
    if check(before, found, machine):
        assert path.name in caplog.text


@pytest.mark.parametrize("pattern", FILES)
@pytest.mark.parametrize("seed", range(2))
async def test_a_missing_file(stopped, caplog, pattern, seed):
    machine, before = stopped
    path = choose(machine.directory, pattern, random.Random(seed))
    path.unlink()
    caplog.clear()
    found = await restarted(machine)
    if check(before, found, machine):
        assert path.name in caplog.text or path.parent.name in caplog.text


def first_segment_needed(machine):
    """The path, in its store, of a segment with messages that are on disk only."""
    queue = next(queue for queue in machine.queues.values() if queue.delta.positions)
    path = queue.writer.path(queue.delta.positions.first // ledger.SEGMENT_POSITIONS)
    return path.relative_to(machine.directory)


@pytest.mark.parametrize("pattern", FILES[:2])
async def test_a_file_of_another_version_is_refused_by_name(stopped, original, caplog, pattern):
    machine, _ = stopped
    is_log = pattern.startswith("log")
    needed = first_segment_needed(original[0])
    path = (
        choose(machine.directory, pattern, random.Random(1))
        if is_log
        else machine.directory / needed
    )
    data = path.read_bytes()
    path.write_bytes(with_version(data, 99))
    caplog.clear()
    try:
        await restarted(machine)
    except (StoreError, Unreadable) as error:
        text = str(error)
    else:
        text = caplog.text
    assert path.name in text
    assert re.search(r"version 99", text)
    assert path.read_bytes()[:40] == with_version(data, 99)[:40], "it must not be touched"


@pytest.mark.parametrize("version", [1, 2])
async def test_files_of_older_versions_are_read(stopped, version):
    machine, before = stopped
    for pattern in FILES:
        for path in machine.directory.glob(pattern):
            path.write_bytes(with_version(path.read_bytes(), version))
    assert await restarted(machine) == before


def with_version(data, version):
    header = data[:8] + version.to_bytes(4, "little") + data[12:36]
    return header + crc32(header).to_bytes(4, "little") + data[40:]
