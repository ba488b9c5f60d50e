"""Publications, and their parts."""

from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.queues.contract.publication import (
    OWN_TTL,
    Publication,
    first_of,
    publication_of,
)
from leveret.storage.messages.message import Message
from tests.unit.broker.queues.fakes import ADDRESS, FakePublisher


def expiring(*times):
    """A publication of messages with these times to live, which are their bodies."""
    messages = [
        Message(ADDRESS, read_header(encode_properties({"expiration": text})), text.encode())
        for text in times
    ]
    return publication_of(messages, None, FakePublisher(), 11)


def bodies_of(publication):
    return [message.body for message in publication.messages]


def test_the_parts_of_a_publication_go_on_with_its_numbers():
    whole = expiring("5", "50", "500")
    first, rest = whole.split(2)
    assert (first.messages, first.body_bytes, first.first) == (whole.messages[:2], 3, 11)
    assert (rest.messages, rest.body_bytes, rest.first) == (whole.messages[2:], 3, 13)
    assert first.publisher is rest.publisher is whole.publisher


def test_messages_that_expire_are_published_together_with_those_next_to_them_that_live_as_long():
    parts = expiring("5", "5", "50", "5").by_time_to_live()
    assert [(bodies_of(part), part.ttl_ms, part.body_bytes, part.first) for part in parts] == [
        ([b"5", b"5"], 5, 2, 11), ([b"50"], 50, 2, 13), ([b"5"], 5, 1, 14),
    ]  # fmt: skip


def test_messages_that_expire_at_once_are_a_part_like_others():
    parts = expiring("0", "0", "1").by_time_to_live()
    assert [(bodies_of(part), part.ttl_ms) for part in parts] == [([b"0", b"0"], 0), ([b"1"], 1)]


def test_messages_with_one_time_to_live_are_a_publication_with_it():
    same, different = expiring("5", "5"), expiring("5", "50")
    assert same.has_one_time_to_live()
    assert same.ttl_ms == 5
    assert not different.has_one_time_to_live()
    assert different.ttl_ms == OWN_TTL


def test_when_messages_expire_that_are_published_now():
    times = expiring("7", "50", "500").expiry_times(1000, 60)
    assert times == [1007, 1050, 1060]
    assert first_of([*times, 1003, 1004]) == 1003


def test_a_publication_by_another_publisher_has_the_same_messages_and_numbers():
    whole, other = Publication([], 7, 5, FakePublisher(), 11), FakePublisher()
    same = whole.by(other)
    assert same.messages is whole.messages
    assert (same.body_bytes, same.ttl_ms, same.publisher, same.first) == (7, 5, other, 11)
