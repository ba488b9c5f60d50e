"""The delayed message exchange."""

import pytest

from leveret.broker.amqp.content_header import ContentHeader, read_header
from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.amqp.field_table import Field, Table
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.exchanges.delayed import DELAY_MS_MAX, DelayedMessage, header_after_delay
from leveret.broker.exchanges.recent_history import RecentHistory
from tests.routes import matched

HEADER = read_header(b"\0\0")
DIRECT: Table = {"x-delayed-type": ("S", "direct")}


def header_with(**headers: Field) -> ContentHeader:
    table = {name.replace("_", "-"): field for name, field in headers.items()}
    return read_header(encode_properties({"headers": table}))


def test_matches_as_its_inner_type_does() -> None:
    exchange = DelayedMessage({"x-delayed-type": ("S", "topic")})
    exchange.bind("queue", "a.*", {})
    assert matched(exchange, "a.b", HEADER) == ["queue"]
    exchange.unbind("queue", "a.*", {})
    assert not matched(exchange, "a.b", HEADER)


def test_the_inner_type_has_its_own_arguments_and_checks_bindings() -> None:
    exchange = DelayedMessage(
        {"x-delayed-type": ("S", "x-recent-history"), "x-recent-history-length": ("I", 2)}
    )
    assert isinstance(exchange.inner, RecentHistory)
    with pytest.raises(ChannelFault, match="binding key must be an integer"):
        DelayedMessage({"x-delayed-type": ("S", "x-consistent-hash")}).validate_binding("x", {})
    with pytest.raises(ChannelFault, match="Unsupported property"):
        DelayedMessage(
            {"x-delayed-type": ("S", "x-consistent-hash"), "hash-property": ("S", "app_id")}
        )


def test_a_byte_array_can_name_the_type() -> None:
    DelayedMessage({"x-delayed-type": ("x", b"fanout")})


@pytest.mark.parametrize("arguments", [{}, {"x-delayed-type": ("I", 1)}])
def test_the_inner_type_must_be_given(arguments: Table) -> None:
    with pytest.raises(ChannelFault) as refusal:
        DelayedMessage(arguments)
    assert refusal.value.reply_text == (
        "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type"
    )


def test_it_cannot_be_its_own_inner_type() -> None:
    with pytest.raises(ChannelFault) as refusal:
        DelayedMessage({"x-delayed-type": ("S", "x-delayed-message")})
    assert refusal.value.reply_text == (
        "PRECONDITION_FAILED - Invalid argument, "
        "'x-delayed-message' can't be used for 'x-delayed-type'"
    )


def test_an_unknown_inner_type_closes_the_connection() -> None:
    with pytest.raises(ConnectionFault) as refusal:
        DelayedMessage({"x-delayed-type": ("S", "no-such-type")})
    assert refusal.value.reply_text == "COMMAND_INVALID - unknown exchange type 'no-such-type'"


@pytest.mark.parametrize(
    ("field", "delay_ms"),
    [
        (("I", 5_000), 5_000),
        (("b", 5), 5),
        (("u", 60_000), 60_000),
        (("l", DELAY_MS_MAX), DELAY_MS_MAX),
        (("l", DELAY_MS_MAX + 1), 0),
        (("I", 0), 0),
        (("I", -5_000), 0),
        (("S", "5000"), 5_000),
        (("S", "soon"), 0),
        (("S", ""), 0),
        (("S", "9" * 10_000), 0),
        (("d", 1_500.9), 1_500),
        (("d", float("inf")), 0),
        (("d", float("nan")), 0),
        (("D", (1, 25)), 2),
        (("t", True), 0),
        (("T", 5_000), 0),
        (("x", b"5000"), 0),
        (("V", None), 0),
    ],
)
def test_the_delay_is_read_from_the_header(field: Field, delay_ms: int) -> None:
    assert DelayedMessage(DIRECT).delay_ms(header_with(x_delay=field)) == delay_ms


def test_a_message_without_the_header_need_not_wait() -> None:
    exchange = DelayedMessage(DIRECT)
    assert exchange.delay_ms(HEADER) == 0
    assert exchange.delay_ms(header_with(other=("I", 5))) == 0


@pytest.mark.parametrize(
    ("field", "passed_on"),
    [
        (("I", 5_000), ("I", -5_000)),
        (("S", "5000"), ("I", -5_000)),
        (("l", DELAY_MS_MAX), ("l", -DELAY_MS_MAX)),
    ],
)
def test_after_its_delay_a_message_waits_nowhere_again(field: Field, passed_on: Field) -> None:
    before = header_with(x_delay=field, other=("S", "kept"))
    after = header_after_delay(before)
    assert after.headers == {"x-delay": passed_on, "other": ("S", "kept")}
    assert DelayedMessage(DIRECT).delay_ms(after) == 0


def test_the_inner_type_says_which_keys_count() -> None:
    assert DelayedMessage(DIRECT).uses_every_key
    assert not DelayedMessage({"x-delayed-type": ("S", "fanout")}).uses_every_key
    assert not DelayedMessage(DIRECT).routes_by_key
