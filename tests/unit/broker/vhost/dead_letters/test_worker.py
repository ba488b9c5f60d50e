"""Dead-lettering at least once: when a letter is published, tried again, settled and counted."""

from collections import deque

import pytest

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.declarations.values import Policy, PutPolicy
from leveret.broker.policies.parameters import POLICY
from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.queues.contract.queue_factory import QueueFactory
from leveret.broker.queues.contract.retained_dead_letters import RetainedDeadLetter
from leveret.broker.queues.dead_letters.header import DELIVERY_LIMIT, EXPIRED, REJECTED
from leveret.broker.queues.quorum_kind import QUORUM_QUEUE
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.broker.vhost.dead_letters.worker import REASONS_MAX
from leveret.storage.messages.message import Address, Entry, Message
from leveret.storage.queue.transient_queue import TransientQueue
from tests.declaring import Declared
from tests.storage.reading import ready_entries
from tests.turns_by_hand import TurnsByHand
from tests.unit.broker.queues.fakes import got
from tests.unit.broker.vhost.test_virtual_host import exchange, queue

HEADER = read_header(encode_properties({"headers": {"own": ("I", 1)}}))
RETRY_S = 181


class KeepingQueue:
    """A queue that keeps its dead letters in memory: a `DeadLetterSource`.

    All else is done by a classic queue, which interpreted classes cannot inherit from.
    """

    kind = QUORUM_QUEUE

    def __init__(self, owner, specification):
        self._queue = ClassicQueue(owner, specification)
        self.letters, self.taken = deque(), set()
        self.worker = owner.make_dead_letter_worker(self, self)

    def __getattr__(self, name):
        return getattr(self._queue, name)

    def die(self, message, reason):
        entry = Entry(message, len(self.letters), False, 0)
        self.letters.append(RetainedDeadLetter(entry, message, reason))
        self.worker.wake()

    def apply(self, options):
        self._queue.apply(options)
        self.worker.look_again()

    @property
    def has_ready(self):
        return bool(self.letters)

    def take(self):
        if not self.letters:
            return None
        letter = self.letters.popleft()
        self.taken.add(id(letter))
        return letter

    def settle(self, letter):
        self.taken.remove(id(letter))


@pytest.fixture
def declared():
    return Declared(turns=TurnsByHand(), clock=VirtualClock())


@pytest.fixture
def vhost(declared):
    vhost = declared.vhost()
    vhost.kinds.add(QueueFactory(QUORUM_QUEUE, KeepingQueue))
    return vhost


def source(vhost, name="source", exchange_name="dlx", **arguments):
    """A quorum queue that keeps its dead letters."""
    named = {
        "x_queue_type": "quorum", "x_dead_letter_exchange": exchange_name,
        "x_dead_letter_strategy": "at-least-once", "x_overflow": "reject-publish", **arguments,
    }  # fmt: skip
    return queue(vhost, name, durable=True, **named)


def publish(vhost, to, *bodies, publisher=None, ttl_ms=None, header=HEADER):
    for number, body in enumerate(bodies, 1):
        to.publish(publication_of([message_to(to.name, body, header)], ttl_ms, publisher, number))
    vhost.turns.run()


def message_to(name, body, header=HEADER):
    return Message(Address("", name, encode_address("", name)), header, body)


def kill(vhost, of, *bodies, header=HEADER, reason=REJECTED):
    """Messages die."""
    for body in bodies:
        of.die(message_to(of.name, body, header), reason)
    vhost.turns.run()


def bodies(of):
    return [entry.message.body for entry in ready_entries(of.backing)]


def dlx(vhost, of):
    """The letters that a queue keeps, and how many were confirmed."""
    return len(of.letters) + len(of.taken), vhost.counts.kept_confirmed["quorum"]


def later(vhost, seconds=RETRY_S):
    vhost.clock.advance(seconds)
    vhost.turns.run()


def bound(vhost, name, to, key="source", **arguments):
    target = queue(vhost, name, durable=True, **arguments)
    vhost.bind(to, target, key, {})
    return target


def put_policy(declared, definition):
    """A policy for the source."""
    policy = Policy("/", "p", "^source$", "queues", definition, 0)
    declared.put(PutPolicy(POLICY, policy))


def died_in(names):
    """The header of a message that says so itself of these queues."""
    deaths = [("F", {"queue": ("S", name), "reason": ("S", EXPIRED)}) for name in names]
    return read_header(encode_properties({"headers": {"x-death": ("A", deaths)}}))


class SlowBacking(TransientQueue):
    """A backing queue on a disk that has what was published when the test says so."""

    def __init__(self):
        super().__init__()
        self.waiting = []

    def publish(self, run, expires_at_ms):
        super().publish(run, expires_at_ms)
        return True

    def when_safe(self, waiter, first, holder):
        self.waiting.append(lambda: waiter.confirm(first, holder))

    def sync(self):
        waiting, self.waiting = self.waiting, []
        for confirm in waiting:
            confirm()


class AwayQueue:
    """A queue on a node that is down, or has what was published in memory. held: its bodies."""

    is_exchange = is_deleted = False
    name = "away"

    def __init__(self):
        self.is_down = True
        self.bindings = {}
        self.held = []

    def publish(self, publication):
        self._publisher = publication.publisher
        self._publisher.hold(0, 1, self)
        self.held.append(publication.messages[0].body)

    def lose(self):
        self.held.clear()
        self._publisher.holder_died(self, is_settled=False)

    def confirm(self):
        self._publisher.confirm(0, self)


def slow(of):
    """The backing queue of a queue that confirms nothing before its `sync`."""
    of.backing = SlowBacking()
    return of.backing


class TestRouting:
    def test_a_letter_waits_until_a_queue_is_bound(self, vhost):
        dead = exchange(vhost, "dlx", durable=True)
        of = source(vhost)
        kill(vhost, of, b"a", b"bc")
        assert dlx(vhost, of) == (2, 0)
        target = bound(vhost, "target", dead)
        vhost.turns.run()
        assert (bodies(target), dlx(vhost, of)) == ([b"a", b"bc"], (0, 2))

    def test_it_waits_for_its_exchange(self, vhost, caplog):
        of = source(vhost)
        kill(vhost, of, b"a", b"b")
        assert dlx(vhost, of) == (2, 0)
        assert caplog.text.count("its dead-letter exchange does not exist") == 1
        target = bound(vhost, "target", exchange(vhost, "dlx", durable=True))
        vhost.turns.run()
        assert (bodies(target), dlx(vhost, of)) == ([b"a", b"b"], (0, 2))

    def test_it_goes_by_the_default_exchange_when_the_queue_is_declared(self, vhost):
        of = source(vhost, exchange_name="", x_dead_letter_routing_key="target")
        kill(vhost, of, b"a")
        target = queue(vhost, "target")
        vhost.turns.run()
        assert (bodies(target), dlx(vhost, of)) == ([b"a"], (0, 1))

    def test_the_log_has_a_limited_number_of_reasons_until_settings_change(
        self, declared, vhost, caplog
    ):
        dead = exchange(vhost, "dlx", "fanout", durable=True)
        of = source(vhost)
        names = [f"passed {number}" for number in range(REASONS_MAX + 5)]
        for name in names:
            bound(vhost, name, dead)
        kill(vhost, of, b"a", header=died_in(names), reason=EXPIRED)
        assert caplog.text.count("in a cycle") == REASONS_MAX
        assert caplog.text.count("(further reasons are not logged)") == 1
        later(vhost)
        assert caplog.text.count("in a cycle") == REASONS_MAX
        caplog.clear()
        put_policy(declared, {"dead-letter-routing-key": "another"})
        vhost.turns.run()
        assert caplog.text.count("in a cycle") == REASONS_MAX

    def test_it_waits_while_it_would_go_in_a_cycle(self, declared, vhost):
        of = source(vhost, exchange_name="")
        kill(vhost, of, b"a", reason=EXPIRED)
        assert (bodies(of), dlx(vhost, of)) == ([], (1, 0))
        target = queue(vhost, "target")
        put_policy(declared, {"dead-letter-routing-key": "target"})
        vhost.turns.run()
        assert (bodies(target), dlx(vhost, of)) == ([b"a"], (0, 1))

    def test_what_a_client_rejects_may_come_back(self, vhost):
        of = source(vhost, exchange_name="")
        kill(vhost, of, b"a")
        assert (bodies(of), dlx(vhost, of)) == ([b"a"], (0, 1))

    def test_the_letter_says_how_the_message_died(self, vhost):
        target = queue(vhost, "target")
        of = source(vhost, exchange_name="", x_dead_letter_routing_key="target")
        kill(vhost, of, b"a", reason=DELIVERY_LIMIT)
        (entry,) = ready_entries(target.backing)
        headers = entry.message.header.headers
        ((_, death),) = headers["x-death"][1]
        assert (death["reason"], death["queue"]) == (("S", "delivery_limit"), ("S", "source"))
        assert headers["own"] == ("I", 1)

    def test_an_exchange_may_delay_it(self, vhost):
        arguments = {"x-delayed-type": ("S", "fanout")}
        dead = exchange(vhost, "dlx", "x-delayed-message", durable=True, arguments=arguments)
        target = bound(vhost, "target", dead)
        of = source(vhost)
        delayed = read_header(encode_properties({"headers": {"x-delay": ("I", 5000)}}))
        kill(vhost, of, b"a", header=delayed)
        assert (bodies(target), dead.delayed.count, dlx(vhost, of)) == ([], 1, (0, 1))
        later(vhost, 6)
        assert bodies(target) == [b"a"]


class TestConfirms:
    def test_it_is_settled_when_all_targets_have_confirmed_it(self, vhost):
        dead = exchange(vhost, "dlx", durable=True)
        disk = slow(bound(vhost, "slow", dead))
        fast = bound(vhost, "fast", dead)
        of = source(vhost)
        kill(vhost, of, b"a")
        assert (bodies(fast), dlx(vhost, of)) == ([b"a"], (1, 0))
        later(vhost)
        assert (bodies(fast), len(disk.waiting)) == ([b"a"], 1), "who has it gets it once"
        disk.sync()
        assert dlx(vhost, of) == (0, 1)

    def test_a_target_that_refused_it_gets_it_after_the_retry_time(self, vhost):
        dead = exchange(vhost, "dlx", durable=True)
        full = bound(vhost, "full", dead, x_max_length=1, x_overflow="reject-publish")
        other = bound(vhost, "other", dead)
        publish(vhost, full, b"first")
        of = source(vhost)
        kill(vhost, of, b"a")
        assert (bodies(full), bodies(other), dlx(vhost, of)) == ([b"first"], [b"a"], (1, 0))
        later(vhost)
        assert dlx(vhost, of) == (1, 0)
        got(full, ack_required=False)
        later(vhost, 100)
        assert dlx(vhost, of) == (1, 0)
        later(vhost, 81)
        assert (bodies(full), bodies(other), dlx(vhost, of)) == ([b"a"], [b"a"], (0, 1))

    def test_a_target_that_is_no_longer_bound_need_not_take_it(self, vhost):
        dead = exchange(vhost, "dlx", durable=True)
        full = bound(vhost, "full", dead, x_max_length=0, x_overflow="reject-publish")
        bound(vhost, "other", dead)
        of = source(vhost)
        kill(vhost, of, b"a")
        assert dlx(vhost, of) == (1, 0)
        vhost.delete_queue(full)
        later(vhost)
        assert dlx(vhost, of) == (0, 1)

    def test_a_target_whose_node_is_down_gets_it_when_it_is_up(self, vhost):
        dead = exchange(vhost, "dlx", durable=True)
        other = bound(vhost, "other", dead)
        away = AwayQueue()
        dead.type.bind(away, "source", {})
        of = source(vhost)
        kill(vhost, of, b"a")
        assert (bodies(other), dlx(vhost, of)) == ([b"a"], (1, 0))
        away.is_down = False
        vhost.routes_changed()
        vhost.turns.run()
        assert (away.held, dlx(vhost, of)) == ([b"a"], (1, 0))
        away.is_down = True
        away.lose()
        vhost.turns.run()
        away.is_down = False
        vhost.routes_changed()
        vhost.turns.run()
        away.confirm()
        assert (bodies(other), dlx(vhost, of)) == ([b"a"], (0, 1)), "who has it gets it once"

    def test_as_many_letters_as_the_prefetch_limit_are_under_way(self, vhost):
        disk = slow(queue(vhost, "target", durable=True))
        of = source(vhost, exchange_name="", x_dead_letter_routing_key="target")
        kill(vhost, of, *[b"x"] * 40)
        assert len(disk.waiting) == 32
        disk.sync()
        vhost.turns.run()
        assert (len(disk.waiting), dlx(vhost, of)) == (8, (8, 32))
