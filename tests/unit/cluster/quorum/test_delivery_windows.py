"""What a leader sends to consumers that do not read, and what becomes of the rest."""

import pytest

from leveret.broker.runtime.pending import Answer
from leveret.cluster.quorum.delivery_windows import WINDOW_BYTES
from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    Checkout,
    Enqueue,
    EnqueuedRun,
    Join,
    runs_of,
)
from leveret.cluster.quorum.machine.effects import Deliver
from leveret.cluster.quorum.queue_machines import QueueMachines
from tests.unit.broker.queues.fakes import publish
from tests.unit.cluster.quorum.group_of_one import LimitedConsumer, Use
from tests.unit.cluster.quorum.test_queue_machines import commands, encoded

MEGABYTE = 1024 * 1024
BODIES = [b"%02d" % number + b"x" * MEGABYTE for number in range(20)]


def numbers_of(effects):
    """The numbers of deliveries."""
    delivers = [effect for effect in effects if isinstance(effect, Deliver)]
    return [run.delivery + at for one in delivers for run in one.runs for at in range(run.count)]


class CountedUse(Use):
    """Counts the bytes of the messages that arrive. numbers: of their deliveries."""

    def __init__(self):
        super().__init__()
        self.numbers = []
        told = self.queue.told

        def count(session, effects, entries):
            for effect in effects:
                self.numbers += numbers_of([effect])
            told(session, effects, entries)

        self.group.client = type("Client", (), {
            "told": staticmethod(count), "leader_found": self.queue.leader_found,
            "leader_lost": self.queue.leader_lost,
        })  # fmt: skip

    @property
    def arrived_bytes(self):
        return len(self.numbers) * MEGABYTE


@pytest.fixture
def use():
    return CountedUse()


@pytest.fixture
def reader(use):
    """A consumer whose client does not read, of twenty messages of 1 MB."""
    consumer = use.consuming(LimitedConsumer(prefetch=100))
    consumer.credit = 0
    publish(use.queue, *BODIES)
    use.settle()
    return consumer


def read(use, consumer, count):
    consumer.credit = count
    use.queue.credit(consumer)
    use.settle()


def test_a_consumer_that_does_not_read_is_sent_a_window(use, reader):
    assert use.figures.unacked == 20, "the prefetch limit is in messages"
    assert 0 < use.arrived_bytes <= WINDOW_BYTES


def test_what_was_handed_over_makes_room_for_what_follows(use, reader):
    read(use, reader, 2)
    assert use.arrived_bytes <= WINDOW_BYTES + 2 * MEGABYTE
    while len(reader.entries) < 20:
        read(use, reader, 1)
        assert use.arrived_bytes <= WINDOW_BYTES + len(reader.entries) * MEGABYTE
    assert reader.bodies == BODIES
    assert use.numbers == list(range(1, 21)), "each was sent once"


def test_a_consumer_that_reads_gets_everything(use):
    consumer = use.consuming(LimitedConsumer(prefetch=100))
    publish(use.queue, *BODIES)
    use.settle()
    assert consumer.bodies == BODIES


def test_small_messages_that_follow_wait_for_the_large_ones(use, reader):
    publish(use.queue, b"small")
    use.settle()
    assert use.arrived_bytes <= WINDOW_BYTES
    read(use, reader, 21)
    assert reader.bodies == [*BODIES, b"small"]


def test_what_was_not_sent_goes_back_when_the_consumer_is_cancelled(use, reader):
    read(use, reader, 1)
    answer = Answer()
    use.queue.cancel(reader, answer=answer)
    use.settle()
    assert answer.is_given
    assert (use.figures.ready, use.figures.unacked) == (19, 1)
    other = use.consuming(LimitedConsumer())
    assert other.bodies == BODIES[1:]
    assert not any(entry.redelivered for entry in other.entries)


def test_what_was_not_sent_goes_back_with_the_channel(use, reader):
    use.queue.cancel(reader, channel_ended=True)
    use.settle()
    assert (use.figures.ready, use.figures.unacked) == (20, 0)


def test_a_new_leader_sends_a_window_again(use, reader):
    use.group.stop_leading()
    use.group.lead()
    use.settle()
    assert use.arrived_bytes <= 2 * WINDOW_BYTES
    read(use, reader, 20)
    assert reader.bodies == BODIES


def test_effects_that_waited_are_not_sent_a_second_time():
    machine = QueueMachines().new()
    commands(
        machine,
        Join(7, 1, 0, "a", 1),
        Checkout(7, 2, 0, "c", 100, 0, False, NO_LIMIT, b""),
        Enqueue(7, 3, 0, runs_of([EnqueuedRun(10, MEGABYTE, NO_LIMIT, 0)])),
    )
    sent = [effect for _, effect in machine.take_effects()]
    publish = Enqueue(7, 4, 0, runs_of([EnqueuedRun(1, 1, NO_LIMIT, 0)]))
    machine.apply(4, machine.entry(encoded(publish), 5), True)
    for _ in range(10):
        sent += machine.took(7, 2, MEGABYTE)
    sent += [effect for _, effect in machine.take_effects()]
    assert numbers_of(sent) == list(range(1, 12))
