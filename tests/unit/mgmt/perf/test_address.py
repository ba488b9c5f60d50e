"""Parsing of broker addresses."""

import ssl

import pytest

from leveret.mgmt.perf.address import read_address


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
    address = read_address("amqp://host", "other")
    assert (address.tls, address.server_name) == (None, None)


def test_tls_checks_the_hosts_name_or_the_one_that_is_given():
    assert read_address("amqps://host").server_name == "host"
    assert read_address("amqps://host", "other").server_name == "other"
    named = read_address("amqps://host?server_name_indication=third", "other")
    assert named.server_name == "third"


def test_certificates_are_checked_unless_that_is_forbidden():
    assert read_address("amqps://host").tls.verify_mode == ssl.CERT_REQUIRED
    assert read_address("amqps://host/?verify=verify_none").tls.verify_mode == ssl.CERT_NONE


def test_a_certificate_that_cannot_be_read_is_an_error():
    with pytest.raises(OSError):
        read_address("amqps://host?cacertfile=/missing")
