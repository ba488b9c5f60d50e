"""Making entries of what a queue has in segments."""

import pytest

from leveret.storage.messages.formats import encode_run
from leveret.storage.messages.message import ENTRY_BYTES, Entry, Message
from leveret.storage.queue.segment_entries import SegmentEntries, stored_body
from leveret.storage.segments.segments import Lost, SegmentWriter, segment_path
from tests.unit.storage.fake_store import (
    ADDRESS,
    PERSISTENT,
    bodies,
    positions,
)
from tests.unit.storage.fakes import write_out

MEBIBYTE = 1 << 20


pytestmark = pytest.mark.usefixtures("tiny_segments")


@pytest.fixture
def writer(tmp_path):
    return SegmentWriter(tmp_path / "256")


@pytest.fixture
def reader(store, writer):
    reader = SegmentEntries(store, writer)
    yield reader
    reader.close()


def write(store, writer, *bodies, first=0, expires_wall_ms=0, number=0):
    """One run of messages from a position on."""
    messages = [
        Message(ADDRESS, PERSISTENT, body, None, number and number + place)
        for place, body in enumerate(bodies)
    ]
    entries = [Entry(message, first + place) for place, message in enumerate(messages)]
    write_out(store.disk, writer.plan(entries, [expires_wall_ms] * len(entries), 256))


def test_a_run_is_found_by_a_position_in_it(store, writer, reader):
    write(store, writer, b"0", b"1")
    write(store, writer, b"2", b"3", first=2)
    run = reader.find(3)
    assert run.targets == [(256, 2)]
    assert reader.bodies(run) == [b"2", b"3"]


def test_the_next_run_is_found_after_the_first_is_passed_over(store, writer, reader):
    write(store, writer, b"0")
    write(store, writer, b"1", first=1)
    reader.pass_over(reader.find(0))
    assert reader.bodies(reader.find(1)) == [b"1"]


def test_a_position_before_what_was_passed_over_is_found_again(store, writer, reader):
    write(store, writer, b"0", b"1")
    reader.pass_over(reader.find(0))
    assert reader.bodies(reader.find(0)) == [b"0", b"1"]


def test_nothing_is_found_at_the_end_of_the_segment(store, writer, reader):
    write(store, writer, b"0")
    assert reader.find(1) is None


def test_the_head_of_a_run_has_its_expiry_on_the_brokers_clock(store, writer, reader):
    write(store, writer, b"0", expires_wall_ms=store.wall_offset_ms + 50)
    assert reader.find(0) is not None
    head = reader.head
    assert (head.address, head.expires_at_ms) == (ADDRESS, 50)
    assert head.header.is_persistent


def test_looking_makes_entries_of_one_run_at_a_time(store, writer, reader):
    write(store, writer, b"0", b"1", number=70)
    write(store, writer, b"2", first=2)
    entries, position = reader.look(0, 8, MEBIBYTE, fetched_to=1)
    assert (positions(entries), bodies(entries), position) == ([0, 1], [b"0", b"1"], 2)
    assert [entry.redelivered for entry in entries] == [True, False]
    assert [entry.message.number for entry in entries] == [70, 71]


def test_looking_stops_at_so_many_bytes_and_goes_on_there(store, writer, reader):
    write(store, writer, b"0", b"1", b"2")
    entries, position = reader.look(0, 3, 2 * ENTRY_BYTES, 0)
    assert (positions(entries), position) == ([0, 1], 2)
    entries, position = reader.look(position, 3, MEBIBYTE, 0)
    assert (positions(entries), position) == ([2], 3)


def test_looking_at_a_segment_that_cannot_be_read_goes_on_at_the_next(store, writer, reader):
    write(store, writer, b"0")
    write(store, writer, b"8", first=8)
    segment_path(writer.directory, 0).unlink()
    assert reader.look(0, 16, MEBIBYTE, 0) == ([], 8)
    assert bodies(reader.look(8, 16, MEBIBYTE, 0)[0]) == [b"8"]


def test_a_damaged_run_is_found_as_lost_and_left_out_by_looking(store, writer, reader):
    write(store, writer, b"0")
    path, end = segment_path(writer.directory, 0), writer.tail_bytes
    write(store, writer, b"1", first=1)
    data = bytearray(path.read_bytes())
    data[end - 10] ^= 1
    path.write_bytes(data)
    assert isinstance(reader.find(0), Lost)
    reader.close()
    entries, _ = reader.look(0, 8, MEBIBYTE, 0)
    assert bodies(entries) == [b"1"]


def test_a_body_in_the_message_store_is_read_from_there(store, writer, reader):
    message = Message(ADDRESS, PERSISTENT, b"x" * 200)
    plan = [store.bodies.plan(message)]
    write_out(store.disk, plan + writer.plan([Entry(message, 0)], [0], 256))
    assert stored_body(reader.find(0), 0) == message.stored
    assert bodies(reader.look(0, 1, MEBIBYTE, 0)[0]) == [b"x" * 200]


def test_a_run_whose_properties_cannot_be_decoded_is_lost_and_no_other(store, writer, reader):
    write(store, writer, b"0")
    broken = encode_run(0, 0, [(0, 1)], ADDRESS.encoded, b"\x80", [b"1"]) + b"1"
    with segment_path(writer.directory, 0).open("ab") as file:
        file.write(broken)
    start = writer.tail_bytes
    writer.tail_bytes += len(broken)
    write(store, writer, b"2", first=2)
    reader.pass_over(reader.find(0))
    path = segment_path(writer.directory, 0)
    assert reader.find(1) == Lost(path, start, start + len(broken))
    assert reader.bodies(reader.find(1)) == [b"2"]
