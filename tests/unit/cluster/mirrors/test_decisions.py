"""The leader's decisions as bytes: what is alike is one, and damaged bytes are refused."""

import contextlib
import random

import pytest

from leveret.cluster.mirrors import decisions
from leveret.cluster.mirrors.decisions import DecisionError, DecisionReader, DecisionWriter

NODE, OTHER = 5, 6


def read(data):
    """The decisions of a turn: of each, its kind and what counts for it."""
    found = []
    for one in DecisionReader(data).decisions():
        values = [
            one.sender,
            one.first,
            one.count,
            one.position,
            one.expires_wall_ms,
            one.member,
            one.term,
            *one.times_wall_ms,
        ]
        values += [number for pair in one.decided.items() for number in pair]
        found.append((one.kind, [value for value in values if value], one.ranges or [one.run]))
    return found


def ranged(*changes):
    """The decisions of a turn with ranges of positions of some kinds."""
    writer = DecisionWriter(1)
    for kind, start, end in changes:
        writer.ranged(kind, start, end)
    return [(one.kind, one.ranges) for one in DecisionReader(writer.take()).decisions()]


class TestWhatIsAlikeIsOneDecision:
    def test_a_thousand_acks_in_order(self):
        acks = [(decisions.SETTLED, position, position + 1) for position in range(7, 1007)]
        assert ranged(*acks) == [(decisions.SETTLED, [(7, 1007)])]

    def test_acks_of_two_consumers_in_turn(self):
        acks = [(decisions.SETTLED, position, position + 1) for position in (0, 2, 4, 1, 3, 9)]
        assert ranged(*acks) == [(decisions.SETTLED, [(0, 5), (9, 10)])]

    def test_publishes_of_one_sender(self):
        writer = DecisionWriter(1)
        for first in range(1, 4000, 100):
            writer.published(NODE, first, 100, first + 49, 0)
        data = writer.take()
        assert read(data) == [(decisions.PUBLISHED, [NODE, 1, 4000, 50], [b""])]
        assert len(data) < 60

    def test_publishes_of_one_sender_with_times_of_their_own(self):
        writer = DecisionWriter(1)
        writer.published_each(NODE, 1, 50, [900, 700])
        writer.published_each(NODE, 3, 52, [800])
        writer.published_each(NODE, 4, 60, [700])
        writer.published(NODE, 5, 1, 61, 700)
        assert read(writer.take()) == [
            (decisions.PUBLISHED_EACH, [NODE, 1, 3, 50, 900, 700, 800], [b""]),
            (decisions.PUBLISHED_EACH, [NODE, 4, 1, 60, 700], [b""]),
            (decisions.PUBLISHED, [NODE, 5, 1, 61, 700], [b""]),
        ]

    def test_not_of_two_senders_or_with_gaps_or_other_times(self):
        writer = DecisionWriter(1)
        writer.published(NODE, 1, 10, 50, 0)
        writer.published(OTHER, 11, 10, 60, 0)
        writer.published(OTHER, 22, 10, 70, 0)
        writer.published(OTHER, 32, 10, 81, 0)
        writer.published(OTHER, 42, 10, 91, 1_000)
        assert len(read(writer.take())) == 5

    def test_refusals_of_one_sender(self):
        writer = DecisionWriter(1)
        writer.refused(NODE, 1, 2)
        writer.refused(NODE, 3, 5)
        writer.refused(NODE, 9, 1)
        assert read(writer.take()) == [
            (decisions.REFUSED, [NODE, 1, 7], [b""]),
            (decisions.REFUSED, [NODE, 9, 1], [b""]),
        ]

    def test_the_order_of_unlike_decisions_is_kept(self):
        fetch, requeue = decisions.FETCHED, decisions.REQUEUED
        assert ranged((fetch, 0, 2), (requeue, 0, 1), (fetch, 0, 1)) == [
            (fetch, [(0, 2)]), (requeue, [(0, 1)]), (fetch, [(0, 1)]),
        ]  # fmt: skip


class TestTurns:
    def test_each_has_its_number(self):
        writer = DecisionWriter(8)
        writer.purged()
        assert DecisionReader(writer.take()).turn == 8
        writer.purged()
        assert DecisionReader(writer.take()).turn == 9

    def test_one_in_which_nothing_was_decided_has_no_bytes_and_no_number(self):
        writer = DecisionWriter(8)
        assert writer.is_empty
        assert writer.take() == b""
        writer.sender_ended(NODE, 12)
        assert not writer.is_empty
        assert DecisionReader(writer.take()).turn == 8

    def test_every_kind_is_read_as_it_was_written(self):
        writer = DecisionWriter(1)
        writer.joined(3, 2, {NODE: 7}, [(0, 10), (1 << 48, (1 << 48) + 5)])
        writer.published_here(2, 10, 77, [b"mess", b"ages"])
        writer.sender_ended(NODE, 12)
        writer.leads(2, [])
        writer.leads(2, [(4, 6)])
        assert read(writer.take()) == [
            (decisions.JOINED, [3, 2, NODE, 7], [(0, 10), (1 << 48, (1 << 48) + 5)]),
            (decisions.PUBLISHED_HERE, [2, 10, 77], [b"messages"]),
            (decisions.SENDER_ENDED, [NODE, 12], [b""]),
            (decisions.LEADS, [2], [b""]),
            (decisions.LEADS, [2], [(4, 6)]),
        ]


def some_turn():
    """One turn with decisions of every kind."""
    writer = DecisionWriter(1)
    writer.published(NODE, 1, 10, 50, 0)
    writer.published_each(NODE, 11, 60, [1_000, 900])
    writer.refused(NODE, 13, 2)
    writer.published_here(1, 62, 0, [b"message"])
    for kind in range(decisions.FETCHED, decisions.RETURNED + 1):
        writer.ranged(kind, 10, 12)
        writer.ranged(kind, 20, 21)
    writer.purged()
    writer.sender_ended(NODE, 13)
    writer.joined(2, 2, {NODE: 13, OTHER: 0}, [(0, 61)])
    writer.leads(2, [(3, 4)])
    return writer.take()


class TestDamagedBytes:
    def test_a_truncated_batch_is_refused_or_ends_with_a_whole_decision(self):
        data = some_turn()
        count = len(DecisionReader(data).decisions())
        whole = 0
        for end in range(len(data)):
            try:
                assert len(DecisionReader(data[:end]).decisions()) < count
                whole += 1
            except DecisionError:
                pass
        assert whole == count - 1

    def test_any_other_bytes_raise_nothing_else(self):
        chance = random.Random(7)
        data = some_turn()
        for _ in range(2_000):
            damaged = bytearray(data)
            for _ in range(chance.randrange(1, 4)):
                damaged[chance.randrange(len(data))] = chance.randrange(256)
            with contextlib.suppress(DecisionError):
                DecisionReader(bytes(damaged)).decisions()

    @pytest.mark.parametrize(
        ("kind", "numbers"),
        [
            (99, []),
            (0, []),
            (decisions.FETCHED, [1, 5, 5]),
            (decisions.FETCHED, [1, 5, 4]),
            (decisions.FETCHED, [2, 5, 7, 7, 9]),
            (decisions.FETCHED, [2, 5, 7, 1, 2]),
            (decisions.FETCHED, [1 << 61]),
            (decisions.FETCHED, [-1]),
            (decisions.PUBLISHED, [NODE, 1, 0, 50, 0]),
            (decisions.PUBLISHED, [NODE, 1, 1 << 62, 50, 0]),
            (decisions.PUBLISHED_HERE, [1, 50, 0, 1 << 61]),
            (decisions.PUBLISHED_EACH, [NODE, 1, 0, 50]),
            (decisions.PUBLISHED_EACH, [NODE, 1, 2, 50, 1_000]),
            (decisions.PUBLISHED_EACH, [NODE, 1, 1 << 61, 50, 1_000]),
            (decisions.SENDER_ENDED, [NODE, -5]),
        ],
    )
    def test_impossible_numbers_are_refused(self, kind, numbers):
        data = (1).to_bytes(8, "little") + bytes([kind])
        data += b"".join(number.to_bytes(8, "little", signed=True) for number in numbers)
        with pytest.raises(DecisionError):
            DecisionReader(data).decisions()
