"""The direct exchange."""

from leveret.broker.amqp.content_header import read_header
from leveret.broker.exchanges.direct import Direct

HEADER = read_header(b"\0\0")


def test_routes_to_the_destinations_bound_with_the_key() -> None:
    direct = Direct({})
    direct.bind("one", "red", {})
    direct.bind("two", "red", {})
    direct.bind("three", "blue", {})
    assert list(direct.route("red", HEADER)) == ["one", "two"]
    assert list(direct.route("blue", HEADER)) == ["three"]


def test_keys_are_equal_or_not_at_all() -> None:
    direct = Direct({})
    direct.bind("queue", "red", {})
    for other in ("", "Red", "red ", "red.*", "re"):
        assert not direct.route(other, HEADER)


def test_the_empty_key_is_a_key() -> None:
    direct = Direct({})
    direct.bind("queue", "", {})
    assert list(direct.route("", HEADER)) == ["queue"]


def test_a_destination_bound_with_two_keys_keeps_the_other_one() -> None:
    direct = Direct({})
    direct.bind("queue", "red", {})
    direct.bind("queue", "blue", {})
    direct.unbind("queue", "red", {})
    assert not direct.route("red", HEADER)
    assert list(direct.route("blue", HEADER)) == ["queue"]


def test_bindings_that_differ_in_arguments_alone_are_two() -> None:
    direct = Direct({})
    direct.bind("queue", "red", {})
    direct.bind("queue", "red", {"note": ("S", "another")})
    assert list(direct.route("red", HEADER)) == ["queue"]
    direct.unbind("queue", "red", {})
    assert list(direct.route("red", HEADER)) == ["queue"]
    direct.unbind("queue", "red", {"note": ("S", "another")})
    assert not direct.route("red", HEADER)


def test_only_the_key_decides() -> None:
    assert Direct.routes_by_key
    assert Direct.uses_every_key
