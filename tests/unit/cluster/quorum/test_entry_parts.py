"""The parts of entries that clients on other nodes get."""

import pytest

from leveret.broker.amqp.content_header import header_with
from leveret.broker.queues.contract.publication import OWN_TTL, publication_of
from leveret.cluster.quorum.client.commands import PublishRuns
from leveret.cluster.quorum.entry_parts import WHOLE_BYTES_MAX, needed_parts
from leveret.cluster.quorum.machine.commands import (
    Enqueue,
    EnqueueTimed,
    decode_command,
    entry_of,
    messages_at,
)
from leveret.cluster.quorum.machine.effects import Applied, Deliver
from leveret.cluster.quorum.machine.own_times import times_of
from leveret.cluster.quorum.machine.runs import Run
from leveret.cluster.remote_queues.message_runs import RunReader
from leveret.cluster.remote_queues.remote_hold import UntakenBytes
from leveret.cluster.replicated_queues.client.sender_numbers import SenderNumbers
from leveret.cluster.replicated_queues.client.unapplied_hold import UnappliedHold
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Message
from tests.unit.broker.queues.fakes import ADDRESS, HEADER


def entry(*bodies):
    """An entry with messages, as a client sends it."""
    publish = PublishRuns(UnappliedHold(UntakenBytes(lambda is_behind: None)))
    publish.add(publication_of([Message(ADDRESS, HEADER, body) for body in bodies]))
    publish.number = 2
    return entry_of(publish.encode(SenderNumbers("a", 1).next_number(), 0), 5)


def bodies_of(entry, run):
    """The bodies of a delivered run."""
    reader = RunReader(entry, messages_at(entry), Addresses())
    reader.skip(run.place)
    return [one.message.body for one in reader.some_entries(run.count, 1, False)]


def deliver(*runs):
    return Deliver(
        7, 2, [Run(place + 1, count, index, place, 1, 4) for index, place, count in runs]
    )


LARGE = [b"%d" % number * 100 for number in range(200)]


def test_a_delivery_needs_its_part_of_a_large_entry():
    entries = {3: entry(*LARGE), 4: entry(b"small", b"other")}
    applied, delivered = Applied(7, 9), deliver((3, 50, 2), (4, 1, 1), (3, 60, 5))
    (delivered, told), parts = needed_parts([delivered, applied], entries)
    assert told is applied
    assert parts[4] is entries[4]
    assert len(parts[3]) < WHOLE_BYTES_MAX < len(entries[3])
    first, small, last = delivered.runs
    assert bodies_of(parts[3], first) == LARGE[50:52]
    assert bodies_of(parts[4], small) == [b"other"]
    assert bodies_of(parts[3], last) == LARGE[60:65]
    assert (first.position, last.count) == (51, 5)


def test_an_entry_that_is_needed_as_a_whole_is_sent_as_it_is():
    entries = {3: entry(*LARGE)}
    effects = [deliver((3, 0, 120)), deliver((3, 120, 80))]
    told, parts = needed_parts(effects, entries)
    assert told == effects
    assert parts[3] is entries[3]


def test_the_effects_of_the_machine_are_not_changed():
    delivered = deliver((3, 50, 2))
    needed_parts([delivered], {3: entry(*LARGE)})
    assert delivered.runs[0].place == 50


def test_an_entry_that_is_missing_is_an_error():
    with pytest.raises(KeyError):
        needed_parts([deliver((3, 0, 1))], {})


def published_with(*expirations, takes_times):
    """The command that publishes messages with these times to live."""
    publish = PublishRuns(UnappliedHold(UntakenBytes(lambda is_behind: None)))
    messages = [Message(ADDRESS, header_with(expiration=text), b"body") for text in expirations]
    publish.add(publication_of(messages[:1]))
    publish.add(publication_of(messages, OWN_TTL), takes_times)
    publish.number = 2
    return decode_command(publish.encode(1, 0))


def test_messages_with_times_of_their_own_are_in_runs_of_equal_ones():
    """A time to live is kept as one more than its milliseconds."""
    command = published_with("5", "5", "0", str(1 << 32), takes_times=False)
    assert type(command) is Enqueue
    assert command.runs == [1, 4, 0, 4, 2, 4, 6, 4, 1, 4, 1, 4, 1, 4, (1 << 32) - 1, 4]


def test_messages_with_times_of_their_own_are_one_run_if_all_nodes_take_that():
    command = published_with("5", "5", "3", str(1 << 32), takes_times=True)
    assert type(command) is EnqueueTimed
    assert command.runs == [1, 4, 0, 4, 4, 4, 4, 4]
    assert command.times == {1: times_of([5, 5, 3, (1 << 32) - 2])}


def test_equal_times_are_those_of_a_run():
    command = published_with("5", "5", takes_times=True)
    assert type(command) is Enqueue
    assert command.runs == [1, 4, 0, 4, 2, 4, 6, 4]
