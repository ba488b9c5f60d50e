"""Message numbers: unique for all time and in a cluster, given once, and only when needed."""

from leveret.broker.runtime.message_numbers import BLOCK, MessageNumbers
from leveret.storage.messages.message import Message
from tests.unit.storage.fakes import ADDRESS


class Clock:
    def __init__(self, now_s):
        self.now_s = now_s

    def __call__(self):
        return self.now_s


def test_numbers_follow_each_other_and_no_restart_gives_one_out_twice():
    numbers = MessageNumbers(Clock(1_700_000_000.0))
    first = numbers.take(3)
    assert numbers.take(1) == first + 3
    assert first == 1_700_000_000 << 32
    assert MessageNumbers(Clock(1_700_000_000.01)).take(1) > first + BLOCK
    assert numbers.next < 1 << 63


def test_the_next_block_has_the_time_or_is_above_the_last_one():
    clock = Clock(1_700_000_000.0)
    numbers = MessageNumbers(clock)
    first = numbers.take(BLOCK)
    second = numbers.take(1)
    assert second >= first + BLOCK
    clock.now_s -= 60
    assert numbers.take(BLOCK) > second
    clock.now_s += 120
    assert numbers.take(BLOCK) == 1_700_000_060 << 32


def test_nodes_that_start_together_give_different_numbers():
    clock = Clock(1_700_000_000.0)
    nodes = [MessageNumbers(clock) for _ in range(3)]
    for place, numbers in enumerate(nodes):
        numbers.place = place
    given = [numbers.take(1000) + more for numbers in nodes for more in range(1000)]
    given += [numbers.take(BLOCK) + more for numbers in nodes for more in range(BLOCK)]
    assert len(set(given)) == len(given)


def test_a_node_whose_place_changes_begins_another_block():
    numbers = MessageNumbers(Clock(1_700_000_000.0))
    before = numbers.take(10)
    numbers.place = 2
    assert numbers.take(10) >= before + 2 * BLOCK
    numbers.place = 2
    assert numbers.take(1) % BLOCK == 10


def run(count):
    return [Message(ADDRESS, None, b"") for _ in range(count)]


def test_a_message_has_no_number_until_it_is_needed():
    messages = run(3)
    assert [message.number for message in messages] == [0, 0, 0]
    MessageNumbers(Clock(1.0)).identify(messages)
    first = messages[0].number
    assert [message.number for message in messages] == [first, first + 1, first + 2]


def test_an_identity_does_not_change():
    numbers, messages = MessageNumbers(Clock(1.0)), run(2)
    numbers.identify(messages)
    before = [message.number for message in messages]
    numbers.identify(messages)
    assert [message.number for message in messages] == before
