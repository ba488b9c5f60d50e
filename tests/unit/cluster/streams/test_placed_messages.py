"""The offsets of traced messages: known if a chunk has just the commands of one client."""

from leveret.cluster.remote_queues.remote_hold import UntakenBytes
from leveret.cluster.replicated_queues.client.unapplied_hold import UnappliedHold
from leveret.cluster.streams.client.commands import JoinStream, PublishEntries
from leveret.cluster.streams.client.placed_messages import report_places
from leveret.cluster.streams.machine.effects import Applied


class Placed:
    """A tracer. found: offsets by the numbers of messages."""

    def __init__(self):
        self.found = {}

    def stream_changed(self, event):
        self.found |= {number: place for place, number in enumerate(event.numbers, event.offset)}


def publish(count, *traced):
    """A command with `count` messages. traced: pairs of a place and of the numbers from there."""
    command = PublishEntries(b"", UnappliedHold(UntakenBytes(lambda _: None)))
    command.message_count = count
    command.traced += traced
    return command


def places(applied, *commands):
    tracer = Placed()
    report_places(tracer, "s", applied, commands)
    return tracer.found


def test_messages_of_several_commands():
    commands = JoinStream("one"), publish(5, (0, [11, 12]), (3, [13])), publish(2, (1, [14]))
    assert places(Applied(1, 3, next_offset=107, messages=7), *commands) == {
        11: 100, 12: 101, 13: 103, 14: 106,
    }  # fmt: skip


def test_a_chunk_that_clients_share():
    assert places(Applied(1, 3, next_offset=107, messages=7), publish(5, (0, [11]))) == {}


def test_commands_that_were_stored_under_an_earlier_leader():
    assert places(Applied(1, 3), publish(5, (0, [11]))) == {}
