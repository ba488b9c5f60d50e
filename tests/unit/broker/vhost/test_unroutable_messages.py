"""Unroutable messages are counted by exchange and key prefix, and the last ones are kept."""

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import read_header
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.broker.vhost.unroutable_messages import (
    BEGINNING_BYTES,
    BODIES_BYTES_MAX,
    COUNTS_MAX,
    EXCHANGES_MAX,
    MESSAGES_MAX,
    OTHERS,
    UnroutableMessages,
    prefix_of,
)
from leveret.storage.messages.message import Address, Message

HEADER = read_header(b"\0\0")


def message_to(exchange, key, body):
    return Message(Address(exchange, key, encode_address(exchange, key)), HEADER, body)


def noted(*runs):
    """A vhost's messages after runs of (exchange, routing key, bodies)."""
    unroutable = UnroutableMessages(VirtualClock())
    for exchange, key, bodies in runs:
        unroutable.note([message_to(exchange, key, body) for body in bodies], "ann", False)
    return unroutable


def counts_of(unroutable):
    return {(one.exchange, one.prefix): one.messages for one in unroutable.counts()}


def bodies_of(unroutable):
    return [bytes(run.messages[place].body) for run, place in unroutable.newest()]


def test_counts_are_by_exchange_and_the_first_word_of_the_key():
    unroutable = noted(
        ("orders", "eu.17.new", [b"a", b"b"]), ("orders", "eu.18.new", [b"c"]),
        ("orders", "us.1", [b"d"]), ("", "no-such-queue", [b"e"]),
    )  # fmt: skip
    assert counts_of(unroutable) == {
        ("orders", "eu."): 3, ("orders", "us."): 1, ("", "no-such-queue"): 1
    }  # fmt: skip


def test_a_prefix_is_cut_at_its_longest_length():
    assert prefix_of("a" * 200) == "a" * 64
    assert prefix_of("a" * 200 + ".b") == "a" * 64
    assert prefix_of("") == ""


def test_returned_messages_are_counted_and_marked():
    unroutable = UnroutableMessages(VirtualClock())
    unroutable.note([message_to("x", "k", b"1")], "ann", True)
    unroutable.note([message_to("x", "k", b"2")], "", False)
    (count,) = unroutable.counts()
    assert (count.messages, count.returned) == (2, 1)
    assert [(run.user, run.is_returned) for run, _ in unroutable.newest()] == [
        ("", False), ("ann", True)
    ]  # fmt: skip


def test_further_prefixes_are_counted_together():
    keys = [("x", f"key-{number}", [b""]) for number in range(COUNTS_MAX + 5)]
    counts = counts_of(noted(*keys))
    assert len(counts) == COUNTS_MAX + 1
    assert counts["x", OTHERS] == 5


def test_further_exchanges_are_counted_together():
    """Dead-letter exchanges that do not exist may have any names."""
    count = COUNTS_MAX + EXCHANGES_MAX
    counts = counts_of(noted(*[(f"x{number}", "k", [b""]) for number in range(count + 5)]))
    assert len(counts) == count + 1
    assert counts[OTHERS, OTHERS] == 5


def test_the_last_messages_are_kept_the_newest_first():
    unroutable = noted(*[("x", "k", [b"%d" % number]) for number in range(MESSAGES_MAX + 3)])
    bodies = bodies_of(unroutable)
    assert len(bodies) == MESSAGES_MAX
    assert (bodies[0], bodies[-1]) == (b"%d" % (MESSAGES_MAX + 2), b"3")


def test_a_run_of_very_many_messages_keeps_its_last_ones():
    unroutable = noted(("x", "k", [b"%d" % number for number in range(MESSAGES_MAX * 3)]))
    bodies = bodies_of(unroutable)
    assert len(bodies) == MESSAGES_MAX
    assert bodies[0] == b"%d" % (MESSAGES_MAX * 3 - 1)
    assert counts_of(unroutable) == {("x", "k"): MESSAGES_MAX * 3}


def test_large_bodies_are_shortened_and_their_sizes_known():
    unroutable = noted(("x", "k", [b"a" * (BODIES_BYTES_MAX + 1)]))
    ((run, place),) = unroutable.newest()
    assert len(run.messages[place].body) == BEGINNING_BYTES
    assert run.sizes[place] == BODIES_BYTES_MAX + 1


def test_old_bodies_make_room_for_new_ones():
    half = BODIES_BYTES_MAX // 2
    unroutable = noted(*[("x", "k", [bytes([number]) * half]) for number in range(5)])
    assert [body[0] for body in bodies_of(unroutable)] == [4, 3]


def test_a_deleted_exchange_has_no_counts():
    unroutable = noted(("x", "k", [b"a"]), ("y", "k", [b"b"]))
    unroutable.exchange_deleted("x")
    assert counts_of(unroutable) == {("y", "k"): 1}
    assert bodies_of(unroutable) == [b"b", b"a"]


def test_nothing_is_left_after_they_are_forgotten():
    unroutable = noted(("x", "k", [b"a"]))
    unroutable.forget()
    assert counts_of(unroutable) == {}
    assert bodies_of(unroutable) == []
