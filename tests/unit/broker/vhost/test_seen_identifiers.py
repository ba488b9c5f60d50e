"""What an exchange of the type x-message-deduplication has seen."""

import pytest

from leveret.broker.amqp.content_header import header_with
from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.exchanges.message_deduplication import MessageDeduplication
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.deduplication.identifiers import FOREVER, KnownIdentifiers
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.broker.vhost.passing_messages import PassingMessage, SeenKey
from leveret.broker.vhost.seen_identifiers import (
    ExchangePlace,
    SeenIdentifiers,
    SeenPlaces,
)
from leveret.storage.messages.message import Message
from leveret.storage.queue.transient_queue import TransientQueue
from tests.turns_by_hand import TurnsByHand
from tests.unit.broker.queues.fakes import ADDRESS
from tests.unit.cluster.remote_queues.fakes import Publisher

PLACE = ExchangePlace("/", "x")


def header(identifier, ttl=None):
    """The header of a message. ttl: the field of its own time."""
    fields = {"x-deduplication-header": ("S", identifier)}
    return header_with(headers=fields if ttl is None else fields | {"x-cache-ttl": ttl})


class Exchange:
    """What one exchange has seen, with a backing queue in memory."""

    def __init__(self, size=10, ttl_ms=0, backing=None):
        self.clock = VirtualClock()
        self.backing = TransientQueue() if backing is None else backing
        known = KnownIdentifiers(size, ttl_ms)
        self.seen = SeenIdentifiers(PLACE, known, self.clock, SeenPlaces(), self.backing, 0)

    def takes(self, identifier, ttl=None, publisher=None):
        """Whether a message passes."""
        of_message = header(identifier, ttl)
        if self.seen.has_seen(of_message):
            return False
        passing = None if publisher is None else PassingMessage(publisher, 1)
        self.seen.passes(of_message, passing)
        if passing is not None:
            passing.is_given()
        return True

    def restored(self):
        """The same after a restart."""
        again = Exchange(self.seen.known.size, self.seen.known.ttl_ms, self.backing)
        again.clock.advance(self.clock.now_ms() / 1000)
        LongWork(TurnsByHand(), "restoring", again.seen.restoring()).start()
        assert again.seen.restored.is_given
        return again


def test_a_message_passes_once():
    exchange = Exchange()
    assert exchange.takes("a")
    assert not exchange.takes("a")
    assert exchange.takes("b")


def test_a_message_may_say_how_long_its_identifier_is_known():
    exchange = Exchange(ttl_ms=1000)
    assert exchange.takes("usual")
    assert exchange.takes("short", ("I", 10))
    assert exchange.takes("text", ("S", "5000"))
    assert exchange.takes("not at all", ("I", 0))
    exchange.clock.advance(0.9)
    takes = {one: exchange.takes(one) for one in ("usual", "short", "text", "not at all")}
    assert takes == {"usual": False, "short": True, "text": False, "not at all": True}
    exchange.clock.advance(0.2)
    assert exchange.takes("usual")
    assert not exchange.takes("text")


def test_it_is_the_same_after_a_restart():
    exchange = Exchange(size=3, ttl_ms=1000)
    for identifier in "abcd":
        assert exchange.takes(identifier)
    assert exchange.takes("short", ("I", 5))
    exchange.clock.advance(0.01)
    again = exchange.restored()
    assert [again.takes(identifier) for identifier in "dc"] == [False, False], "SI1"
    assert again.takes("short")


def test_entries_of_forgotten_identifiers_leave_the_backing_queue():
    exchange = Exchange(size=3, ttl_ms=1000)
    for number in range(100):
        exchange.takes(str(number))
    assert exchange.backing.ready_count == 3
    exchange.clock.advance(2)
    exchange.takes("new")
    exchange.takes("newer")
    assert exchange.backing.ready_count == 2


def test_identifiers_that_are_used_again_do_not_fill_the_disk():
    exchange = Exchange(size=3)
    for number in range(1000):
        exchange.takes(str(number % 7))
    assert exchange.backing.ready_count <= 6


def test_a_publisher_waits_until_its_identifier_is_on_disk():
    class Unsafe(TransientQueue):
        """A store whose sync is awaited."""

        def publish(self, run, expires_at_ms):
            super().publish(run, expires_at_ms)
            return True

        def when_safe(self, waiter, first, holder):
            self.waiting = (waiter, first, holder)

    exchange, publisher = Exchange(backing=Unsafe()), Publisher()
    exchange.takes("a", publisher=publisher)
    assert publisher.owed
    waiter, first, holder = exchange.backing.waiting
    waiter.confirm(first, holder)
    assert not publisher.owed


class Others:
    """Other nodes, which record what they are told."""

    def __init__(self):
        self.told, self.answer = [], Answer()

    def tell(self, place, seen):
        self.told.append(seen.key)
        return self.answer


@pytest.fixture
def passing():
    """An exchange, the first message of which a queue holds, and the publishers of two of it."""
    exchange = Exchange()
    exchange.seen._others = exchange.others = Others()
    exchange.first, exchange.again = Publisher(), Publisher()
    message = exchange.message = PassingMessage(exchange.first, 1)
    exchange.seen.passes(header("a"), message)
    message.hold(1, 1, "queue")
    message.is_given()
    repeated = Publication([Message(ADDRESS, header("a"), b"")], 0, None, exchange.again, 7)
    assert exchange.seen.has_seen(header("a"))
    exchange.seen.refused(repeated, header("a"))
    assert (exchange.first.owed, exchange.again.owed) == ({1: 1}, {7: 1})
    assert (exchange.others.told, exchange.backing.ready_count) == ([], 0)
    return exchange


def test_an_identifier_is_kept_and_told_when_its_message_is_safe(passing):
    passing.message.confirm(1, "queue")
    assert (passing.backing.ready_count, len(passing.others.told)) == (1, 1)
    assert (passing.first.confirmed, passing.again.confirmed) == ([], [])
    passing.others.answer.give(None)
    assert (passing.first.confirmed, passing.again.confirmed) == ([1], [7])
    assert passing.seen.has_seen(header("a"))


@pytest.mark.parametrize(
    "end",
    [
        lambda message: (message.refuse(1), message.confirm(1, "queue")),
        lambda message: message.holder_died("queue", is_settled=False),
    ],
)
def test_a_message_that_a_queue_has_refused_may_be_repeated(passing, end):
    end(passing.message)
    assert (passing.first.refused, passing.again.refused) == ([1], [7])
    assert not passing.first.owed
    assert not passing.seen.has_seen(header("a"))
    assert (passing.others.told, passing.backing.ready_count) == ([], 0)


def test_the_queue_of_a_message_may_be_deleted(passing):
    passing.message.holder_died("queue", is_settled=True)
    passing.others.answer.give(None)
    assert (passing.first.confirmed, passing.first.refused) == ([1], [])


def test_what_another_node_has_seen_is_known():
    exchange = Exchange()
    exchange.takes("a")
    one = Exchange()
    one.seen.saw_elsewhere([*exchange.seen.listed(), SeenKey(b"over", 0)])
    assert not one.takes("a")
    assert [one.until_ms for one in one.seen.listed()] == [FOREVER]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "Missing or invalid argument, 'x-cache-size' must be an integer greater than 0"),
        ({"x-cache-size": ("I", 0)}, "must be an integer greater than 0"),
        ({"x-cache-size": ("I", -1)}, "must be an integer greater than 0"),
        ({"x-cache-size": ("S", "many")}, "must be an integer greater than 0"),
        ({"x-cache-size": ("l", 1 << 40)}, "must be at most 10000000, and is 1099511627776"),
        ({"x-cache-ttl": ("I", 0)}, "'x-cache-ttl' must be an integer greater than 0"),
        ({"x-cache-ttl": ("F", {})}, "'x-cache-ttl' must be an integer greater than 0"),
        ({"x-cache-persistence": ("S", "tape")}, "must be either 'disk' or 'memory'"),
        ({"x-cache-persistence": ("t", True)}, "must be either 'disk' or 'memory'"),
    ],
)
def test_wrong_arguments_are_refused(arguments, problem):
    size = {} if not arguments or "x-cache-size" in arguments else {"x-cache-size": ("I", 5)}
    with pytest.raises(ChannelFault, match=problem) as refused:
        MessageDeduplication(size | arguments)
    assert refused.value.reply_code == 406


def test_numbers_may_be_text():
    declared = MessageDeduplication({"x-cache-size": ("S", "5"), "x-cache-ttl": ("S", "70")})
    assert (declared.size, declared.ttl_ms) == (5, 70)
