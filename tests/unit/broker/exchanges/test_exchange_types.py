"""The registry of exchange types."""

import pytest

from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.exchanges import EXCHANGE_TYPES, create_exchange_type
from leveret.broker.exchanges.plain_types import PLAIN_TYPES
from leveret.broker.exchanges.topic import Topic
from leveret.mgmt.views.nodes import exchange_types
from tests.installed_package import install_in


def test_the_types_of_rabbitmq_and_its_plugins_are_there() -> None:
    assert set(EXCHANGE_TYPES) == {
        "direct", "fanout", "topic", "headers", "x-consistent-hash", "x-modulus-hash",
        "x-random", "x-recent-history", "x-delayed-message", "x-federation-upstream",
        "x-message-deduplication",
    }  # fmt: skip


def test_each_type_is_registered_under_its_own_name() -> None:
    assert all(exchange_type.name == name for name, exchange_type in EXCHANGE_TYPES.items())


def test_an_exchange_gets_a_table_of_its_own() -> None:
    first, second = create_exchange_type("topic", {}), create_exchange_type("topic", {})
    assert isinstance(first, Topic)
    assert first is not second


def test_arguments_reach_the_type() -> None:
    with pytest.raises(ChannelFault, match="Unsupported property"):
        create_exchange_type("x-consistent-hash", {"hash-property": ("S", "app_id")})


@pytest.mark.parametrize("name", ["x-no-such-type", "Direct"])
def test_an_unknown_type_closes_the_connection(name: str) -> None:
    with pytest.raises(ConnectionFault) as refusal:
        create_exchange_type(name, {})
    assert refusal.value.reply_text == f"COMMAND_INVALID - unknown exchange type '{name}'"


def test_an_empty_type_is_invalid() -> None:
    with pytest.raises(ConnectionFault) as refusal:
        create_exchange_type("", {})
    assert refusal.value.reply_text == "COMMAND_INVALID - invalid exchange type ''"


FIRST_WORD = """
from leveret.broker.exchanges.direct import Direct

class FirstWord(Direct):
    name = "x-first-word"

    def route(self, routing_key, header):
        return super().route(routing_key.partition(" ")[0], header)
"""


def test_an_installed_package_has_a_type(monkeypatch, tmp_path):
    tables = (EXCHANGE_TYPES, PLAIN_TYPES)
    install_in(monkeypatch, tmp_path, tables, "x-first-word", FIRST_WORD, "FirstWord")
    assert [one["name"] for one in exchange_types()][-1] == "x-first-word"
    exchange = create_exchange_type("x-first-word", {})
    exchange.bind("q", "one", {})
    assert list(exchange.route("one two", None)) == ["q"]
    create_exchange_type("x-delayed-message", {"x-delayed-type": ("S", "x-first-word")})
