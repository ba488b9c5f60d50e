"""The dead letters of a quorum queue that this node leads: published, kept, settled, counted."""

import pytest

from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.events.taps import Taps
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.cluster.quorum.machine.commands import (
    Configure,
    DeadLetterStrategy,
    DelayedRetry,
    Options,
    Tick,
)
from leveret.cluster.quorum.queue_groups.dead_letters import LeaderDeadLetters
from leveret.storage.contract.backing_queue import BeingRead
from leveret.storage.messages.addresses import Addresses
from tests.declaring import Declared
from tests.storage.reading import ready_entries
from tests.turns_by_hand import TurnsByHand
from tests.unit.broker.queues.fakes import publish
from tests.unit.broker.vhost.test_virtual_host import exchange, queue
from tests.unit.cluster.quorum.group_of_one import Use

KEPT = Options(rejects_publishes=True, dead_letters=DeadLetterStrategy.AT_LEAST_ONCE)


class Leading:
    """A queue whose dead-letter exchange is `dlx`, led by the node of a virtual host.

    It is the `GroupMember` of its letters, too. reads: the callbacks of threads that read.
    """

    group, damage = 1, ""

    def __init__(self, options=KEPT):
        self.vhost = Declared(turns=TurnsByHand(), clock=VirtualClock()).vhost()
        self.use = Use(x_dead_letter_exchange="dlx")
        self.has_to_read, self.reads = False, []
        self.letters = LeaderDeadLetters(self.vhost, self.use.queue, self, Addresses())
        self.use.group.for_leader = self.letters.take
        self.use.group.propose(Configure(options))
        self.begin()

    def begin(self):
        """A leader begins with what the machine has."""
        self.letters.begin(self, self.use.group.machine.queue.kept_letters())
        self.settle()

    def bound(self, name, **arguments):
        """A queue that gets the letters."""
        target = queue(self.vhost, name, durable=True, **arguments)
        self.vhost.bind(self.vhost.exchanges["dlx"], target, "q", {})
        self.settle()
        return target

    def kill(self, *bodies):
        """Publish messages and reject them."""
        publish(self.use.queue, *bodies)
        for _ in bodies:
            got = self.use.asked(self.use.queue.get, True)
            self.use.queue.discard([got.entry])
            self.use.settle()
        self.settle()

    def settle(self):
        self.vhost.turns.run()

    @property
    def kept(self):
        return self.use.figures.letters

    # The `GroupMember`, and the `Groups`

    def read_entry(self, index):
        if self.has_to_read:
            raise BeingRead("an entry", self.reads.append)
        return self.use.group.entries[index]

    def propose_entries(self, entries):
        for entry in entries:
            self.use.group.propose_entry(entry)

    def wall_ms(self):
        return self.use.vhost.clock.now_ms()


class Traced(Taps):
    """A tracer of a queue's messages. lines: what it was told."""

    def __init__(self):
        self.lines = []

    def take_numbers(self, count):
        return 0

    def expired(self, queue, message):
        self.lines.append((message.body, "expired"))

    def dropped(self, queue, message, reason):
        self.lines.append((message.body, reason))

    def delayed(self, queue, message, until_ms):
        self.lines.append((message.body, "delayed", until_ms))


@pytest.mark.parametrize("strategy", [DeadLetterStrategy.DROP, DeadLetterStrategy.AT_MOST_ONCE])
def test_what_expires_or_is_dropped_is_traced(strategy):
    leading = Leading(Options(max_length=1, message_ttl_ms=1_000, dead_letters=strategy))
    leading.vhost.tracer = tracer = Traced()
    publish(leading.use.queue, b"1", b"2")
    leading.use.settle()
    leading.use.vhost.clock.advance(2)
    leading.use.group.propose(Tick())
    leading.settle()
    assert tracer.lines == [(b"1", "maxlen"), (b"2", "expired")]


def test_duplicates_are_traced():
    leading = Leading(Options(cache_size=9))
    leading.vhost.tracer = tracer = Traced()
    leading.use.queue.options = leading.use.queue.options._replace(deduplicates=True)
    header = read_header(encode_properties({"headers": {"x-deduplication-header": ("S", "a")}}))
    publish(leading.use.queue, b"1", b"2", header=header)
    leading.use.settle()
    leading.settle()
    assert tracer.lines == [(b"2", "duplicate")]


def test_messages_that_wait_for_their_retry_are_traced():
    leading = Leading(Options(delayed_retry=DelayedRetry.ALL, delayed_retry_min_ms=1_000))
    leading.vhost.tracer = tracer = Traced()
    publish(leading.use.queue, b"1")
    got = leading.use.asked(leading.use.queue.get, True)
    leading.use.queue.requeue([got.entry], is_failed=True)
    leading.use.settle()
    leading.settle()
    assert tracer.lines == [(b"1", "delayed", leading.use.figures.next_delayed_ms)]


@pytest.fixture
def leading():
    leading = Leading()
    exchange(leading.vhost, "dlx", durable=True)
    return leading


def bodies(of):
    return [entry.message.body for entry in ready_entries(of.backing)]


def test_letters_are_kept_until_a_target_has_them(leading):
    leading.kill(b"1", b"2")
    assert leading.kept == 2
    target = leading.bound("target")
    assert (bodies(target), leading.kept) == ([b"1", b"2"], 0)
    counts = leading.vhost.counts
    assert counts.kept == {("quorum", "rejected"): 2}
    assert counts.kept_confirmed["quorum"] == 2


def test_a_new_leader_publishes_what_is_left(leading):
    full = leading.bound("full", x_max_length=0, x_overflow="reject-publish")
    leading.kill(b"1", b"2")
    leading.letters.end()
    leading.vhost.delete_queue(full)
    target = leading.bound("target")
    assert (bodies(target), leading.kept) == ([], 2), "no worker of a former leader publishes"
    leading.begin()
    leading.kill(b"3")
    assert (bodies(target), leading.kept) == ([b"1", b"2", b"3"], 0)
    assert leading.vhost.counts.kept == {("quorum", "rejected"): 3}, "each is counted once"


def test_a_purge_leaves_letters_and_another_strategy_drops_them(leading, caplog):
    caplog.set_level("INFO")
    leading.kill(b"1", b"2")
    publish(leading.use.queue, b"3")
    assert (leading.use.asked(leading.use.queue.purge), leading.kept) == (1, 2)
    leading.use.group.propose(Configure(Options(dead_letters=DeadLetterStrategy.AT_MOST_ONCE)))
    assert leading.kept == 0
    assert "no longer retains dead letters: its 2 retained ones are dropped" in caplog.text
    assert bodies(leading.bound("target")) == []


def test_letters_wait_for_a_thread_that_reads_them(leading):
    target = leading.bound("target")
    leading.has_to_read = True
    leading.kill(b"1", b"2")
    assert (bodies(target), leading.kept, len(leading.reads)) == ([], 2, 1)
    leading.has_to_read = False
    leading.reads.pop()()
    leading.settle()
    assert (bodies(target), leading.kept) == ([b"1", b"2"], 0)


def test_without_confirms_letters_are_published_at_once_and_counted():
    leading = Leading(Options(dead_letters=DeadLetterStrategy.AT_MOST_ONCE))
    leading.kill(b"1")
    exchange(leading.vhost, "dlx", durable=True)
    target = leading.bound("target")
    leading.kill(b"2")
    assert (bodies(target), leading.kept) == ([b"2"], 0)
    leading.use.group.propose(Configure(Options()))
    leading.kill(b"3")
    counts = leading.vhost.counts
    assert counts.dead_lettered == {("quorum", "rejected"): 1}
    assert counts.discarded == {("quorum", "rejected"): 2}, "without exchange, and without strategy"
