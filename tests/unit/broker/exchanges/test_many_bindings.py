"""A binding that is added or removed costs the same, however many an exchange has."""

import pytest

from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.exchanges import create_exchange_type
from tests.routes import looked_at, matched

HEADER = read_header(b"\0\0")
BINDINGS = 500
NAMES = ("direct", "fanout", "topic", "headers", "x-consistent-hash", "x-modulus-hash", "x-random")


class Destination:
    """Counts how often it is compared with another one."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Destination.compared += 1
        return self is other

    __hash__ = object.__hash__


@pytest.mark.parametrize("name", NAMES)
def test_no_change_looks_at_all_bindings(name: str) -> None:
    table = create_exchange_type(name, {})
    destinations = [Destination() for _ in range(BINDINGS)]
    Destination.compared = 0
    for destination in destinations:
        table.bind(destination, "1", {})
    assert matched(table, "1", HEADER)
    for destination in reversed(destinations):
        table.unbind(destination, "1", {})
    assert not matched(table, "1", HEADER)
    assert Destination.compared < BINDINGS


def test_random_chooses_in_proportion_to_bindings() -> None:
    chosen = []
    table = create_exchange_type("x-random", {})
    table._choose = lambda listed: chosen.append(list(listed)) or listed[0]
    for destination in ("a", "b", "a"):
        table.bind(destination, "", {})
    table.route("", HEADER)
    table.unbind("a", "", {})
    table.route("", HEADER)
    assert [sorted(listed) for listed in chosen] == [["a", "a", "b"], ["a", "b"]]


def test_the_buckets_of_a_consistent_hash_are_numbered_when_a_message_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = create_exchange_type("x-consistent-hash", {})
    numbered = []
    number = table._number_buckets  # type: ignore[attr-defined]
    monkeypatch.setattr(table, "_number_buckets", lambda: numbered.append(1) or number())
    for destination in map(str, range(BINDINGS)):
        table.bind(destination, "1", {})
    assert not numbered
    for _ in range(2):
        assert table.route("key", HEADER)
    assert len(numbered) == 1


def test_a_header_that_many_bindings_ask_for_does_not_make_them_all_be_compared() -> None:
    table = create_exchange_type("headers", {})
    arguments = [{"shared": ("I", 1), "own": ("I", number)} for number in range(BINDINGS)]
    for number, one in enumerate(arguments):
        table.bind(number, "", one)
    header = read_header(encode_properties({"headers": arguments[7]}))
    assert matched(table, "", header) == [7]
    assert looked_at(table, "", header) < 12
    for number, one in enumerate(arguments):
        table.unbind(number, "", one)
    assert matched(table, "", header) == []


def test_the_work_of_a_route_is_what_it_looks_at() -> None:
    headers, topic = create_exchange_type("headers", {}), create_exchange_type("topic", {})
    for number in range(BINDINGS):
        headers.bind(str(number), "", {"x-match": ("S", "any"), "a": ("I", 1)})
        topic.bind(str(number), f"#.{number}.never", {})
    header = read_header(encode_properties({"headers": {"a": ("I", 1)}}))
    assert looked_at(headers, "", header) >= BINDINGS
    assert 0 < looked_at(topic, "some.key", HEADER) < 10
