"""Batches as bytes."""

import contextlib
import random

import pytest

from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.cluster.mirrors.batches import Batch, decode
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Address, Entry, Message

WALL_OFFSET_MS = 5_000


def a_batch():
    """Four messages: of two priorities, one redelivered, one that expires, one held by a client."""
    batch = Batch(7, 12, 3, 100, 1 << 50)
    for place, position in enumerate((100, 101, 200, 1 << 49)):
        header = read_header(encode_properties({"delivery_mode": 2, "priority": place % 2}))
        message = Message(Address("x", "k", b"\1x\1k"), header, b"%d" % place, None, 50 * place)
        expires_at_ms = 900 if place == 1 else 0
        batch.add(position, Entry(message, place, place == 2, expires_at_ms), place == 2)
    return batch


def encoded():
    return b"".join(a_batch().encode(WALL_OFFSET_MS))


def test_a_batch_is_read_as_it_was_written():
    found = decode(encoded(), Addresses(), 4_000)
    expected = a_batch()
    assert (found.number, found.turn, found.term) == (7, 12, 3)
    assert (found.start, found.end) == (100, 1 << 50)
    assert found.positions == expected.positions
    assert list(found.unacked) == [(200, 201)]
    for one, other in zip(found.entries, expected.entries, strict=True):
        assert one.message.body == other.message.body
        assert one.message.number == other.message.number
        assert one.message.header.raw == other.message.header.raw
        assert one.redelivered == other.redelivered


def test_times_of_expiry_are_those_of_the_readers_clock():
    found = decode(encoded(), Addresses(), 4_000)
    assert [entry.expires_at_ms for entry in found.entries] == [0, 1_900, 0, 0]


def test_one_without_messages_says_that_all_are_gone():
    found = decode(b"".join(Batch(1, 2, 3, 0, 50).encode(0)), Addresses(), 0)
    assert (found.start, found.end, found.positions, found.entries) == (0, 50, [], [])


def test_bytes_that_are_cut_off_are_refused():
    data = encoded()
    for end in range(len(data)):
        with pytest.raises(ValueError, match=r"\w"):
            decode(data[:end], Addresses(), 0)


def test_other_bytes_raise_nothing_but_value_errors():
    chance = random.Random(3)
    data = encoded()
    for _ in range(1_000):
        damaged = bytearray(data)
        damaged[chance.randrange(len(data))] = chance.randrange(256)
        with contextlib.suppress(ValueError):
            decode(bytes(damaged), Addresses(), 0)
