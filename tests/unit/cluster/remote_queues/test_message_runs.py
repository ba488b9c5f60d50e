"""Runs of messages between nodes: what is written is read back, and damage is refused."""

import random

import pytest

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import Form, make_header, read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.cluster.remote_queues.message_runs import (
    COPIED_BYTES_MAX,
    RunError,
    RunReader,
    RunWriter,
)
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Address, Entry, Message

START = b"the start of the frame"
NOW_MS = 1000
ADDRESS = Address("x", "key", encode_address("x", "key"))
OTHER = Address("", "q", encode_address("", "q"))
PLAIN = read_header(b"\0\0")
RICH = read_header(
    encode_properties({"content_type": "text", "headers": {"a": ("S", "b")}, "delivery_mode": 2})
)

FORM = Form("mqtt", b"\x00\xffproperties")


def written(*messages):
    return b"".join(RunWriter(START).publish(list(messages)))


def read(data, count):
    return RunReader(data, len(START), Addresses()).messages(count)


def facts(message):
    header = message.header
    return (
        message.address.encoded, header.raw, header.stored, header.kind, list(header.bcc_keys),
        header.is_kept, header.form, message.body, message.number,
    )  # fmt: skip


def test_messages_are_read_back():
    messages = [
        Message(ADDRESS, RICH, b"one"),
        Message(ADDRESS, RICH, b""),
        Message(OTHER, PLAIN, b"x" * COPIED_BYTES_MAX, None, 77),
        Message(OTHER, RICH.as_persistent(), b"y" * (COPIED_BYTES_MAX + 1), None, 78),
        Message(ADDRESS, make_header(RICH.properties, ["hidden"]), b"copy"),
        Message(ADDRESS, make_header(RICH.properties, ["hidden"]).as_persistent(), b"kept"),
        Message(ADDRESS, make_header(RICH.properties, form=FORM), b"formed"),
        Message(ADDRESS, make_header({}, ["hidden"], FORM).as_persistent(), b"all"),
    ]
    again = read(written(*messages), len(messages))
    assert [facts(one) for one in again] == [facts(one) for one in messages]


def test_messages_that_are_passed_over_leave_what_later_ones_refer_to():
    messages = [
        Message(ADDRESS, RICH, b"one"),
        Message(ADDRESS, RICH, b"two", None, 7),
        Message(OTHER, RICH, b"x" * COPIED_BYTES_MAX),
        Message(OTHER, make_header(RICH.properties, form=FORM), b"formed"),
        Message(OTHER, PLAIN, b"y"),
        Message(OTHER, PLAIN, b"z"),
    ]
    data = written(*messages)
    for place, message in enumerate(messages):
        reader = RunReader(data, len(START), Addresses())
        reader.pass_over(place)
        (entry,) = reader.some_entries(1, 1, False)
        assert facts(entry.message) == facts(message)
    with pytest.raises(RunError):
        RunReader(data, len(START), Addresses()).pass_over(len(messages) + 1)


def test_messages_with_one_header_have_one_again():
    one, two, three = read(written(*[Message(ADDRESS, RICH, b"x")] * 3), 3)
    assert one.header is two.header is three.header
    assert one.address is three.address


def test_a_large_body_is_a_piece_of_its_own():
    body = b"x" * (COPIED_BYTES_MAX + 1)
    pieces = RunWriter(START).publish([Message(ADDRESS, PLAIN, body), Message(ADDRESS, PLAIN, b"")])
    assert any(piece is body for piece in pieces)


def test_a_consumer_does_not_get_the_keys_of_bcc():
    entry = Entry(Message(ADDRESS, make_header(RICH.properties, ["hidden"]), b""), 5, True)
    data = b"".join(RunWriter(START).deliver([entry], NOW_MS))
    assert b"hidden" not in data
    (again,) = RunReader(data, len(START), Addresses()).entries(1, 1000)
    assert (again.position, again.redelivered, again.message.header.raw) == (1000, True, RICH.raw)


def test_a_consumer_gets_the_form_of_another_protocol():
    entry = Entry(Message(ADDRESS, make_header(RICH.properties, form=FORM), b""), 5)
    data = b"".join(RunWriter(START).deliver([entry], NOW_MS))
    (again,) = RunReader(data, len(START), Addresses()).entries(1, 1000)
    assert facts(again.message) == facts(entry.message)


def test_deliveries_have_positions_that_count_up():
    entries = [Entry(Message(ADDRESS, PLAIN, b"x"), 1), Entry(Message(ADDRESS, PLAIN, b"y"), 9)]
    data = b"".join(RunWriter(START).deliver(entries, NOW_MS))
    again = RunReader(data, len(START), Addresses()).entries(2, 40)
    assert [(one.position, one.message.body) for one in again] == [(40, b"x"), (41, b"y")]


def test_deliveries_expire_by_the_clock_of_their_node():
    entries = [Entry(Message(ADDRESS, PLAIN, b""), 1, False, at) for at in (1250, 0, 900)]
    data = b"".join(RunWriter(START).deliver(entries, NOW_MS))
    again = RunReader(data, len(START), Addresses()).entries(3, 40, 7000)
    assert [one.expires_at_ms for one in again] == [7250, 0, 7001]


def test_a_node_that_does_not_take_the_time_gets_none():
    entry = Entry(Message(ADDRESS, PLAIN, b""), 1, False, 1250)
    (again,) = RunReader(
        b"".join(RunWriter(START).deliver([entry], 0)), len(START), Addresses()
    ).entries(1, 40, 7000)
    assert again.expires_at_ms == 0


def test_more_or_fewer_messages_than_there_are():
    data = written(Message(ADDRESS, RICH, b"one"), Message(ADDRESS, RICH, b"two"))
    for count in (0, 1, 3, 1 << 40):
        with pytest.raises(RunError):
            read(data, count)


@pytest.mark.parametrize("seed", range(20))
def test_damaged_runs_are_refused_or_are_other_messages(seed):
    """Never another error, whatever the bytes are."""
    chance = random.Random(seed)
    messages = [Message(ADDRESS, RICH, b"one"), Message(OTHER, PLAIN, b"two", None, 3)]
    whole = bytearray(written(*messages))
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 5))):
            data[chance.randrange(len(START), len(data))] = chance.choice((0, 1, 255, 127, 128, 64))
        del data[chance.randrange(len(START), len(data) + 1) :]
        try:
            assert len(read(bytes(data), 2)) == 2
        except RunError:
            continue
