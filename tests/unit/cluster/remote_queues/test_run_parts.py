"""Parts of runs of messages: each is a run of its own."""

from itertools import combinations

import pytest

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import Form, make_header, read_header
from leveret.cluster.remote_queues.message_runs import RunError, RunReader, RunWriter
from leveret.cluster.remote_queues.run_parts import part_of_run
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Address, Message

START = b"the start"
ADDRESS = Address("x", "key", encode_address("x", "key"))
OTHER = Address("", "q", encode_address("", "q"))
PLAIN = read_header(b"\0\0")
BLIND = make_header({"content_type": "text"}, ["hidden"], Form("toy", b"form"))
MESSAGES = [
    Message(ADDRESS, PLAIN, b"1"),
    Message(ADDRESS, PLAIN, b""),
    Message(OTHER, PLAIN, b"3" * 40, None, 7),
    Message(OTHER, BLIND, b"4", None, 8),
    Message(OTHER, BLIND, b"5"),
    Message(ADDRESS, BLIND.as_persistent(), b"6"),
    Message(ADDRESS, PLAIN, b"7"),
]


def facts(messages):
    return [
        (one.address.encoded, one.header.raw, one.header.stored, one.header.bcc_keys,
         one.header.form, one.header.is_kept, one.body, one.number)
        for one in messages
    ]  # fmt: skip


@pytest.mark.parametrize("is_kept", [False, True])
def test_each_part_has_its_messages(is_kept):
    run = b"".join(RunWriter(START, is_kept).publish(MESSAGES))
    whole = RunReader(run, len(START), Addresses()).messages(len(MESSAGES))
    for first, end in combinations(range(len(MESSAGES) + 1), 2):
        part = part_of_run(run, len(START), first, end - first)
        read = RunReader(part, 0, Addresses()).messages(end - first)
        assert facts(read) == facts(whole[first:end])


def test_a_run_that_is_cut_off_is_an_error():
    run = b"".join(RunWriter(START).publish(MESSAGES))
    for size in range(len(START), len(run)):
        with pytest.raises(RunError):
            part_of_run(run[:size], len(START), 2, len(MESSAGES) - 2)


def test_a_record_that_refers_to_none_before_it_is_an_error():
    run = b"".join(RunWriter(START).publish(MESSAGES[:2]))
    second = len(part_of_run(run, len(START), 0, 1)) + len(START)
    with pytest.raises(RunError, match="refers to one before it"):
        part_of_run(run, second, 0, 1)
