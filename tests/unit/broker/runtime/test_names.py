"""Names in texts, and names that the broker generates."""

import re

import pytest

from leveret.broker.runtime.generated_names import generate_name
from leveret.broker.runtime.names import EXCHANGE, QUEUE, resource, without_line_breaks


def test_resources_are_named_as_rabbitmq_names_them():
    assert resource(QUEUE, "orders", "/") == "queue 'orders' in vhost '/'"
    assert resource(EXCHANGE, "", "shop") == "exchange '' in vhost 'shop'"


@pytest.mark.parametrize("prefix", ["amq.gen", "amq.ctag"])
def test_generated_names_end_in_22_characters(prefix):
    name = generate_name(prefix)
    assert re.fullmatch(re.escape(prefix) + "-[A-Za-z0-9_-]{22}", name)


def test_no_name_is_generated_twice():
    assert len({generate_name("amq.gen") for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    ("name", "stripped"),
    [("q", "q"), ("q\n", "q"), ("\r\na\rb\n", "ab"), ("\n", ""), ("a\tb ", "a\tb ")],
)
def test_line_breaks_are_left_out(name, stripped):
    assert without_line_breaks(name) == stripped
