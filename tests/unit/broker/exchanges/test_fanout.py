"""The fanout exchange."""

from leveret.broker.amqp.content_header import read_header
from leveret.broker.exchanges.fanout import Fanout

HEADER = read_header(b"\0\0")


def test_routes_to_everything_bound_whatever_the_keys() -> None:
    fanout = Fanout({})
    fanout.bind("one", "a", {})
    fanout.bind("two", "b", {})
    assert list(fanout.route("c", HEADER)) == ["one", "two"]


def test_a_destination_bound_twice_comes_once_and_stays_until_both_are_gone() -> None:
    fanout = Fanout({})
    fanout.bind("queue", "a", {})
    fanout.bind("queue", "b", {})
    fanout.unbind("queue", "a", {})
    assert list(fanout.route("", HEADER)) == ["queue"]
    fanout.unbind("queue", "b", {})
    assert not fanout.route("", HEADER)


def test_several_keys_make_no_difference() -> None:
    assert Fanout.routes_by_key
    assert not Fanout.uses_every_key
