"""The random exchange, with choices made by the test."""

from collections.abc import Sequence

from leveret.broker.amqp.content_header import read_header
from leveret.broker.exchanges.exchange_type import Destination
from leveret.broker.exchanges.random_choice import RandomChoice

HEADER = read_header(b"\0\0")


def last(destinations: Sequence[Destination]) -> Destination:
    return destinations[-1]


def test_nothing_bound_matches_nothing() -> None:
    assert not RandomChoice({}).route("key", HEADER)


def test_the_lot_decides_among_the_bindings() -> None:
    exchange = RandomChoice({}, choose=last)
    exchange.bind("one", "", {})
    exchange.bind("two", "", {})
    assert list(exchange.route("key", HEADER)) == ["two"]


def test_each_binding_is_a_ticket() -> None:
    seen: list[Destination] = []

    def note_tickets(destinations: Sequence[Destination]) -> Destination:
        seen.extend(destinations)
        return destinations[0]

    exchange = RandomChoice({}, choose=note_tickets)
    exchange.bind("one", "a", {})
    exchange.bind("one", "b", {})
    exchange.bind("two", "", {})
    exchange.unbind("one", "a", {})
    exchange.bind("two", "more", {})
    exchange.route("key", HEADER)
    assert seen == ["one", "two", "two"]


def test_left_to_itself_it_draws_one_of_those_bound() -> None:
    exchange = RandomChoice({})
    exchange.bind("one", "", {})
    exchange.bind("two", "", {})
    (drawn,) = exchange.route("key", HEADER)
    assert drawn in ("one", "two")


def test_the_key_does_not_decide() -> None:
    assert not RandomChoice.routes_by_key
    assert not RandomChoice.uses_every_key
