"""Large logs are read in parts: every record is in one part, whatever is damaged."""

import gzip
import os
import random

import pytest

from leveret.analytics.traces.log_parts import parts_of
from leveret.analytics.traces.log_records import read_log
from leveret.analytics.traces.trace_files import EVERYTHING, HOUR_US, described
from tests.analytics.logs import START_US, event, header, lines

MEMBERS = 60


def publish(number):
    return event("publish", START_US + number, message=number, queues=["q"])


def members():
    """The members of a log: a header and a few messages each, numbered from 1."""
    groups = [[publish(3 * number + one) for one in range(1, 4)] for number in range(MEMBERS)]
    groups[0].insert(0, header())
    return [gzip.compress(lines(group).encode()) for group in groups]


def read(path, part_bytes):
    """Return the numbers of the messages by part, and the rejected rows."""
    found, rejected = [], []
    for part in parts_of([described(str(path), path.stat().st_size)], part_bytes):
        rows = [row for batch in read_log(part, EVERYTHING) for row in batch.to_pylist()]
        rejected += [row for row in rows if row["wrong"]]
        found.append([row["message"] for row in rows if row["event"] == "publish"])
    return found, rejected


def of_all(parts):
    return [number for part in parts for number in part]


@pytest.mark.parametrize("part_bytes", [1, 10, 100, 350, 1_000, 10_000, 1 << 30])
def test_every_record_is_in_one_part(tmp_path, part_bytes):
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(b"".join(members()))
    found, rejected = read(path, part_bytes)
    assert of_all(found) == list(range(1, 3 * MEMBERS + 1))
    assert not rejected


def test_the_work_is_shared(tmp_path):
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(b"".join(members()))
    found, _ = read(path, path.stat().st_size // 4)
    assert all(len(part) > MEMBERS / 4 for part in found[:4])


@pytest.mark.parametrize("part_bytes", [10, 350, 1_000, 1 << 30])
def test_a_clock_that_goes_back_between_parts_is_told_once(tmp_path, part_bytes):
    path = tmp_path / "log.jsonl.gz"
    times = [START_US - number * HOUR_US for number in range(MEMBERS)]
    groups = [[event("publish", at, message=1, queues=["q"])] for at in times]
    groups[0].insert(0, header())
    path.write_bytes(b"".join(gzip.compress(lines(group).encode()) for group in groups))
    _, rejected = read(path, part_bytes)
    assert [row["wrong"] for row in rejected] == [
        "the clock went back by 3,600 s; the records are used"
    ] * (MEMBERS - 1)


@pytest.mark.parametrize("part_bytes", [200, 1_000])
def test_damaged_members_are_named_once_and_the_others_are_read(tmp_path, part_bytes):
    path, damaged, chance = tmp_path / "log.jsonl.gz", {7, 8, 30, 59}, random.Random(1)
    written = members()
    for number in damaged:
        middle = len(written[number]) // 2
        noise = chance.randbytes(8)
        written[number] = written[number][:middle] + noise + written[number][middle + 8 :]
    path.write_bytes(b"".join(written))
    found, rejected = read(path, part_bytes)
    whole, rejected_at_once = read(path, 1 << 30)
    assert of_all(found) == of_all(whole)
    assert {(number - 1) // 3 for number in of_all(found)} == set(range(MEMBERS)) - damaged
    assert len(rejected) >= len(rejected_at_once) > 0
    assert {row["file"].partition(" from byte ")[0] for row in rejected} == {str(path)}


@pytest.mark.parametrize("part_bytes", [200, 1_000])
def test_only_the_last_member_is_truncated(tmp_path, part_bytes):
    path, written = tmp_path / "log.jsonl.gz", members()
    # The lines are whole, but the end of the member does not come.
    written[30], written[59] = written[30][:-4], written[59][:-4]
    path.write_bytes(b"".join(written))
    reasons = [row["wrong"] for row in read(path, part_bytes)[1]]
    begins = sum(map(len, written[:30]))
    damage = f"damaged near byte {begins}: the member that begins there has no end"
    assert reasons == [damage, "the file is truncated"]


def test_what_looks_like_a_member_is_not_a_border(tmp_path):
    path = tmp_path / "log.jsonl.gz"
    first, *others = members()
    # A field of a member's header, in which any bytes can be.
    named = first[:3] + b"\x08" + first[4:10] + b"\x1f\x8b\x08" * 20 + b"\0" + first[10:]
    path.write_bytes(b"".join([named, *others]))
    found, rejected = read(path, 30)
    assert of_all(found) == list(range(1, 3 * MEMBERS + 1))
    assert not rejected


def test_lines_are_counted_from_the_beginning_of_the_part(tmp_path):
    path = tmp_path / "log.jsonl.gz"
    before, bad = b"".join(members()), gzip.compress(lines([publish(999), "sneeze"]).encode())
    path.write_bytes(before + bad)
    _, [row] = read(path, len(before))
    assert (row["file"], row["line"]) == (f"{path} from byte {len(before)}", 2)


def test_one_member_of_many_parts_is_read_by_the_first(tmp_path):
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress(lines([header(), *map(publish, range(1, 100))]).encode()))
    found, rejected = read(path, 100)
    assert (found[0], of_all(found[1:]), rejected) == (list(range(1, 100)), [], [])


def test_other_logs_are_read_by_the_first_part(tmp_path):
    plain, noise = tmp_path / "log.jsonl", tmp_path / "noise"
    plain.write_text(lines([header(), *map(publish, range(1, 100))]))
    noise.write_bytes(os.urandom(1_000))
    found, _ = read(plain, 100)
    assert (found[0], of_all(found[1:])) == (list(range(1, 100)), [])
    _, rejected = read(noise, 100)
    assert [row["wrong"] for row in rejected] == ["is not a trace log: no line has a known format"]
