"""`leveret store check` finds damage, and `leveret store repair` moves damaged parts away."""

import asyncio
import random

import pytest
from typer.testing import CliRunner

from leveret.mgmt.cli.application import app
from leveret.storage import ledger, segments
from leveret.storage import store as store_module
from leveret.storage.check import check_store, repair_store
from leveret.storage.data_directory import DataDirectoryLock
from leveret.storage.formats import (
    FILE_HEADER_BYTES,
    LOG_MAGIC,
    PERSISTENT,
    RUN,
    decode_run,
    encode_file_header,
    encode_oldest,
    encode_run,
    read_records,
)
from leveret.storage.message import Message
from tests.patience import PATIENCE_SECONDS
from tests.storage.machine import ADDRESSES, Machine, intact
from tests.storage.machine import PERSISTENT as HEADER
from tests.storage.test_damage import FILES, choose, restarted, stopped_store


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch):
    for module in (ledger, segments):
        monkeypatch.setattr(module, "SEGMENT_POSITIONS", 64)
    # What the tests damage is still there when the store is stopped, on a slow machine, too.
    monkeypatch.setattr(store_module, "CHECK_SECONDS", 1000)


def problems(directory):
    return [problem for report in check_store(directory) for problem in report.problems]


async def stopped_with_large_bodies_on_disk(directory):
    machine = Machine(directory, 1)
    machine.start()
    lazy = machine.queues[3]
    for _ in range(300):
        lazy.publish([Message(ADDRESSES[0], HEADER, bytes(1000))], 1000, 0)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not lazy.delta.count:
            await asyncio.sleep(0.002)
    await machine.store.close()


def flip_a_bit(path, chance):
    data = bytearray(path.read_bytes())
    place = chance.randrange(40, len(data.rstrip(b"\0")))
    data[place] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


async def test_a_store_that_was_stopped_has_no_problems(tmp_path):
    await stopped_store(tmp_path)
    seen = []
    reports = check_store(tmp_path, lambda done, total: seen.append((done, total)))
    assert problems(tmp_path) == []
    assert {report.path.suffix for report in reports} == {".log", ".segment", ".bodies"}
    assert sum(report.counts.get("messages", 0) for report in reports) > 100
    assert seen[-1][0] == seen[-1][1] > 0


@pytest.mark.parametrize("pattern", FILES[:2])
@pytest.mark.parametrize("seed", range(6))
async def test_what_is_damaged_is_set_aside_and_the_rest_is_served(tmp_path, caplog, pattern, seed):
    chance = random.Random(seed)
    machine, _ = await stopped_store(tmp_path)
    path = choose(tmp_path, pattern, chance)
    flip_a_bit(path, chance)
    damaged = path.read_bytes()
    assert problems(tmp_path)
    assert repair_store(tmp_path) == [path]
    assert (tmp_path / "damaged" / path.relative_to(tmp_path)).read_bytes() == damaged
    assert problems(tmp_path) == []
    found = await restarted(machine)
    assert all(intact(body) for queue in found.values() for body in queue.values())


def test_a_message_lost_from_a_run_leaves_the_others_their_numbers(tmp_path):
    bodies = [b"first", b"second", b"third"]
    run = encode_run(0, PERSISTENT, [(256, 10)], b"\1x\1k", b"\0\0", bodies, number=77)
    (tmp_path / "log").mkdir()
    path = tmp_path / "log" / "0000000001.log"
    start = encode_file_header(LOG_MAGIC, 1)
    path.write_bytes(start + run + b"firstSECONDthird" + encode_oldest(1))
    assert repair_store(tmp_path) == [path]
    records = read_records(path.read_bytes(), FILE_HEADER_BYTES)
    runs = [decode_run(record.head) for record in records if record.kind == RUN]
    assert [(run.number, run.targets) for run in runs] == [(77, [(256, 10)]), (79, [(256, 12)])]


async def test_a_damaged_body_in_the_message_store_is_found(tmp_path):
    await stopped_with_large_bodies_on_disk(tmp_path)
    for path in tmp_path.glob(FILES[2]):
        data = path.read_bytes()
        path.write_bytes(data[:40] + bytes(byte ^ 255 for byte in data[40:]))
    assert any(".bodies" in problem for problem in problems(tmp_path))


def test_the_command_needs_a_directory(tmp_path):
    outcome = CliRunner().invoke(app, ["store", "check", str(tmp_path / "none")])
    assert outcome.exit_code == 2
    assert "there is no directory" in outcome.output


def test_the_command_refuses_a_node_that_runs(tmp_path):
    lock = DataDirectoryLock(tmp_path)
    lock.acquire()
    outcome = CliRunner().invoke(app, ["store", "repair", str(tmp_path)])
    lock.release()
    assert outcome.exit_code == 2
    assert "in use by another server" in outcome.output
