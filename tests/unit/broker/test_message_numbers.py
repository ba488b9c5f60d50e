"""Message numbers: unique for all time, given once, and only when somebody needs them."""

from leveret.broker.message_numbers import MessageNumbers
from leveret.storage.message import Message


def test_numbers_follow_each_other_and_no_restart_gives_one_out_twice():
    numbers = MessageNumbers(1_700_000_000.0)
    first = numbers.take(3)
    assert numbers.take(1) == first + 3
    assert first == 1_700_000_000 << 32
    assert MessageNumbers(1_700_000_000.001).take(1) > first + 4_000_000
    assert numbers.next < 1 << 63


def run(count):
    return [Message(None, None, b"") for _ in range(count)]


def test_a_message_has_no_number_until_somebody_needs_it():
    messages = run(3)
    assert [message.number for message in messages] == [0, 0, 0]
    MessageNumbers(1.0).identify(messages)
    first = messages[0].number
    assert [message.number for message in messages] == [first, first + 1, first + 2]


def test_an_identity_does_not_change():
    numbers, messages = MessageNumbers(1.0), run(2)
    numbers.identify(messages)
    before = [message.number for message in messages]
    numbers.identify(messages)
    assert [message.number for message in messages] == before
