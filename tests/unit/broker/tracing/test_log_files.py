"""Files of trace logs: gzip members, recovery after a crash, rotation and retention."""

import errno
import gzip
import json
import os

import pytest

from leveret.broker.tracing.appended_file import AppendedFile
from leveret.broker.tracing.log_directory import FileLimits, LogDirectory
from leveret.broker.tracing.log_file import TraceLogFile, finish_left_open, whole_bytes
from leveret.broker.tracing.output import OutputBatch

HOUR_US = 3_600_000_000
TEN_US = 1_763_719_200_000_000
"""2025-11-21 at ten o'clock, UTC."""


def directory(path, vhost="/", **keeping):
    return LogDirectory(path, vhost, "leveret@host", FileLimits(**keeping))


def batch(time_us=TEN_US, text="x", size=1):
    return OutputBatch(f'{{"event":"{text}"}}\n'.encode() * size, time_us)


def events(path):
    return [json.loads(line)["event"] for line in gzip.decompress(path.read_bytes()).splitlines()]


def files(path):
    return sorted(str(one.relative_to(path)) for one in path.rglob("*.trace.gz*"))


def test_a_file_is_open_until_it_is_finished(tmp_path):
    file = TraceLogFile(tmp_path / "a" / "log")
    file.add(b"one\n")
    assert gzip.decompress((tmp_path / "a" / "log.trace.gz.open").read_bytes()) == b"one\n"
    file.add(b"two\n")
    file.finish()
    assert gzip.decompress((tmp_path / "a" / "log.trace.gz").read_bytes()) == b"one\ntwo\n"
    assert not (tmp_path / "a" / "log.trace.gz.open").exists()


def test_a_file_that_was_cut_anywhere_is_good_up_to_its_last_whole_member(tmp_path):
    file, ends = TraceLogFile(tmp_path / "log"), [0]
    for number in range(5):
        file.add(f"{number}\n".encode() * 20)
        ends.append(file.size)
    content = file.path.read_bytes()
    cut = tmp_path / "cut"
    for size in range(len(content) + 1):
        cut.write_bytes(content[:size])
        assert whole_bytes(cut) == max(end for end in ends if end <= size)


@pytest.mark.parametrize("garbage", [b"\0", b"\x1f", b"\x1f\x8b", b"\x1f\x8b\x08garbage", b"{}\n"])
def test_an_invalid_member_is_cut_off(tmp_path, garbage):
    file = TraceLogFile(tmp_path / "leveret@host-1-0")
    file.add(b"good\n")
    file.path.write_bytes(file.path.read_bytes() + garbage)
    finish_left_open(tmp_path, "leveret@host")
    assert gzip.decompress((tmp_path / "leveret@host-1-0.trace.gz").read_bytes()) == b"good\n"


def test_only_the_nodes_own_files_are_finished_and_empty_ones_removed(tmp_path):
    for name in ("other@host-1-0", "leveret@host-1-0", "leveret@host-1-1"):
        TraceLogFile(tmp_path / name)
    file = TraceLogFile(tmp_path / "leveret@host-1-1")
    file.add(b"x\n")
    finish_left_open(tmp_path, "leveret@host")
    assert files(tmp_path) == ["leveret@host-1-1.trace.gz", "other@host-1-0.trace.gz.open"]


def test_of_a_piece_that_did_not_fit_nothing_stays(tmp_path, monkeypatch):
    file, write = AppendedFile(tmp_path / "log"), os.write
    file.append(b"whole")

    def write_a_part(descriptor, data):
        if len(data) < 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:3])

    monkeypatch.setattr(os, "write", write_a_part)
    with pytest.raises(OSError, match="No space"):
        file.append(b"torn!")
    monkeypatch.setattr(os, "write", write)
    file.append(b" again")
    assert file.path.read_bytes() == b"whole again"


def test_files_are_where_vhost_date_and_hour_say_and_begin_with_a_header(tmp_path):
    log = directory(tmp_path, "a/b c")
    log.write(batch(TEN_US + 5))
    log.close()
    (name,) = files(tmp_path)
    assert name == (f"vhost=a%2Fb%20c/date=2025-11-21/hour=10/leveret@host-{TEN_US + 5}-0.trace.gz")
    assert events(tmp_path / name) == ["x"]


def test_a_new_hour_begins_a_file(tmp_path):
    log = directory(tmp_path)
    for time_us in (TEN_US, TEN_US + HOUR_US - 1, TEN_US + HOUR_US, TEN_US + HOUR_US + 1):
        log.write(batch(time_us))
    log.close()
    assert [name.split("/")[2] for name in files(tmp_path)] == ["hour=10", "hour=11"]
    assert all(events(tmp_path / name) == ["x", "x"] for name in files(tmp_path))


def test_a_file_that_has_its_size_is_followed_by_another(tmp_path):
    log = directory(tmp_path, file_bytes=1000)
    for number in range(6):
        log.write(batch(TEN_US + number, os.urandom(300).hex()))
    log.close()
    assert len(files(tmp_path)) == 2
    assert [len(events(tmp_path / name)) for name in files(tmp_path)] == [3, 3]


def test_the_file_of_an_hour_is_finished_when_the_hour_is_over(tmp_path):
    log = directory(tmp_path)
    log.write(batch(TEN_US))
    log.tick(TEN_US + HOUR_US - 1)
    assert files(tmp_path)[0].endswith(".open")
    log.tick(TEN_US + HOUR_US)
    assert files(tmp_path)[0].endswith(".trace.gz")
    log.close()


def test_what_a_crash_left_open_is_finished_before_the_first_record(tmp_path):
    crashed = directory(tmp_path)
    crashed.write(batch(TEN_US, "before"))
    (left,) = tmp_path.rglob("*.open")
    left.write_bytes(left.read_bytes() + b"\x1f\x8b\x08half")
    log = directory(tmp_path)
    log.write(batch(TEN_US + 9, "after"))
    log.close()
    assert [events(tmp_path / name) for name in files(tmp_path)] == [
        ["before"], ["after"],
    ]  # fmt: skip


def test_what_an_older_broker_left_open_is_finished_as_it_is(tmp_path):
    place = tmp_path / "vhost=%2F" / "date=2025-11-21" / "hour=09"
    place.mkdir(parents=True)
    lines = gzip.compress(b'{"event":"before"}\n')
    (place / "leveret@host-1-0.jsonl.gz.open").write_bytes(lines + b"\x1f\x8b\x08half")
    directory(tmp_path).tick(TEN_US)
    (left,) = place.iterdir()
    assert (left.name, events(left)) == ("leveret@host-1-0.jsonl.gz", ["before"])


def test_a_removed_file_is_created_again(tmp_path):
    log = directory(tmp_path)
    log.write(batch(TEN_US))
    next(tmp_path.rglob("*.open")).unlink()
    log.tick(TEN_US + 1)
    log.write(batch(TEN_US + 2))
    log.close()
    assert [events(tmp_path / name) for name in files(tmp_path)] == [["x"]]


def complete(path, hour, age_days, size=1000, suffix=".trace.gz"):
    where = path / "vhost=%2F" / "date=2025-11-01" / f"hour={hour:02}"
    where.mkdir(parents=True)
    file = where / f"leveret@host-1-0{suffix}"
    file.write_bytes(bytes(size))
    changed_s = TEN_US / 1_000_000 - age_days * 86_400
    os.utime(file, (changed_s, changed_s))
    return file


def test_old_files_go_and_their_directories(tmp_path):
    old, young = complete(tmp_path, 1, age_days=8), complete(tmp_path, 2, age_days=6)
    directory(tmp_path, days_max=7).tick(TEN_US)
    assert not old.parent.exists()
    assert young.exists()


def test_the_oldest_go_when_there_are_too_many_bytes(tmp_path):
    made = [complete(tmp_path, hour, age_days=10 - hour) for hour in range(5)]
    directory(tmp_path, bytes_max=2500).tick(TEN_US)
    assert [file.exists() for file in made] == [False, False, False, True, True]


def test_files_of_an_older_broker_go_like_others(tmp_path):
    old = complete(tmp_path, 1, age_days=8, suffix=".jsonl.gz")
    directory(tmp_path, days_max=7).tick(TEN_US)
    assert not old.parent.exists()


def test_nothing_is_removed_unless_it_is_asked_for(tmp_path):
    old = complete(tmp_path, 1, age_days=1000)
    directory(tmp_path).tick(TEN_US)
    assert old.exists()


def test_nothing_is_written_into_the_reserve_which_may_change(tmp_path):
    reserve = [0]
    log = directory(tmp_path, reserve_bytes=lambda: reserve[0])
    log.write(batch())
    written = files(tmp_path)
    reserve[0] = 1 << 62
    with pytest.raises(OSError, match="are reserved for messages"):
        log.write(batch())
    assert files(tmp_path) == written != []
    reserve[0] = 0
    log.write(batch())
