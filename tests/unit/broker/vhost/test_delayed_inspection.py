"""Operators read, release and cancel the messages that wait at an exchange."""

import asyncio
from contextlib import aclosing
from random import Random

import pytest

from leveret.broker.vhost.delayed_inspection import DelayedInspection
from leveret.broker.vhost.delayed_messages import LOADED_MESSAGES_MAX
from tests.unit.broker.vhost.test_delayed_messages import HOUR_MS, Place


@pytest.fixture
def place():
    return Place()


def act(place, act_on_piece, between=lambda: None, bytes_max=1):
    """Call a function with each piece; return the sum of its answers."""

    async def all_pieces():
        total = 0
        async with aclosing(DelayedInspection(place.delayed).pieces(bytes_max)) as pieces:
            async for piece in pieces:
                done = act_on_piece(piece)
                total += 0 if done is None else done.result()
                between()
        return total

    return asyncio.run(all_pieces())


def bodies(place, between=lambda: None):
    found = []

    def note(piece):
        found.extend(one.entry.message.body for one in piece.messages)

    act(place, note, between)
    return found


def chosen(piece, *wanted):
    return [one for one in piece.messages if one.entry.message.body in wanted]


def test_messages_in_buckets_and_in_memory_are_read_with_their_times(place):
    now_ms = place.clock.now_ms()
    place.add(b"memory", 300)
    place.add(b"later", HOUR_MS)
    place.advance(299)
    assert place.loaded_count == 1
    times = {}

    def note(piece):
        times.update((one.entry.message.body, one.due_ms - now_ms) for one in piece.messages)

    act(place, note)
    assert times == {b"memory": 300, b"later": HOUR_MS}
    assert place.delayed.next_due_ms == now_ms + 300


def test_each_message_that_waits_all_the_time_is_read_however_they_move(place):
    random = Random(3)
    for number in range(2 * LOADED_MESSAGES_MAX):
        place.add(b"%d" % number, HOUR_MS + random.randrange(HOUR_MS))
    found = set(bodies(place, lambda: place.advance(700)))
    released = {body for _, body in place.released}
    everything = {b"%d" % number for number in range(2 * LOADED_MESSAGES_MAX)}
    assert released
    assert everything - found <= released, "DM3"


def test_released_messages_come_now_and_once(place):
    place.add(b"third", 2 * HOUR_MS)
    place.add(b"second", HOUR_MS)
    place.add(b"first", HOUR_MS - 1)
    place.add(b"stays", 3 * HOUR_MS)
    now_ms = place.clock.now_ms()
    assert act(place, lambda piece: piece.release(chosen(piece, b"first", b"second"))) == 2
    place.turns.run()
    assert sorted(place.released) == [(now_ms, b"first"), (now_ms, b"second")]
    place.advance(4 * HOUR_MS)
    assert [body for _, body in place.released[2:]] == [b"third", b"stays"]
    assert (place.loaded_count, place.delayed.count) == (0, 0)


def test_those_that_are_read_together_come_in_the_order_of_their_times(place):
    for body, delay_ms in ((b"2", 5002), (b"1", 5001), (b"3", 5003)):
        place.add(body, delay_ms)
    assert act(place, lambda piece: piece.release(piece.messages), bytes_max=10_000) == 3
    place.turns.run()
    assert [body for _, body in place.released] == [b"1", b"2", b"3"]


def test_a_message_in_memory_is_released_or_cancelled_too(place):
    for body in (b"a", b"b", b"c"):
        place.add(body, 300)
    place.advance(299)
    assert place.loaded_count == 3
    assert act(place, lambda piece: piece.release(chosen(piece, b"b"))) == 1
    assert act(place, lambda piece: piece.cancel(chosen(piece, b"a"))) == 1
    place.turns.run()
    assert [body for _, body in place.released] == [b"b"]
    place.advance(1)
    assert [body for _, body in place.released] == [b"b", b"c"]


def test_cancelled_messages_never_come(place):
    for number in range(10):
        place.add(b"%d" % number, HOUR_MS + number)
    assert act(place, lambda piece: piece.cancel(chosen(piece, b"3", b"4"))) == 2
    assert place.delayed.count == 8
    place.advance(2 * HOUR_MS)
    assert b"3" not in {body for _, body in place.released}
    assert len(place.released) == 8
    assert place.delayed.next_due_ms is None


def test_a_message_that_was_read_and_has_gone_since_is_not_taken(place):
    place.add(b"x", 1000)
    assert act(place, lambda piece: (place.advance(1000), piece.cancel(piece.messages))[1]) == 0
    assert [body for _, body in place.released] == [b"x"]


def test_nothing_is_taken_from_a_deleted_exchange(place):
    place.add(b"x", 1000)
    assert act(place, lambda piece: (place.delayed.delete(), piece.release(piece.messages))[1]) == 0
    place.turns.run()
    assert not place.released


def test_the_caller_learns_when_what_it_has_released_has_left(place):
    inspection = DelayedInspection(place.delayed)
    place.add(b"x", HOUR_MS)
    assert inspection.released().is_given
    act(place, lambda piece: piece.release(piece.messages))
    answer = inspection.released()
    assert not answer.is_given
    place.turns.run()
    assert answer.is_given


def test_the_first_messages_are_known_before_the_later_ones_are_read(place):
    for number in range(3):
        place.add(b"soon", 1000 + number)
        place.add(b"tomorrow", 24 * HOUR_MS + number)
    now_ms = place.clock.now_ms()
    bounds = []

    def note(piece):
        read = {one.entry.message.body for one in piece.messages}
        bounds.append((read, piece.rest_due_ms - now_ms))

    act(place, note)
    first, last = bounds[0], bounds[-1]
    assert first[0] == set()
    assert 0 < first[1] <= 1000
    assert last[0] == set()
    read = [b for bodies, _ in bounds for b in bodies]
    assert read == [b"soon"] * 3 + [b"tomorrow"] * 3
    assert bounds[4][1] > 1002


def test_a_message_that_has_moved_to_a_bucket_that_was_read_is_read_there(place):
    place.add(b"soon", 20)
    for number in range(2 * LOADED_MESSAGES_MAX):
        place.add(b"%d" % number, 5000 + number % 200)
    moves = iter([4999])
    found = set(bodies(place, lambda: place.advance(next(moves, 0))))
    assert {b"%d" % number for number in range(2 * LOADED_MESSAGES_MAX)} <= found
