"""Messages of a replicated delayed message exchange, when their delays are over."""

import pytest

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.events.taps import Taps
from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.queues.contract.queue_factory import QueueFactory
from leveret.broker.queues.dead_letters.header import EXPIRED
from leveret.broker.queues.quorum_kind import QUORUM_QUEUE
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.broker.vhost.routing import publish
from leveret.storage.messages.message import Address, Message
from tests.declaring import Declared
from tests.storage.reading import ready_entries
from tests.turns_by_hand import TurnsByHand
from tests.unit.broker.queues.fakes import got
from tests.unit.broker.vhost.dead_letters.test_worker import KeepingQueue, later
from tests.unit.broker.vhost.test_virtual_host import exchange, queue

ARGUMENTS = {"x-delayed-type": ("S", "direct"), "x-delayed-queue-type": ("S", "quorum")}


class Traced(Taps):
    """A tracer. lines: what was published to which queues."""

    def __init__(self):
        self.lines = []

    def published(self, channel, messages, routing_keys, queues):
        self.lines.append((messages[0].body, list(routing_keys), [one.name for one in queues]))


@pytest.fixture
def vhost():
    vhost = Declared(turns=TurnsByHand(), clock=VirtualClock()).vhost()
    vhost.kinds.add(QueueFactory(QUORUM_QUEUE, KeepingQueue))
    return vhost


@pytest.fixture
def delaying(vhost):
    """The queue in which the messages of the exchange `later` wait."""
    exchange(vhost, "later", "x-delayed-message", durable=True, arguments=ARGUMENTS)
    return vhost.delaying_queues["amq.delayed-later"]


def message(body=b"body", **properties):
    properties = {"headers": {"x-delay": ("I", 5000)}, **properties}
    header = read_header(encode_properties(properties))
    return Message(Address("later", "k", encode_address("later", "k")), header, body)


def release(vhost, delaying, *messages):
    """The delays of messages are over."""
    for one in messages:
        delaying.die(one, EXPIRED)
    vhost.turns.run()


def bound(vhost, name, key="k", **arguments):
    target = queue(vhost, name, durable=True, **arguments)
    vhost.bind(vhost.exchanges["later"], target, key, {})
    return target


def entries(of):
    return list(ready_entries(of.backing))


def kept(delaying):
    return len(delaying.letters) + len(delaying.taken)


def test_a_message_waits_in_the_queue_of_its_exchange_with_its_delay_as_time_to_live(
    vhost, delaying
):
    target = bound(vhost, "target")
    late = vhost.exchanges["later"]
    publish(vhost, late, publication_of([message()]), ["k"])
    (entry,) = entries(delaying)
    assert (entries(target), entry.message.body, entry.expires_at_ms) == ([], b"body", 5001)


def test_it_is_published_as_it_was_with_a_negative_delay(vhost, delaying):
    target = bound(vhost, "target")
    vhost.tracer = tracer = Traced()
    release(vhost, delaying, message(expiration="700", message_id="m"))
    (entry,) = entries(target)
    headers = entry.message.header.headers
    assert headers == {"x-delay": ("I", -5000)}
    assert entry.message.header.properties["message_id"] == "m"
    assert (entry.message.address.exchange, entry.expires_at_ms) == ("later", 701)
    assert (kept(delaying), tracer.lines) == (0, [(b"body", ["k"], ["target"])])
    assert not any(vhost.counts.kept_confirmed.values())


def test_the_bindings_of_its_release_count(vhost, delaying):
    release(vhost, delaying, message(b"to none"))
    assert kept(delaying) == 0
    target, other = bound(vhost, "target"), bound(vhost, "other", "cc")
    release(vhost, delaying, message(headers={"x-delay": ("I", 1), "CC": ("A", [("S", "cc")])}))
    assert [len(entries(one)) for one in (target, other)] == [1, 1]


def test_it_waits_for_a_full_queue_and_messages_behind_it_go_on(vhost, delaying):
    full = bound(vhost, "full", x_max_length=1, x_overflow="reject-publish")
    other = bound(vhost, "other")
    release(vhost, delaying, message(b"1"), message(b"2"))
    assert [len(entries(one)) for one in (full, other)] == [1, 2]
    assert kept(delaying) == 1
    got(full, ack_required=False)
    later(vhost)
    assert [one.message.body for one in entries(full)] == [b"2"]
    assert (len(entries(other)), kept(delaying)) == (2, 0)


def test_the_queue_is_hidden_and_goes_with_its_exchange(vhost, delaying):
    assert "amq.delayed-later" not in vhost.queues
    vhost.delete_exchange(vhost.exchanges["later"])
    assert (vhost.delaying_queues, delaying.is_deleted) == ({}, True)
    assert vhost.counts.queues_created == vhost.counts.queues_deleted == 0


def test_the_queue_goes_with_an_exchange_that_loses_its_last_binding(vhost):
    late = exchange(vhost, "later", "x-delayed-message", True, True, ARGUMENTS)
    target = bound(vhost, "target")
    vhost.unbind(late, target, "k", {})
    assert (vhost.delaying_queues, "later" in vhost.exchanges) == ({}, False)
