"""The identifiers of messages, and which of them are known."""

import pytest

from leveret.broker.amqp.content_header import header_with
from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.queues.deduplication.identifiers import (
    IDENTIFIER_BYTES_MAX,
    KnownIdentifiers,
    check_identifier,
    key_of,
)


def header(*field):
    return header_with(headers={"x-deduplication-header": field} if field else {})


DIFFERENT = [
    ("S", "1"), ("I", 1), ("t", True), ("d", 1.5), ("V", None), ("S", ""), ("S", "a" * 15),
    ("S", "a" * 16), ("S", "a" * IDENTIFIER_BYTES_MAX), ("T", 1),
]  # fmt: skip


def test_types_and_values_make_the_difference():
    keys = [key_of(header(*field)) for field in DIFFERENT]
    assert len(set(keys)) == len(keys)
    assert all(0 < len(key) <= 17 for key in keys)


def test_widths_of_numbers_and_text_as_bytes_do_not():
    assert key_of(header("l", 7)) == key_of(header("b", 7))
    assert key_of(header("S", "é")) == key_of(header("x", "é".encode()))


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        (("F", {}), "a table cannot be compared"),
        (("A", [("S", "x")]), "an array cannot be compared"),
        (("S", "x" * 100_000), "it has 100000 bytes and may have 4096"),
    ],
    ids=["table", "array", "100 KB"],
)
def test_what_cannot_be_an_identifier_is_refused(field, problem):
    with pytest.raises(ChannelFault, match=problem):
        check_identifier(header(*field))
    assert key_of(header(*field)) == b""


def test_a_message_without_an_identifier_is_never_a_duplicate():
    check_identifier(header())
    assert key_of(header()) == b""


def test_an_identifier_is_known_while_its_message_is_in_the_queue():
    known = KnownIdentifiers()
    known.add_present(b"a", 10)
    assert known.has(b"a", 1_000_000)
    known.left(b"a", 1_000_000)
    assert not known.has(b"a", 1_000_000)
    assert len(known) == 0


def test_and_as_long_as_its_time_lasts():
    known = KnownIdentifiers(ttl_ms=100)
    known.add_present(b"a", 10)
    known.left(b"a", 50)
    assert known.has(b"a", 109)
    assert not known.has(b"a", 110)


def test_the_first_one_is_forgotten_when_there_are_too_many():
    known = KnownIdentifiers(size=2)
    for position, key in enumerate([b"a", b"b", b"c"], 1):
        known.add_present(key, 0, position)
    assert [known.has(key, 0) for key in (b"a", b"b", b"c")] == [False, True, True], "KI1"
    known.configure(1, 0)
    assert [key for key, _ in known.items()] == [b"c"]


def test_the_position_of_a_forgotten_identifier_is_forgotten():
    known = KnownIdentifiers(size=1)
    known.add_present(b"a", 0, 1)
    known.add_present(b"b", 0, 2)
    known.add_present(b"a", 0, 3)
    known.left_positions(1, 2, 0)
    assert known.has(b"a", 0), "KI2: its message is at position 3"
    known.left_positions(3, 3, 0)
    assert not known.has(b"a", 0)


def test_memory_does_not_grow_with_those_whose_time_is_over():
    known = KnownIdentifiers(size=1000, ttl_ms=5)
    for now_ms in range(500):
        known.add_until(b"%d" % now_ms, now_ms + 5, now_ms)
    assert len(known) <= 7


def test_a_restored_memory_is_the_same():
    known, other = KnownIdentifiers(ttl_ms=100), KnownIdentifiers(ttl_ms=100)
    known.add_present(b"a", 0, 1)
    known.add_present(b"b", 0, 2)
    known.left_positions(1, 1, 50)
    other.restore(known.items())
    assert other.items() == known.items()
    other.left_positions(1, 2, 100)
    assert other.items()[1:] == []
