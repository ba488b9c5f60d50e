"""The messages that wait at an exchange: in the order of their times, in little memory."""

from random import Random

import pytest

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import read_header
from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.runtime.turns import WORK_MAX
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.broker.vhost.delayed_messages import (
    LEAVING_BYTES_MAX,
    LOADED_MESSAGES_MAX,
    RELEASE_WORK,
    RETRY_MS,
    DelayedMessages,
)
from leveret.storage.contract.backing_queue import Unreadable
from leveret.storage.messages.message import Address, Message
from leveret.storage.queue.transient_queue import TransientQueue
from tests.turns_by_hand import TurnsByHand

ADDRESS = Address("later", "k", encode_address("later", "k"))
HEADER = read_header(b"\0\0")
HOUR_MS = 3_600_000


class TurningClock(VirtualClock):
    """A clock that gives turns after each timer, as an event loop does, unless it is busy."""

    def __init__(self, turns):
        super().__init__()
        self._turns = turns
        self.is_busy = False

    def call_later_ms(self, delay_ms, callback):
        def call():
            callback()
            if not self.is_busy:
                self._turns.run()

        return super().call_later_ms(delay_ms, call)


class UnreadableAtTimes(TransientQueue):
    """A bucket that cannot be read while `error` is set."""

    error = None

    def fetch(self, count, ack_required):
        if self.error is not None:
            raise self.error
        return super().fetch(count, ack_required)


class Place:
    """Where messages wait, with what became of them: the times at which bodies were released."""

    def __init__(self, start_ms=0):
        self.turns = TurnsByHand()
        self.clock = TurningClock(self.turns)
        self.clock.advance(start_ms / 1000)
        self.backings = {}
        self.released = []
        self.holder = None
        self.delayed = DelayedMessages(
            self.clock, self.turns, self._make_backing, [], self._release
        )

    def _make_backing(self, level):
        return self.backings.setdefault(level, UnreadableAtTimes())

    def _release(self, message, publisher):
        self.released.append((self.clock.now_ms(), message.body))
        if self.holder is not None:
            publisher.hold(0, 1, self.holder)
            self.publisher = publisher

    def add(self, body, delay_ms):
        self.delayed.add(publication_of([Message(ADDRESS, HEADER, body)]), delay_ms)

    def advance(self, ms):
        self.clock.advance(ms / 1000)
        self.turns.run()

    @property
    def loaded_count(self):
        return sum(backing.unacked_count for backing in self.backings.values())


@pytest.fixture
def place():
    return Place()


@pytest.mark.parametrize("start_ms", [0, 2**32 - 5, 2**40 - 70_000])
def test_each_is_released_at_its_time(start_ms):
    place = Place(start_ms)
    now_ms = place.clock.now_ms()
    delays = [1, 2, 15, 16, 17, 255, 256, 4095, 4097, 65_535, 65_537, HOUR_MS, 2**32 - 1]
    for delay_ms in delays:
        place.add(b"%d" % delay_ms, delay_ms)
    place.advance(2**32)
    assert place.released == [(now_ms + delay, b"%d" % delay) for delay in delays]
    assert place.delayed.count == 0


def test_thousands_with_any_delays_come_in_order(place):
    random = Random(7)
    expected = []
    for number in range(20_000):
        delay_ms = random.randrange(1, 100_000)
        expected.append((place.clock.now_ms() + delay_ms, number))
        place.add(b"%d" % number, delay_ms)
        if not number % 100:
            place.advance(random.randrange(200))
    assert place.delayed.count + len(place.released) == 20_000
    place.advance(100_000)
    assert [int(body) for _, body in place.released] == [number for _, number in sorted(expected)]


def test_those_of_the_same_time_come_in_the_order_in_which_they_were_published(place):
    for number in range(10):
        place.add(b"%d" % number, 5000)
    place.advance(5000)
    assert [int(body) for _, body in place.released] == list(range(10))


def test_little_memory_is_used_for_many_of_a_later_hour(place):
    for number in range(3 * LOADED_MESSAGES_MAX):
        place.add(b"", HOUR_MS + number * 20)
    most = 0
    while place.delayed.count:
        place.advance(5000)
        most = max(most, place.loaded_count)
    assert 0 < most <= 2 * LOADED_MESSAGES_MAX
    assert len(place.released) == 3 * LOADED_MESSAGES_MAX


def test_a_few_messages_do_not_move(place):
    place.add(b"x", HOUR_MS)
    (bucket,) = [backing for backing in place.backings.values() if backing.ready_count]
    place.advance(HOUR_MS)
    assert bucket.next_position == 1
    assert sum(backing.next_position for backing in place.backings.values()) == 1


def test_a_turn_releases_some_of_the_messages_that_are_due(place):
    for number in range(1000):
        place.add(b"%d" % number, 1000)
    place.advance(999)
    place.clock.is_busy = True
    place.clock.advance(0.001)
    assert len(place.released) == WORK_MAX // RELEASE_WORK
    place.turns.run()
    assert [int(body) for _, body in place.released] == list(range(1000))


def test_a_message_is_kept_until_the_queues_have_it_safely(place):
    place.holder = object()
    place.add(b"x", 1000)
    place.advance(1000)
    assert place.released
    assert (place.loaded_count, place.delayed.count) == (1, 0), "DM2"
    place.publisher.confirm(0, place.holder)
    assert place.loaded_count == 0


def test_no_more_messages_leave_while_the_queues_have_too_many_not_safely(place):
    place.holder = object()
    for _ in range(5):
        place.add(bytes(LEAVING_BYTES_MAX // 2), 1000)
    place.advance(1000)
    assert len(place.released) == 2
    place.publisher.confirm(0, place.holder)
    place.turns.run()
    assert len(place.released) == 3


def test_the_death_of_a_queue_does_not_keep_a_message(place):
    place.holder = object()
    place.add(b"x", 1000)
    place.advance(1000)
    place.publisher.holder_died(place.holder, is_settled=False)
    assert place.loaded_count == 0


def test_a_bucket_that_cannot_be_read_is_reported_once_and_read_again(place, caplog):
    place.add(b"x", 1000)
    for backing in place.backings.values():
        backing.error = Unreadable("no descriptor is left")
    place.advance(2000)
    assert (place.released, len(caplog.records)) == ([], 1)
    for backing in place.backings.values():
        backing.error = None
    place.advance(RETRY_MS)
    assert [body for _, body in place.released] == [b"x"]


def test_nothing_comes_after_the_end(place):
    place.add(b"x", 1000)
    place.delayed.delete()
    place.advance(1000)
    assert (place.released, place.delayed.count) == ([], 0)


def test_it_goes_on_with_what_a_restart_found(place):
    for delay_ms in (10, 1000, 70_000, HOUR_MS):
        place.add(b"%d" % delay_ms, delay_ms)
    place.delayed.close()
    levels = [level for level, backing in place.backings.items() if backing.ready_count]
    place.clock.advance(60)
    place.delayed = DelayedMessages(
        place.clock, place.turns, place._make_backing, levels, place._release
    )
    place.turns.run()
    place.advance(HOUR_MS)
    began = place.clock.now_ms() - HOUR_MS - 60_000
    assert place.released == [
        (began + 60_000, b"10"), (began + 60_000, b"1000"), (began + 70_000, b"70000"),
        (began + HOUR_MS, b"%d" % HOUR_MS),
    ]  # fmt: skip
