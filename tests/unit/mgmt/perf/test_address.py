"""Parsing of broker addresses."""

import pytest

from leveret.broker.moving.client.tls import server_name
from leveret.mgmt.perf import address as addresses
from leveret.mgmt.perf.options import PerfOptions


def read_address(uri, name=""):
    return addresses.read_address(uri, PerfOptions([uri], "x", server_name=name))


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("amqp://host", ("host", 5672, "/", "guest", "guest")),
        ("amqp://u:p@host:1234/v", ("host", 1234, "v", "u", "p")),
        ("amqp://u%40x:p%2F@[::1]/a%2Fb", ("::1", 5672, "a/b", "u@x", "p/")),
        ("amqp:///%2F", ("127.0.0.1", 5672, "/", "guest", "guest")),
        ("amqps://host", ("host", 5671, "/", "guest", "guest")),
    ],
)
def test_an_address_has_its_parts(uri, expected):
    address = read_address(uri)
    assert (address.host, address.port, address.vhost, address.user, address.password) == expected


def test_without_tls_there_is_no_name_to_check():
    assert server_name(read_address("amqp://host", "other")) is None


def test_tls_checks_the_hosts_name_or_the_one_that_is_given():
    assert server_name(read_address("amqps://host")) == "host"
    assert server_name(read_address("amqps://host", "other")) == "other"
    named = read_address("amqps://host?server_name_indication=third", "other")
    assert server_name(named) == "third"


def test_certificates_are_checked_unless_that_is_forbidden():
    assert read_address("amqps://host").tls.verify_peer
    assert not read_address("amqps://host/?verify=verify_none").tls.verify_peer
