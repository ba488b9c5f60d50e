"""The exchange of a federation link at its upstream."""

import pytest

from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.exchanges.federation_upstream import FederationUpstream


def exchange(max_hops, **arguments):
    named = {name.replace("_", "-"): ("S", value) for name, value in arguments.items()}
    made = FederationUpstream({"x-max-hops": ("l", max_hops), **named})
    made.bind("queue", "", {})
    return made


def matches(exchange, *places):
    seen = [("F", {"cluster-name": ("S", name), "vhost": ("S", vhost)}) for name, vhost in places]
    headers = {"headers": {"x-received-from": ("A", seen)}} if seen else {}
    return list(exchange.route("key", read_header(encode_properties(headers)))) == ["queue"]


def test_messages_that_have_come_over_no_link_match():
    assert matches(exchange(1))


def test_messages_that_have_come_far_enough_do_not_match():
    assert matches(exchange(2), ("a", "/"))
    assert not matches(exchange(2), ("a", "/"), ("b", "/"))


def test_messages_do_not_go_where_they_were():
    it = exchange(9, x_downstream_name="a", x_downstream_vhost="/")
    assert not matches(it, ("b", "/"), ("a", "/"))
    assert matches(it, ("b", "/"), ("a", "v"))
    assert matches(exchange(9, x_downstream_name="a"), ("a", "/"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "Argument x-max-hops missing"),
        ({"x-max-hops": ("S", "1")}, "Argument x-max-hops must be of type long"),
    ],
)
def test_the_hops_are_needed(arguments, text):
    with pytest.raises(ChannelFault, match=text):
        FederationUpstream(arguments)
