"""Dead letters are published in runs: what is equal for all of a run is done once."""

import logging
from contextlib import closing

import pytest

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.exchanges.fanout import Fanout
from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.runtime.log_limit import LINES_A_MINUTE
from leveret.storage.messages.message import Address, Message
from leveret.storage.metadata.metadata import SqliteMetadata
from tests.declaring import Declared
from tests.storage.reading import ready_entries
from tests.turns_by_hand import TurnsByHand


class CountingFanout(Fanout):
    """Counts how often a message or a run is routed."""

    routed = 0

    def route(self, routing_key, header):
        self.routed += 1
        return super().route(routing_key, header)


class DecidingFanout(CountingFanout):
    """Decides message by message."""

    routes_by_key = False


@pytest.fixture
def vhost(tmp_path):
    with closing(SqliteMetadata(tmp_path / "metadata.sqlite")) as metadata:
        yield Declared(metadata, turns=TurnsByHand()).vhost()


def queue(vhost, name, **arguments):
    table = {
        f"x-{key.replace('_', '-')}": ("S" if isinstance(of, str) else "I", of)
        for key, of in arguments.items()
    }
    return vhost.declare_queue(name, False, False, table, None)


def publish(target, *bodies, key="q", **properties):
    address = Address("", key, encode_address("", key))
    header = read_header(encode_properties(properties))
    messages = [Message(address, header, body) for body in bodies]
    target.publish(publication_of(messages))


def letters(target):
    return [entry.message for entry in ready_entries(target.backing)]


def dead_letter_exchange(vhost, table, *targets):
    """Have the exchange `dead` route by this table."""
    exchange = vhost.declare_exchange("dead", "fanout", False, False, False, {})
    exchange.type = table
    for target in targets:
        vhost.bind(exchange, target, "", {})
    return table


NUMBERS = [b"%d" % number for number in range(20)]


def test_messages_that_expire_together_are_routed_once(vhost):
    table = dead_letter_exchange(vhost, CountingFanout({}), queue(vhost, "a"), queue(vhost, "b"))
    publish(queue(vhost, "q", message_ttl=5, dead_letter_exchange="dead"), *NUMBERS)
    vhost.clock.advance(1)
    for name in "ab":
        assert [letter.body for letter in letters(vhost.queues[name])] == NUMBERS
    assert table.routed == 1


def test_an_exchange_that_decides_message_by_message_is_asked_for_each(vhost):
    table = dead_letter_exchange(vhost, DecidingFanout({}), queue(vhost, "a"))
    publish(queue(vhost, "q", message_ttl=5, dead_letter_exchange="dead"), *NUMBERS)
    vhost.clock.advance(1)
    assert [letter.body for letter in letters(vhost.queues["a"])] == NUMBERS
    assert table.routed >= len(NUMBERS)


def test_each_dead_letter_keeps_its_key_priority_and_order(vhost):
    dead_letter_exchange(vhost, CountingFanout({}), queue(vhost, "a", max_priority=5))
    source = queue(vhost, "q", message_ttl=5, dead_letter_exchange="dead")
    for number, (key, priority) in enumerate([("x", 1), ("x", 1), ("x", 4), ("y", 4), ("x", 1)]):
        publish(source, b"%d" % number, key=key, priority=priority)
    vhost.clock.advance(1)
    found = [(m.body, m.address.routing_key, m.header.priority) for m in letters(vhost.queues["a"])]
    assert found == [
        (b"2", "x", 4), (b"3", "y", 4), (b"0", "x", 1), (b"1", "x", 1), (b"4", "x", 1),
    ]  # fmt: skip


def test_those_that_would_go_in_a_cycle_are_dropped_and_the_others_published(vhost):
    """Messages that came from `first` expire in `q` beside others, whose letters go to `first`."""
    queue(vhost, "first", message_ttl=5, dead_letter_exchange="", dead_letter_routing_key="q")
    source = queue(
        vhost, "q", message_ttl=5, dead_letter_exchange="", dead_letter_routing_key="first"
    )
    publish(vhost.queues["first"], b"came", key="first")
    vhost.clock.advance(0.005)
    publish(source, b"fresh")
    vhost.clock.advance(0.005)
    assert [letter.body for letter in letters(vhost.queues["first"])] == [b"fresh"]
    assert letters(source) == []


def test_a_client_cannot_fill_the_log_with_messages_in_a_cycle(vhost, caplog):
    """Each message of a queue that dead-letters to itself is dropped, in a run of its own."""
    dead_letter_exchange(vhost, DecidingFanout({}), queue(vhost, "a"))
    source = queue(vhost, "q", message_ttl=5, dead_letter_exchange="dead")
    vhost.bind(vhost.exchanges["dead"], source, "", {})
    with caplog.at_level(logging.WARNING, "leveret.vhost"):
        for number in range(100):
            publish(source, b"%d" % number)
        vhost.clock.advance(1)
    dropped = [one for one in caplog.messages if "in a cycle and is dropped" in one]
    assert len(letters(vhost.queues["a"])) == 100
    assert len(dropped) == LINES_A_MINUTE


def test_letters_to_an_exchange_that_does_not_exist_are_noted_as_unroutable(vhost):
    publish(queue(vhost, "q", message_ttl=5, dead_letter_exchange="gone"), *NUMBERS)
    vhost.clock.advance(1)
    (count,) = vhost.unroutable.counts()
    assert (count.exchange, count.prefix, count.messages) == ("gone", "q", len(NUMBERS))
    run, place = next(vhost.unroutable.newest())
    assert run.messages[place].body == NUMBERS[-1]
