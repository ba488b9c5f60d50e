"""The message store: where bodies are put, and what a sweep frees (rules MS1 to MS3)."""

import pytest

from leveret.storage.bodies import message_store
from leveret.storage.bodies.message_store import MessageStore, bodies_numbers, bodies_path
from leveret.storage.disk.disk import Disk
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.messages.formats import FILE_HEADER_BYTES
from leveret.storage.messages.intervals import Intervals
from tests.unit.storage.fakes import persistent, write_out


@pytest.fixture(autouse=True)
def _small_files(monkeypatch):
    monkeypatch.setattr(message_store, "FILE_BYTES_MAX", 100)
    monkeypatch.setattr(message_store, "GARBAGE_BYTES_MIN", 10)


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
def store(tmp_path, disk):
    return MessageStore(tmp_path, disk, FileReads(disk))


def put(store, disk, body):
    (message,) = persistent(body)
    write_out(disk, [store.plan(message)])
    return message


def test_a_body_is_read_back(store, disk):
    message = put(store, disk, b"body")
    assert store.read(message.stored) == b"body"
    assert store.check(message.stored) is None
    assert (store.reads, store.writes) == (2, 1)


def test_a_body_that_another_queue_has_stored_is_not_written_again(store, disk):
    message = put(store, disk, b"body")
    assert store.plan(message) is None


def test_m1_files_are_appended_to_and_then_left(store, disk, tmp_path):
    messages = [put(store, disk, b"x" * 40) for _ in range(4)]
    places = [(message.stored.number, message.stored.offset) for message in messages]
    assert places == [(1, 40), (1, 80), (2, 40), (2, 80)]
    assert bodies_numbers(disk, tmp_path) == [1, 2]


def test_a_file_that_a_crash_may_have_torn_is_not_appended_to(store, disk, tmp_path):
    put(store, disk, b"body")
    assert put(MessageStore(tmp_path, disk, FileReads(disk)), disk, b"later").stored.number == 2


def test_m3_after_a_sweep_began_bodies_go_to_later_files(store, disk):
    message = put(store, disk, b"body")
    below = store.begin_sweep()
    assert message.stored.number < below
    write = store.plan(message)
    assert write is not None, "a body in a file that is swept is written again"
    assert message.stored.number >= below


def test_a_sweep_removes_files_without_needed_bodies(store, disk, tmp_path):
    put(store, disk, b"x" * 70)
    kept = put(store, disk, b"y" * 70)
    below = store.begin_sweep()
    stored = kept.stored
    needed = {stored.number: Intervals([(stored.offset, stored.offset + stored.size)])}
    assert store.sweep(below, needed) == 70
    assert not bodies_path(tmp_path, 1).exists()
    assert store.read(stored) == b"y" * 70


def test_a_sweep_leaves_the_needed_part_of_a_file(store, disk, tmp_path):
    first, second = put(store, disk, b"x" * 20), put(store, disk, b"y" * 20)
    below = store.begin_sweep()
    end = second.stored.offset + second.stored.size
    store.sweep(below, {1: Intervals([(second.stored.offset, end)])})
    assert store.read(second.stored) == b"y" * 20
    assert first.stored.offset == FILE_HEADER_BYTES


def test_a_damaged_body_is_reported(store, disk, tmp_path):
    message = put(store, disk, b"body")
    path = bodies_path(tmp_path, 1)
    path.write_bytes(path.read_bytes().replace(b"body", b"BODY"))
    assert store.read(message.stored) is None
    assert store.check(message.stored) == "its checksum is wrong"
    path.unlink()
    assert "cannot read" in store.check(message.stored)


def test_a_sweep_is_wanted_when_half_is_garbage(store, disk):
    put(store, disk, b"x" * 60)
    store.garbage_bytes = 30
    assert not store.wants_sweep(10, 0.5)
    store.garbage_bytes = 31
    assert store.wants_sweep(10, 0.5)
    assert not store.wants_sweep(31, 0.5)
