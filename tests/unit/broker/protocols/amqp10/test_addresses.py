"""Addresses of links, in both versions."""

import pytest

from leveret.broker.protocols.amqp10.addresses import (
    AddressError,
    ExchangeAddress,
    QueueAddress,
    decode_name,
    encode_name,
    read_source,
    read_target,
    read_to,
)


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("/queues/q", QueueAddress("q")),
        ("/queues/a%2Fb%20c", QueueAddress("a/b c")),
        ("/exchanges/e", ExchangeAddress("e", "")),
        ("/exchanges/e/k", ExchangeAddress("e", "k")),
        ("/exchanges/e/", ExchangeAddress("e", "")),
        ("/queue/q", QueueAddress("q", declares=True)),
        ("q", QueueAddress("q", declares=True)),
        ("/amq/queue/q", QueueAddress("q")),
        ("/exchange/e", ExchangeAddress("e", None)),
        ("/exchange/e/k", ExchangeAddress("e", "k")),
        ("/topic/a.*", ExchangeAddress("amq.topic", "a.*")),
        ("/topic/a.#", ExchangeAddress("amq.topic", "a.#")),
        ("/queue/100%", QueueAddress("100%", declares=True)),
        ("/queue/a%2Fb", QueueAddress("a/b", declares=True)),
        ("/queue/100%25", QueueAddress("100%25", declares=True)),
        ("a%2Fb", QueueAddress("a/b", declares=True)),
    ],
)
def test_addresses(address, found):
    assert read_target(address) == found
    if not address.startswith("/exchanges/"):
        assert read_source(address) == found


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("/queues/", 'bad_address_string,<<"/queues/">>'),
        ("/queues/a/b", 'bad_address_string,<<"/queues/a/b">>'),
        ("/queues/100%", 'bad_address_string,<<"/queues/100%">>'),
        ("/exchanges/amq.default/k", 'bad_address_string,<<"/exchanges/amq.default/k">>'),
        ("/nowhere/x", 'unknown_destination,"/nowhere/x"'),
        ("/queue/", 'invalid_destination,queue,"/"'),
        ("/exchange/e/k/x", 'invalid_destination,exchange,"/e/k/x"'),
        ("queues/a", 'unknown_destination,"queues/a"'),
        ("", 'unknown_destination,""'),
    ],
)
def test_others_are_refused(address, text):
    with pytest.raises(AddressError) as refused:
        read_target(address)
    assert str(refused.value) == f"{{{text}}}"


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("/queues/100%", 'bad_address,{utf8,<<"/queues/100%">>}'),
        ("/queues/a/b", 'bad_address,{utf8,<<"/queues/a/b">>}'),
        ("/exchanges/e", 'unknown_destination,"/exchanges/e"'),
        ("/exchanges/e/k", 'unknown_destination,"/exchanges/e/k"'),
        ("/nowhere/x", 'unknown_destination,"/nowhere/x"'),
    ],
)
def test_others_are_refused_as_sources(address, text):
    with pytest.raises(AddressError) as refused:
        read_source(address)
    assert str(refused.value) == f"{{{text}}}"


def test_no_address():
    assert read_target(None) is None
    with pytest.raises(AddressError, match="bad_address"):
        read_source(None)


def test_addresses_of_messages_are_of_version_2():
    assert read_to("/queues/q") == ExchangeAddress("", "q")
    assert read_to("/exchanges/e/k") == ExchangeAddress("e", "k")
    with pytest.raises(AddressError, match="bad 'to' address string: /queue/q"):
        read_to("/queue/q")


@pytest.mark.parametrize("name", ["plain", "a/b", "ü ß", "100%", "a;b=c"])
def test_names_are_percent_encoded(name):
    assert decode_name(encode_name(name)) == name
    assert read_to(f"/queues/{encode_name(name)}").routing_key == name
