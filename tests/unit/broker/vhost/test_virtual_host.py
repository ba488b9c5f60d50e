"""A virtual host: declarations and dead letters."""

from contextlib import closing

import pytest

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.errors import ConnectionFault
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.declarations.values import PutBinding, PutExchange, PutQueue
from leveret.broker.exchanges.local_random import LocalRandom
from leveret.broker.plugins.extensions import contribute, withdraw
from leveret.broker.queues.contract.placement import Placement
from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.vhost.routing import publish
from leveret.broker.vhost.virtual_host import PREDECLARED_EXCHANGES
from leveret.storage.messages.message import Address, Message
from leveret.storage.metadata.metadata import SqliteMetadata
from tests.declaring import Declared
from tests.routes import route
from tests.storage.reading import ready_entries
from tests.turns_by_hand import TurnsByHand
from tests.unit.broker.queues.fakes import got

PLAIN = read_header(b"\0\0")


class FakeHolder:
    """The connection of an exclusive queue."""

    name = "1.2.3.4:5 -> 6.7.8.9:5672"

    def __init__(self):
        self.forgotten, self.exclusive_queues = [], {}

    def forget_queue(self, name):
        self.forgotten.append(name)


@pytest.fixture
def metadata(tmp_path):
    with closing(SqliteMetadata(tmp_path / "metadata.sqlite")) as metadata:
        yield metadata


@pytest.fixture
def vhost(metadata):
    return Declared(metadata, turns=TurnsByHand()).vhost()


def kept(metadata):
    """What is on disk: exchanges, queues and bindings."""
    found = metadata.load()
    assert not found.damaged
    return {row[1:-1] for row in (*found.exchanges, *found.queues, *found.bindings)}


def exchange(vhost, name, kind="direct", auto_delete=False, durable=False, arguments=None):
    return vhost.declare_exchange(name, kind, durable, auto_delete, False, arguments or {})


def queue(vhost, name, durable=False, holder=None, **arguments):
    """Declare a queue; x_max_length=5 is its argument x-max-length."""
    letters = {int: "I", str: "S"}
    table = {key.replace("_", "-"): (letters[type(of)], of) for key, of in arguments.items()}
    return vhost.declare_queue(name, durable, False, table, holder)


def message(body=b"body", exchange_name="", key="key", header=PLAIN):
    address = Address(exchange_name, key, encode_address(exchange_name, key))
    return Message(address, header, body)


def routed(vhost, source, key):
    """The names of the queues that a message reaches."""
    return [found.name for found in route(source, [key], PLAIN).queues]


def ready(of):
    return [entry.message for entry in ready_entries(of.backing)]


def test_a_vhost_begins_with_its_own_exchanges(vhost, metadata):
    assert set(vhost.exchanges) == {"", *(name for name, _, _ in PREDECLARED_EXCHANGES)}
    assert vhost.exchanges["amq.rabbitmq.trace"].internal
    assert all(one.durable for one in vhost.exchanges.values())
    assert kept(metadata) == set()


def test_the_default_exchange_knows_every_queue_by_its_name(vhost):
    queue(vhost, "q")
    assert routed(vhost, vhost.exchanges[""], "q") == ["q"]
    assert routed(vhost, vhost.exchanges[""], "other") == []


def test_durable_things_are_kept_and_others_are_not(vhost, metadata):
    source, other = exchange(vhost, "e", durable=True), exchange(vhost, "passing")
    target, passing = queue(vhost, "q", durable=True), queue(vhost, "p")
    for one in (source, other):
        for end in (target, passing):
            vhost.bind(one, end, "k", {})
    exchange_row, queue_row = ("e", "direct", True, False, False), ("q", True, False, 1)
    assert kept(metadata) == {exchange_row, queue_row, ("e", "queue", "q", "k")}
    vhost.unbind(source, target, "k", {})
    assert kept(metadata) == {exchange_row, queue_row}
    vhost.delete_queue(target)
    assert kept(metadata) == {exchange_row}
    vhost.delete_exchange(source)
    assert kept(metadata) == set()


def test_binding_twice_is_binding_once(vhost, metadata):
    source, target = exchange(vhost, "e", durable=True), queue(vhost, "q", durable=True)
    vhost.bind(source, target, "k", {})
    generation, changes = vhost.generation, metadata.changes
    vhost.bind(source, target, "k", {})
    assert len(source.bindings) == len(target.bindings) == 1
    assert (vhost.generation, metadata.changes) == (generation, changes)
    vhost.unbind(source, target, "k", {})
    assert routed(vhost, source, "k") == []


def test_removing_a_missing_binding_does_nothing(vhost, metadata):
    source, target = exchange(vhost, "e", durable=True), queue(vhost, "q", durable=True)
    vhost.bind(source, target, "k", {})
    generation, changes = vhost.generation, metadata.changes
    vhost.unbind(source, target, "other", {})
    vhost.unbind(source, target, "k", {"a": ("I", 1)})
    assert routed(vhost, source, "k") == ["q"]
    assert (vhost.generation, metadata.changes) == (generation, changes)


def test_bindings_that_differ_in_arguments_are_two(vhost):
    source, target = exchange(vhost, "e"), queue(vhost, "q")
    vhost.bind(source, target, "k", {})
    vhost.bind(source, target, "k", {"a": ("I", 1)})
    assert len(source.bindings) == 2
    vhost.unbind(source, target, "k", {})
    assert routed(vhost, source, "k") == ["q"]


def test_an_exchange_of_no_known_type_is_not_declared(vhost):
    with pytest.raises(ConnectionFault):
        exchange(vhost, "e", "x-nothing")
    assert "e" not in vhost.exchanges


def test_the_generation_grows_with_every_change(vhost):
    generations = [vhost.generation]

    def grown():
        generations.append(vhost.generation)
        return generations[-1] > generations[-2]

    source, target = exchange(vhost, "e"), queue(vhost, "q")
    assert grown()
    for change in (
        lambda: vhost.bind(source, target, "k", {}),
        lambda: vhost.unbind(source, target, "k", {}),
        lambda: vhost.delete_queue(target),
        lambda: vhost.delete_exchange(source),
        lambda: queue(vhost, "another"),
        lambda: exchange(vhost, "another"),
    ):
        change()
        assert grown()


def test_a_deleted_queue_takes_its_bindings_along(vhost):
    source, target, other = exchange(vhost, "e"), queue(vhost, "q"), queue(vhost, "other")
    for key in ("a", "b"):
        vhost.bind(source, target, key, {})
    vhost.bind(source, other, "a", {})
    target.publish(publication_of([message(), message()]))
    vhost.delete_queue(target)
    assert "q" not in vhost.queues
    assert routed(vhost, source, "a") == ["other"]
    assert len(source.bindings) == 1
    assert target.is_deleted
    vhost.delete_queue(target)


def test_the_connection_of_an_exclusive_queue_forgets_it(vhost):
    holder = FakeHolder()
    vhost.delete_queue(queue(vhost, "mine", holder=holder))
    assert holder.forgotten == ["mine"]


def test_a_deleted_exchange_takes_bindings_at_both_its_sides_along(vhost):
    first, middle, target = exchange(vhost, "1"), exchange(vhost, "2"), queue(vhost, "q")
    vhost.bind(first, middle, "k", {})
    vhost.bind(middle, target, "k", {})
    assert routed(vhost, first, "k") == ["q"]
    vhost.delete_exchange(middle)
    assert not first.bindings
    assert not target.bindings
    assert routed(vhost, first, "k") == []


def test_an_auto_delete_exchange_goes_with_its_last_binding(vhost):
    source, one, two = exchange(vhost, "e", auto_delete=True), queue(vhost, "1"), queue(vhost, "2")
    vhost.bind(source, one, "k", {})
    vhost.bind(source, two, "k", {})
    vhost.unbind(source, one, "k", {})
    assert "e" in vhost.exchanges
    vhost.delete_queue(two)
    assert "e" not in vhost.exchanges


def test_being_bound_to_does_not_keep_an_auto_delete_exchange(vhost):
    source, middle = exchange(vhost, "source"), exchange(vhost, "e", auto_delete=True)
    vhost.bind(source, middle, "k", {})
    vhost.unbind(source, middle, "k", {})
    assert "e" in vhost.exchanges


def chain_of_auto_delete_exchanges(vhost, length):
    """Return a queue bound to the last of a chain of auto-delete exchanges."""
    target = end = queue(vhost, "end")
    for number in range(length):
        source = exchange(vhost, f"chain-{number}", "fanout", auto_delete=True)
        vhost.bind(source, target, "", {})
        target = source
    return end


def test_auto_delete_exchanges_go_one_after_the_other(vhost):
    end = chain_of_auto_delete_exchanges(vhost, 5)
    assert routed(vhost, vhost.exchanges["chain-4"], "k") == ["end"]
    vhost.delete_queue(end)
    assert not [name for name in vhost.exchanges if name.startswith("chain")]


def test_auto_delete_exchanges_in_a_circle(vhost):
    one, two = (exchange(vhost, name, auto_delete=True) for name in ("1", "2"))
    vhost.bind(one, two, "k", {})
    vhost.bind(two, one, "k", {})
    vhost.bind(one, one, "k", {})
    vhost.delete_exchange(one)
    assert not {"1", "2"} & set(vhost.exchanges)


def test_a_long_chain_of_auto_delete_exchanges_goes_too(vhost):
    end = chain_of_auto_delete_exchanges(vhost, 2000)
    vhost.turns.run()
    vhost.delete_queue(end)
    vhost.turns.run()
    assert not [name for name in vhost.exchanges if name.startswith("chain")]


def test_a_restored_vhost_routes_as_before(vhost):
    registry = vhost.registry
    registry.apply(PutExchange("/", "e", "direct", durable=True))
    registry.apply(PutBinding("/", "e", "e", "k"))
    assert not vhost.exchanges["e"].bindings
    registry.apply(PutQueue("/", "e", durable=True, storage_id=1))
    registry.apply(PutBinding("/", "e", "e", "k"))
    assert routed(vhost, vhost.exchanges["e"], "k") == ["e"]


# Dead letters


def died(source, *messages):
    """Publish messages to a queue, and reject them."""
    for one in messages:
        source.publish(publication_of([one]))
        source.discard([got(source)])


def test_a_dead_letter_goes_to_the_exchange_under_its_own_key(vhost):
    dlx, target = exchange(vhost, "dlx"), queue(vhost, "dead")
    vhost.bind(dlx, target, "key", {})
    died(queue(vhost, "q", x_dead_letter_exchange="dlx"), message())
    (letter,) = ready(target)
    assert (letter.address.exchange, letter.address.routing_key) == ("dlx", "key")
    assert letter.address.encoded == encode_address("dlx", "key")
    assert letter.header.headers["x-first-death-queue"] == ("S", "q")
    assert letter.body == b"body"


def test_a_dead_letter_may_get_another_key(vhost):
    source = queue(vhost, "q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    copies, target = queue(vhost, "copies"), queue(vhost, "dead")
    header = read_header(
        encode_properties({"headers": {"CC": ("A", [("S", "copies")])}, "expiration": "9"})
    )
    died(source, message(header=header))
    (letter,) = ready(target)
    assert ready(copies) == []
    assert "CC" not in letter.header.headers
    assert "expiration" not in letter.header.properties


def test_without_a_key_of_its_own_a_dead_letter_goes_to_its_cc_keys_too(vhost):
    copies, target = queue(vhost, "copies"), queue(vhost, "key")
    cc = {"headers": {"CC": ("A", [("S", "copies")])}}
    died(
        queue(vhost, "q", x_dead_letter_exchange=""),
        message(header=read_header(encode_properties(cc))),
    )
    assert len(ready(copies)) == len(ready(target)) == 1


def test_without_the_exchange_a_dead_letter_is_lost(vhost):
    source = queue(vhost, "q", x_dead_letter_exchange="not there")
    died(source, message())
    assert ready(source) == []


def test_a_rejected_message_may_come_back_for_ever(vhost):
    source = queue(vhost, "q", x_dead_letter_exchange="", x_dead_letter_routing_key="q")
    died(source, message())
    for _ in range(3):
        source.discard([got(source)])
    (letter,) = ready(source)
    ((_, death),) = letter.header.headers["x-death"][1]
    assert death["count"] == ("l", 4)


def test_a_message_that_comes_back_by_itself_is_dropped(vhost):
    source = queue(
        vhost, "q", x_message_ttl=10, x_dead_letter_exchange="", x_dead_letter_routing_key="q"
    )
    source.publish(publication_of([message()]))
    vhost.clock.advance(10)
    assert ready(source) == []


def test_the_time_of_a_death_is_the_clocks(vhost):
    target = queue(vhost, "dead")
    source = queue(
        vhost, "q", x_message_ttl=5000, x_dead_letter_exchange="", x_dead_letter_routing_key="dead"
    )
    started_s = vhost.clock.wall_time_s()
    source.publish(publication_of([message()]))
    vhost.clock.advance(5)
    (letter,) = ready(target)
    assert letter.header.headers["x-death"][1][0][1]["time"] == ("T", int(started_s + 5))


def chain_of_full_queues(vhost, length):
    """Declare full queues, each with the next one for dead letters; returns first and last."""
    for number in range(length):
        queue(
            vhost, f"q{number}", x_max_length=0, x_dead_letter_exchange="",
            x_dead_letter_routing_key=f"q{number + 1}",
        )  # fmt: skip
    return vhost.queues["q0"], queue(vhost, f"q{length}")


def test_a_message_may_die_in_many_queues_one_after_the_other(vhost):
    first, last = chain_of_full_queues(vhost, 50)
    first.publish(publication_of([message()]))
    vhost.turns.run()
    (letter,) = ready(last)
    deaths = [death["queue"][1] for _, death in letter.header.headers["x-death"][1]]
    assert deaths[0] == "q49"
    assert sorted(deaths) == sorted(f"q{number}" for number in range(50))


def test_a_chain_of_300_queues_is_no_chain_of_calls(vhost):
    first, last = chain_of_full_queues(vhost, 300)
    first.publish(publication_of([message()]))
    assert vhost.turns.woken
    vhost.turns.run()
    assert len(ready(last)) == 1


def test_many_dead_letters_keep_their_order(vhost):
    target = queue(vhost, "dead")
    source = queue(
        vhost, "q", x_message_ttl=5, x_dead_letter_exchange="", x_dead_letter_routing_key="dead"
    )
    bodies = [str(number).encode() for number in range(1500)]
    for body in bodies:
        source.publish(publication_of([message(body)]))
    vhost.clock.advance(1)
    vhost.turns.run()
    assert [letter.body for letter in ready(target)] == bodies


# Exchanges that store messages


def test_a_delayed_message_goes_on_when_its_delay_is_over(vhost):
    source = exchange(
        vhost, "late", "x-delayed-message", arguments={"x-delayed-type": ("S", "direct")}
    )
    target = queue(vhost, "q")
    vhost.bind(source, target, "key", {})
    header = read_header(encode_properties({"headers": {"x-delay": ("I", 500)}}))
    assert route(source, ["key"], header).delaying == [source]
    publish(vhost, source, publication_of([message(exchange_name="late", header=header)]), ["key"])
    vhost.clock.advance(0.499)
    assert ready(target) == []
    vhost.clock.advance(0.001)
    assert len(ready(target)) == 1


def test_a_delayed_message_is_lost_with_its_exchange(vhost):
    arguments = {"x-delayed-type": ("S", "direct")}
    source = exchange(vhost, "late", "x-delayed-message", arguments=arguments)
    header = read_header(encode_properties({"headers": {"x-delay": ("I", 500)}}))
    publish(vhost, source, publication_of([message(exchange_name="late", header=header)]), ["key"])
    vhost.delete_exchange(source)
    again = exchange(vhost, "late", "x-delayed-message", arguments=arguments)
    target = queue(vhost, "q")
    vhost.bind(again, target, "key", {})
    vhost.clock.advance(1)
    assert ready(target) == []


@pytest.fixture
def _local_random():
    """What nodes with `compat` 4.0 and later have."""
    contribute("leveret.exchange_types", LocalRandom.name, LocalRandom, "rabbit")
    yield
    withdraw("leveret.exchange_types", LocalRandom.name)


@pytest.mark.usefixtures("_local_random")
def test_an_exchange_may_ask_where_queues_live(vhost):
    source = exchange(vhost, "nearest", LocalRandom.name)
    for name, node in (("q", "a"), ("far", "b")):
        target = queue(vhost, name)
        vhost.bind(source, target, "", {})
        target.placement = Placement(node, 0)
    vhost.kinds.node = "a"
    assert routed(vhost, source, "") == ["q"]
    vhost.kinds.node = "c"
    assert routed(vhost, source, "") == []


def test_a_vhost_that_ends_closes_its_queues(vhost):
    target = queue(vhost, "q", x_expires=1000)
    vhost.close()
    assert vhost.is_deleted
    assert target.is_deleted
    vhost.clock.advance(10)
