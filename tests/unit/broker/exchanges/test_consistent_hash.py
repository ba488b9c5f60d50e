"""The consistent hash exchange."""

from collections import Counter
from typing import Any

import pytest

from leveret.broker.amqp.content_header import ContentHeader, read_header
from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.amqp.field_table import Field, Table
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.exchanges.consistent_hash import ConsistentHash, jump_consistent_hash
from leveret.broker.exchanges.exchange_type import Destination

HEADER = read_header(b"\0\0")
KEYS = [f"key {number}" for number in range(6_000)]


def header_with(**properties: Any) -> ContentHeader:
    return read_header(encode_properties(properties))


def exchange_with(**weights: int) -> ConsistentHash:
    exchange = ConsistentHash({})
    for destination, weight in weights.items():
        exchange.bind(destination, str(weight), {})
    return exchange


def owners(exchange: ConsistentHash) -> dict[str, Destination]:
    """Return the destination of each key."""
    found = {}
    for key in KEYS:
        (found[key],) = exchange.route(key, HEADER)
    return found


def counts(exchange: ConsistentHash) -> Counter[Destination]:
    return Counter(owners(exchange).values())


def test_nothing_bound_matches_nothing() -> None:
    assert not ConsistentHash({}).route("key", HEADER)


def test_the_distribution_follows_the_weights() -> None:
    """Chi-square with 3 degrees of freedom stays below its value for p = 0.01."""
    counted = counts(exchange_with(a=1, b=1, c=2, d=2))
    expected = {"a": 1_000, "b": 1_000, "c": 2_000, "d": 2_000}
    assert sum((counted[name] - share) ** 2 / share for name, share in expected.items()) < 11.35


def test_a_key_keeps_its_destination() -> None:
    assert owners(exchange_with(a=1, b=2)) == owners(exchange_with(a=1, b=2))


def test_a_new_destination_takes_its_share_and_nothing_else_moves() -> None:
    exchange = exchange_with(a=2, b=2)
    before = owners(exchange)
    exchange.bind("c", "2", {})
    after = owners(exchange)
    moved = {key for key in KEYS if before[key] != after[key]}
    assert {after[key] for key in moved} == {"c"}
    assert len(moved) == pytest.approx(len(KEYS) / 3, rel=0.1)


def test_the_last_destination_gives_its_share_back() -> None:
    exchange = exchange_with(a=2, b=2, c=2)
    exchange.unbind("c", "2", {})
    assert owners(exchange) == owners(exchange_with(a=2, b=2))


def test_buckets_move_down_when_a_destination_before_them_goes() -> None:
    exchange = exchange_with(a=1, b=2, c=3)
    exchange.unbind("a", "1", {})
    assert owners(exchange) == owners(exchange_with(b=2, c=3))


def test_only_the_first_binding_of_a_destination_counts() -> None:
    exchange = exchange_with(a=1, b=1)
    exchange.bind("a", "50", {})
    assert owners(exchange) == owners(exchange_with(a=1, b=1))


def test_any_of_its_bindings_takes_a_destination_off_the_ring() -> None:
    """As in RabbitMQ, where the other binding stays in the table without effect."""
    exchange = exchange_with(a=1, b=1)
    exchange.bind("a", "3", {})
    exchange.unbind("a", "3", {})
    assert set(counts(exchange)) == {"b"}
    exchange.unbind("a", "1", {})
    assert set(counts(exchange)) == {"b"}
    exchange.bind("a", "2", {})
    assert owners(exchange) == owners(exchange_with(b=1, a=2))


def test_a_huge_weight_costs_nothing() -> None:
    exchange = exchange_with(a=1)
    exchange.bind("b", "9" * 255, {})
    assert list(exchange.route("key", HEADER)) == ["b"]


def test_jumps_stay_within_the_buckets() -> None:
    for buckets in (1, 2, 7, 1_000):
        assert all(0 <= jump_consistent_hash(key, buckets) < buckets for key in range(500))


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        ("0", "The binding key must be greater than 0"),
        ("-1", "The binding key must be greater than 0"),
        ("", "The binding key must be an integer: <<>>"),
        (" 5", 'The binding key must be an integer: <<" 5">>'),
        ("abc", 'The binding key must be an integer: <<"abc">>'),
        ("1.0", 'The binding key must be an integer: <<"1.0">>'),
    ],
)
def test_a_bad_weight_is_refused(weight: str, text: str) -> None:
    with pytest.raises(ChannelFault) as refusal:
        ConsistentHash({}).validate_binding(weight, {})
    assert refusal.value.reply_text == f"PRECONDITION_FAILED - {text}"


@pytest.mark.parametrize("weight", ["1", "+5", "007", "99"])
def test_a_good_weight_is_taken(weight: str) -> None:
    exchange = ConsistentHash({})
    exchange.validate_binding(weight, {})
    exchange.bind("queue", weight, {})
    assert list(exchange.route("key", HEADER)) == ["queue"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash-property": ("S", "app_id")}, "Unsupported property: app_id"),
        (
            {"hash-header": ("S", "h"), "hash-property": ("S", "app_id")},
            "hash-header and hash-property are mutually exclusive",
        ),
    ],
)
def test_bad_arguments_are_refused(arguments: Table, text: str) -> None:
    with pytest.raises(ChannelFault) as refusal:
        ConsistentHash(arguments)
    assert refusal.value.reply_text == f"PRECONDITION_FAILED - {text}"


@pytest.mark.parametrize("name", ["hash-header", "hash-property"])
def test_an_argument_of_another_type_closes_the_connection(name: str) -> None:
    with pytest.raises(ConnectionFault) as refusal:
        ConsistentHash({name: ("I", 1)})
    assert refusal.value.reply_code == 541


def spread(arguments: Table, headers: list[ContentHeader]) -> int:
    """Return over how many of eight destinations these are distributed, with varying keys."""
    exchange = ConsistentHash(arguments)
    for destination in range(8):
        exchange.bind(destination, "1", {})
    return len({tuple(exchange.route(str(n), header)) for n, header in enumerate(headers)})


def test_the_argument_hash_header_names_the_header_to_hash() -> None:
    arguments: Table = {"hash-header": ("S", "user")}
    users: list[Field] = [("I", number) for number in range(100)]
    assert spread(arguments, [header_with(headers={"user": user}) for user in users]) == 8
    assert spread(arguments, [header_with(headers={"user": users[0]})] * 100) == 1


def test_messages_without_the_header_share_a_destination() -> None:
    arguments: Table = {"hash-header": ("S", "user")}
    assert spread(arguments, [HEADER, header_with(headers={"other": ("I", 1)})] * 50) == 1


@pytest.mark.parametrize("name", ["message_id", "correlation_id", "timestamp"])
def test_the_argument_hash_property_names_the_property_to_hash(name: str) -> None:
    arguments: Table = {"hash-property": ("S", name)}
    values = [number if name == "timestamp" else str(number) for number in range(100)]
    assert spread(arguments, [header_with(**{name: value}) for value in values]) == 8
    assert spread(arguments, [header_with(**{name: values[0]})] * 100) == 1
    assert spread(arguments, [HEADER] * 100) == 1


def test_the_key_decides_only_if_it_is_hashed() -> None:
    assert ConsistentHash({}).routes_by_key
    assert not ConsistentHash({"hash-header": ("S", "h")}).routes_by_key
    assert not ConsistentHash({"hash-property": ("S", "message_id")}).routes_by_key
