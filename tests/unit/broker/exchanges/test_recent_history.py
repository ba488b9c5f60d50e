"""The recent history exchange."""

import pytest

from leveret.broker.amqp.content_header import ContentHeader, read_header
from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.amqp.field_table import Field
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.exchanges.recent_history import RecentHistory

HEADER = read_header(b"\0\0")


def header_with(field: Field) -> ContentHeader:
    headers = {"x-recent-history-no-store": field}
    return read_header(encode_properties({"headers": headers}))


def test_routes_as_a_fanout_does() -> None:
    exchange = RecentHistory({})
    exchange.bind("one", "a", {})
    exchange.bind("two", "b", {})
    assert list(exchange.route("c", HEADER)) == ["one", "two"]
    assert exchange.routes_by_key


def test_routing_remembers_nothing_by_itself() -> None:
    exchange = RecentHistory({})
    exchange.route("key", HEADER)
    assert exchange.history == ()


def test_the_last_twenty_messages_are_kept_oldest_first() -> None:
    exchange = RecentHistory({})
    for number in range(25):
        exchange.remember(number, HEADER)
    assert list(exchange.history) == list(range(5, 25))


@pytest.mark.parametrize("letter", ["b", "s", "I", "l"])
def test_the_length_can_be_set(letter: str) -> None:
    exchange = RecentHistory({"x-recent-history-length": (letter, 3)})
    for number in range(5):
        exchange.remember(number, HEADER)
    assert list(exchange.history) == [2, 3, 4]


def test_a_publisher_can_keep_a_message_out() -> None:
    exchange = RecentHistory({})
    exchange.remember("kept out", header_with(("t", True)))
    exchange.remember("false", header_with(("t", False)))
    exchange.remember("a string", header_with(("S", "true")))
    exchange.remember("a number", header_with(("I", 1)))
    assert list(exchange.history) == ["false", "a string", "a number"]


@pytest.mark.parametrize(
    ("field", "printed"),
    [
        (("I", 0), "0"),
        (("I", -3), "-3"),
        (("B", 5), "5"),
        (("i", 5), "5"),
        (("T", 5), "5"),
        (("d", 5.0), "5.0"),
        (("S", "abc"), '<<"abc">>'),
        (("t", True), "true"),
        (("V", None), "undefined"),
        (("A", [("I", 1)]), "[{signedint,1}]"),
    ],
)
def test_a_bad_length_is_refused(field: Field, printed: str) -> None:
    with pytest.raises(ChannelFault) as refusal:
        RecentHistory({"x-recent-history-length": field})
    assert refusal.value.reply_text == (
        f"PRECONDITION_FAILED - Invalid argument {printed}, "
        "'x-recent-history-length' must be a positive integer"
    )
