"""The modulus hash exchange."""

from collections import Counter

from leveret.broker.amqp.content_header import read_header
from leveret.broker.exchanges.modulus_hash import ModulusHash

HEADER = read_header(b"\0\0")


def test_nothing_bound_matches_nothing() -> None:
    assert not ModulusHash({}).route("key", HEADER)


def test_each_key_has_one_destination_and_keeps_it() -> None:
    exchange = ModulusHash({})
    for destination in ("one", "two", "three"):
        exchange.bind(destination, "", {})
    for key in ("a", "b", "c"):
        (first,) = exchange.route(key, HEADER)
        assert list(exchange.route(key, HEADER)) == [first]


def test_keys_are_spread_over_the_bindings() -> None:
    exchange = ModulusHash({})
    exchange.bind("twice", "a", {})
    exchange.bind("twice", "b", {})
    exchange.bind("once", "", {})
    counted = Counter(tuple(exchange.route(str(number), HEADER)) for number in range(3_000))
    assert 1_900 < counted[("twice",)] < 2_100
    assert counted[("twice",)] + counted[("once",)] == 3_000


def test_an_unbound_queue_gets_nothing() -> None:
    exchange = ModulusHash({})
    exchange.bind("one", "", {})
    exchange.bind("two", "", {})
    exchange.unbind("one", "", {})
    assert {tuple(exchange.route(str(number), HEADER)) for number in range(50)} == {("two",)}
    exchange.unbind("two", "", {})
    assert not exchange.route("key", HEADER)


def test_only_the_first_key_decides() -> None:
    assert ModulusHash.routes_by_key
    assert not ModulusHash.uses_every_key
