"""Records are decoded unchanged, and other data is never taken for a record."""

import struct
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.storage.messages.formats import (
    FORMAT_VERSION,
    LOG_MAGIC,
    NUMBERED,
    OLDEST,
    PERSISTENT,
    PROGRESS,
    RUN,
    SEGMENT_MAGIC,
    STATE,
    STORED,
    Damage,
    FormatError,
    ScannedRecord,
    StateRecord,
    decode_file_header,
    decode_oldest,
    decode_progress,
    decode_run,
    decode_state,
    encode_file_header,
    encode_oldest,
    encode_progress,
    encode_record,
    encode_run,
    encode_state,
    encode_stored_run,
    read_record,
    read_records,
)
from leveret.storage.messages.intervals import Intervals
from leveret.storage.messages.record_heads import POSITION_MAX

U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
POSITIONS = st.integers(0, POSITION_MAX - 10)
TARGETS = st.lists(st.tuples(U64, POSITIONS), min_size=1, max_size=4)
ADDRESSES = st.tuples(st.binary(max_size=10), st.binary(max_size=10)).map(
    lambda names: b"".join(bytes((len(name),)) + name for name in names)
)
ADDRESS = b"\1x\1k"
BODIES = st.lists(st.binary(max_size=50), min_size=1, max_size=5)
NUMBERS = st.integers(1, 2**64 - 10)
RANGES = st.lists(st.integers(0, 500), max_size=12).map(
    lambda numbers: Intervals((number, number + 2) for number in numbers)
)


@given(U64, TARGETS, ADDRESSES, st.binary(max_size=40), BODIES)
def test_runs(expires, run_targets, address, header, bodies):
    data = encode_run(expires, PERSISTENT, run_targets, address, header, bodies) + b"".join(bodies)
    record = read_record(data, 0)
    assert (record.kind, record.end) == (RUN, len(data))
    run = decode_run(record.head)
    assert (run.expires_wall_ms, run.targets, run.flags) == (expires, run_targets, PERSISTENT)
    assert (run.address, run.header) == (address, header)
    assert run.sizes == tuple(map(len, bodies))
    assert data[record.body_offset :] == b"".join(bodies)


@given(TARGETS, ADDRESSES, st.binary(max_size=40), BODIES, NUMBERS)
def test_numbered_runs(run_targets, address, header, bodies, number):
    data = encode_run(0, PERSISTENT, run_targets, address, header, bodies, number)
    run = decode_run(read_record(data + b"".join(bodies), 0).head)
    assert (run.flags, run.number) == (PERSISTENT | NUMBERED, number)
    assert [run.number_at(place) for place in range(len(bodies))] == [
        number + place for place in range(len(bodies))
    ]
    assert (run.targets, run.address, run.header) == (run_targets, address, header)


@given(st.lists(st.tuples(U32, U64, U32, U32), min_size=1, max_size=4), NUMBERS)
def test_numbered_runs_whose_bodies_are_elsewhere(stored, number):
    head = read_record(encode_stored_run(0, 0, (1, 2), ADDRESS, b"h", stored, number), 0).head
    run = decode_run(head)
    assert (run.flags, run.number) == (STORED | NUMBERED, number)
    assert list(zip(run.stored[::2], run.stored[1::2], run.sizes, run.crcs, strict=True)) == stored
    assert (run.address, run.header) == (ADDRESS, b"h")


@given(BODIES, TARGETS)
def test_a_run_without_numbers_is_as_version_1_wrote_it(bodies, run_targets):
    """Flag 4 is not set, and there is nothing between the checksums and the address."""
    head = read_record(
        encode_run(5, PERSISTENT | NUMBERED, run_targets, ADDRESS, b"props", bodies)
        + b"".join(bodies), 0,
    ).head  # fmt: skip
    assert head.endswith(
        b"".join(crc32(body).to_bytes(4, "little") for body in bodies) + ADDRESS + b"props"
    )
    run = decode_run(head)
    assert (run.flags, run.number, run.number_at(3)) == (PERSISTENT, 0, 0)


@given(st.lists(st.tuples(U32, U64, U32, U32), min_size=1, max_size=4))
def test_runs_whose_bodies_are_elsewhere(stored):
    run = decode_run(read_record(encode_stored_run(0, 0, (1, 2), ADDRESS, b"h", stored), 0).head)
    places = list(zip(run.stored[::2], run.stored[1::2], run.sizes, run.crcs, strict=True))
    assert places == stored


@given(U64, POSITIONS, U64, RANGES)
def test_progress(key, fetched_to, size, gone):
    told = decode_progress(read_record(encode_progress(key, fetched_to, size, gone), 0).head)
    assert told == (key, fetched_to, size, list(gone))


STATES = st.builds(
    StateRecord,
    key=U64,
    flushed_to=POSITIONS,
    fetched_to=POSITIONS,
    segment_bytes=U64,
    tail_number=st.integers(-1, 10**9),
    tail_bytes=U64,
    has_expiring=st.booleans(),
    transient_segments=st.lists(U64),
    gone=RANGES,
)


@given(STATES)
def test_states(state):
    assert decode_state(read_record(encode_state(state), 0).head) == state


def test_the_oldest_file():
    assert decode_oldest(read_record(encode_oldest(77), 0).head) == 77


RUN_HEAD = read_record(
    encode_run(9, NUMBERED, [(1, 2), (3, 4)], ADDRESS, b"\0\0", [b""] * 3, 8), 0
).head
HEADS = {
    RUN: [
        b"", RUN_HEAD[:-1], RUN_HEAD + b"x", RUN_HEAD[:8] + b"\2" + RUN_HEAD[9:],
        RUN_HEAD.replace(ADDRESS, b"\1x\2k"), RUN_HEAD.replace(ADDRESS, b"\5x\1k"),
        RUN_HEAD.replace((4).to_bytes(8, "little"), POSITION_MAX.to_bytes(8, "little")),
    ],
    PROGRESS: [
        b"", struct.pack("<QQQI", 1, 2, 3, 1), struct.pack("<QQQI", 1, POSITION_MAX + 1, 3, 0),
        struct.pack("<QQQIQQ", 1, 2, 3, 1, 5, POSITION_MAX + 1),
    ],
    STATE: [
        b"", struct.pack("<QQQQqQBII", 1, 2, 2, 0, 0, 0, 0, 1, 0),
        struct.pack("<QQQQqQBII", 1, POSITION_MAX + 1, 2, 0, 0, 0, 0, 0, 0),
    ],
    OLDEST: [b"", bytes(7), bytes(9)],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "head"), [(kind, head) for kind, heads in HEADS.items() for head in heads]
)
def test_a_record_with_a_right_checksum_and_a_wrong_head_is_damage(kind, head):
    record = encode_record(kind, head)
    assert list(read_records(record, 0)) == [Damage(0, len(record), True)]


def test_a_record_whose_bodies_are_not_as_large_as_their_sizes_say_is_damage():
    record = encode_run(0, 0, [(1, 2)], ADDRESS, b"", [b"body"])
    head = read_record(record + b"body", 0).head
    assert read_record(encode_record(RUN, head, 3) + b"bod", 0) is None


@given(st.integers(0, 400), st.integers(0, 7))
def test_a_flipped_bit_costs_one_record_at_the_most(place, bit):
    records = [encode_progress(key, 5, 6, Intervals([(1, 9)])) for key in range(6)]
    data = bytearray(b"".join(records))
    place %= len(data)
    data[place] ^= 1 << bit
    found = list(read_records(bytes(data), 0))
    whole = [record for record in found if isinstance(record, ScannedRecord)]
    damage = [part for part in found if isinstance(part, Damage)]
    assert len(whole) == 5
    assert len(damage) == 1
    assert damage[0].offset <= place < damage[0].end
    assert all(record.kind == PROGRESS for record in whole)


def test_zeros_are_no_records():
    assert list(read_records(bytes(1000), 0)) == [Damage(0, 1000, True)]


def test_file_headers():
    data = encode_file_header(LOG_MAGIC, 7, 3, 99)
    header = decode_file_header(data, LOG_MAGIC)
    assert (header.version, header.number) == (FORMAT_VERSION, 7)
    assert (header.oldest, header.previous_bytes) == (3, 99)
    with pytest.raises(FormatError, match="another kind"):
        decode_file_header(data, SEGMENT_MAGIC)
    with pytest.raises(FormatError, match="damaged"):
        decode_file_header(data[:-1] + bytes((data[-1] ^ 1,)), LOG_MAGIC)
    with pytest.raises(FormatError, match="cut off"):
        decode_file_header(data[:10], LOG_MAGIC)
