"""The addresses that AMQP URIs name."""

from pathlib import Path

import pytest

from leveret.broker.amqp.uri import UriError
from leveret.broker.moving.client.address import AddressTls, ServerAddress
from leveret.broker.moving.client.uri import ThisNode, address_of


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("amqp://host", ServerAddress("host")),
        ("amqp://anna:sesame@host:5673/v",
         ServerAddress("host", 5673, "v", "anna", "sesame")),
        ("amqp://host?heartbeat=0&connection_timeout=1500&channel_max=7&frame_max=8192",
         ServerAddress("host", heartbeat_s=0, connection_timeout_s=1.5, channel_max=7,
                       frame_max=8192)),
        ("amqp://host?auth_mechanism=external", ServerAddress("host", mechanisms=("EXTERNAL",))),
        ("amqps://host", ServerAddress("host", 5671, tls=AddressTls())),
        ("amqps://host:5672?cacertfile=%2Fca.pem&verify=verify_peer&password=sesame"
         "&server_name_indication=disable",
         ServerAddress("host", 5672, tls=AddressTls(
             Path("/ca.pem"), password="sesame", verify_peer=True,
             server_name_indication="disable"))),
        ("amqp://", ThisNode()),
        ("amqp:///v", ThisNode("v")),
        ("amqp://anna:sesame@/v", ThisNode("v", "anna", "sesame")),
    ],
)  # fmt: skip
def test_the_address_that_a_uri_names(uri, address):
    assert address_of(uri) == address


def test_a_uri_without_a_vhost_means_the_default_one():
    assert address_of("amqp://host").vhost == "/"
    assert address_of("amqp://host", default_vhost="v").vhost == "v"


def test_an_invalid_uri_has_no_address():
    with pytest.raises(UriError, match="unexpected_uri_scheme"):
        address_of("http://anna:sesame@host")


def test_addresses_do_not_show_their_passwords():
    for uri in ("amqps://anna:sesame@host?password=sesame", "amqp://anna:sesame@"):
        assert "sesame" not in f"{address_of(uri)} {address_of(uri)!r}"
