"""The chunks that a leader makes of commands, and the state that they leave, over many leaders."""

import random

import pytest

from leveret.cluster.streams.machine.chunk_making import CHUNK_BYTES, ChunkMaker
from leveret.cluster.streams.machine.commands import CommandError, Join, Publish, StoreOffset
from leveret.cluster.streams.machine.filters import may_have
from leveret.cluster.streams.machine.stream_machine import (
    NAMES_MAX,
    StateError,
    StreamMachine,
    restore,
)
from leveret.storage.stream_log.chunks import (
    HEAD_BYTES,
    TRACKING,
    USER,
    check_chunk,
    entries_of,
    tracking_of,
)


def entries(*bodies):
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def publish(sender, number, *bodies, publisher=b"", sequences=(), values=()):
    count = len(bodies)
    return Publish(sender, number, publisher, sequences, values, count, count, (entries(*bodies),))


class Stream:
    """A stream with one leader at a time, which commits what it proposes.

    log: the chunks. bodies: of all messages in it.
    """

    def __init__(self):
        self.machine = StreamMachine()
        self.log = []
        self.term = 0
        self.lead()

    def lead(self):
        """Another leader begins, with the state that the chunks have left."""
        self.machine = restore(self.machine.snapshot())
        self.term += 1
        self.maker = ChunkMaker(self.machine, self.term)

    def take(self, *commands, commits=True):
        """Take commands; returns the heads of their chunks."""
        chunks = self.maker.make(commands, 1_000)
        if commits:
            self.commit(chunks)
        return [check_chunk(chunk) for chunk in chunks]

    def commit(self, chunks):
        for chunk in chunks:
            head = check_chunk(chunk)
            self.log.append(chunk)
            self.machine.apply(len(self.log), head.next_offset, tracking_of(chunk, head))

    @property
    def bodies(self):
        found = []
        for chunk in self.log:
            head = check_chunk(chunk)
            assert head.offset == len(found)
            data = entries_of(chunk, head)
            while data:
                size = int.from_bytes(data[:4], "big")
                found.append(data[4 : 4 + size])
                data = data[4 + size :]
        return found


JOINED = Join(1, 1, "one")


def test_the_commands_of_a_turn_are_one_chunk():
    stream = Stream()
    heads = stream.take(JOINED, publish(1, 2, b"a", b"b"), publish(1, 3, b"c"))
    assert [(head.kind, head.entry_count, head.message_count) for head in heads] == [(USER, 3, 3)]
    assert stream.bodies == [b"a", b"b", b"c"]
    assert stream.machine.senders[1].applied == 3
    assert (stream.machine.next_offset, stream.maker._next_offset) == (3, 3)


def test_what_has_no_messages_is_a_chunk_of_its_own_type():
    stream = Stream()
    heads = stream.take(JOINED, StoreOffset(1, 2, b"consumer", 7))
    assert [(head.kind, head.offset, head.message_count) for head in heads] == [(TRACKING, 0, 0)]
    assert stream.machine.offsets == {b"consumer": 7}


def test_a_lower_offset_replaces_a_higher_one():
    stream = Stream()
    stream.take(JOINED, StoreOffset(1, 2, b"c", 7), StoreOffset(1, 3, b"c", 3))
    assert stream.machine.offsets == {b"c": 3}


def test_large_publishes_have_chunks_of_their_own():
    stream = Stream()
    large = bytes(CHUNK_BYTES - 100)
    commands = [publish(1, number, large) for number in range(2, 5)]
    assert [head.message_count for head in stream.take(JOINED, *commands)] == [1, 1, 1]
    assert len(stream.take(publish(1, 5, bytes(3 * CHUNK_BYTES)))) == 1


def test_commands_are_taken_once_and_in_order():
    stream = Stream()
    stream.take(JOINED, publish(1, 2, b"a"))
    assert stream.take(publish(1, 2, b"again"), JOINED) == []
    assert stream.take(publish(1, 4, b"after a gap")) == []
    assert stream.take(publish(2, 1, b"of no client")) == []
    stream.take(publish(1, 3, b"b"))
    assert stream.bodies == [b"a", b"b"]


def test_a_later_client_takes_the_place_of_an_earlier_one_of_its_node():
    stream = Stream()
    stream.take(JOINED, Join(5, 1, "other"))
    stream.take(Join(2, 1, "one"))
    assert sorted(stream.machine.senders) == [2, 5]
    stream.lead()
    assert stream.take(JOINED, publish(1, 2, b"late")) == []


def test_a_named_publisher_is_deduplicated():
    stream = Stream()
    first = publish(1, 2, b"a", b"b", publisher=b"p", sequences=(1, 5))
    stream.take(JOINED, first)
    for number, leads in ((3, False), (4, True)):
        if leads:
            stream.lead()
        heads = stream.take(first._replace(number=number))
        assert [head.kind for head in heads] == [TRACKING]
        assert stream.machine.senders[1].applied == number
    stream.take(publish(1, 5, b"x", b"c", b"d", publisher=b"p", sequences=(5, 6, 9)))
    assert stream.bodies == [b"a", b"b", b"c", b"d"]
    assert stream.machine.sequences == {b"p": 9}


def test_a_batch_counts_its_messages():
    batch = b"\x80\0\3" + (15).to_bytes(4, "big") + (15).to_bytes(4, "big") + bytes(15)
    stream = Stream()
    command = Publish(1, 2, b"p", (1, 2), (), 2, 4, (batch + entries(b"x"),))
    (head,) = stream.take(JOINED, command)
    assert (head.entry_count, head.message_count, stream.machine.next_offset) == (2, 4, 4)
    (head,) = stream.take(command._replace(number=3, sequences=(2, 3)))
    assert (head.entry_count, head.message_count) == (1, 1)
    with pytest.raises(CommandError, match="fewer entries than sequence numbers"):
        stream.take(command._replace(number=4, sequences=(1, 2), entries=b""))


def test_the_filter_has_the_values_of_all_entries():
    stream = Stream()
    with_values = publish(1, 2, b"a", b"b", values=(b"red", b"blue"))
    (head,) = stream.take(JOINED, with_values, publish(1, 3, b"c"))
    bits = stream.log[-1][HEAD_BYTES : HEAD_BYTES + head.filter_bytes]
    assert may_have(bits, [b"red"], match_unfiltered=False)
    assert may_have(bits, [b"green"], match_unfiltered=True)
    (head,) = stream.take(publish(1, 4, b"d"))
    assert head.filter_bytes == 0


def test_the_time_of_chunks_does_not_go_back():
    maker = ChunkMaker(StreamMachine(), 1)
    chunks = maker.make([JOINED], 2_000) + maker.make([publish(1, 2, b"a")], 1_000)
    assert [check_chunk(chunk).time_ms for chunk in chunks] == [2_000, 2_000]


def test_the_oldest_of_too_many_names_is_forgotten():
    stream = Stream()
    stream.take(JOINED)
    for number in range(NAMES_MAX + 1):
        stream.take(StoreOffset(1, number + 2, b"%d" % number, number))
    assert len(stream.machine.offsets) == NAMES_MAX
    assert b"0" not in stream.machine.offsets


def test_a_state_that_cannot_be_read():
    with pytest.raises(StateError):
        restore(b"\x93\1\2\3")


@pytest.mark.parametrize("seed", range(200))
def test_each_command_is_in_the_log_once_over_many_leaders(seed):
    """Clients send what is not applied again; leaders end before they have committed everything."""
    chance = random.Random(seed)
    stream = Stream()
    sent = {1: [JOINED], 2: [Join(2, 1, "two")]}
    for step in range(60):
        client = chance.choice((1, 2))
        number = len(sent[client]) + 1
        body = b"%d of %d" % (number, client)
        named = {"publisher": b"p%d" % client, "sequences": (number,)} if step % 2 else {}
        sent[client].append(publish(client, number, body, **named))
        applied = {one: sender.applied for one, sender in stream.machine.senders.items()}
        again = chance.random() < 0.2
        commands = [
            command
            for one, of_client in sent.items()
            for command in of_client[0 if again else applied.get(one, 0) :]
        ]
        chunks = stream.maker.make(commands, step)
        if chance.random() < 0.3:
            stream.commit(chunks[: chance.randint(0, len(chunks))])
            stream.lead()
        else:
            stream.commit(chunks)
    for client in sent:
        bodies = [body for body in stream.bodies if body.endswith(b" of %d" % client)]
        assert bodies == [b"%d of %d" % (number, client) for number in range(2, 2 + len(bodies))]
