"""Addresses of servers: what is shown of them."""

from leveret.broker.moving.client.address import AddressTls, ServerAddress


def test_the_text_of_an_address_has_no_credentials():
    address = ServerAddress("rabbit.example", user="ann", password="secret")
    assert str(address) == "amqp://rabbit.example:5672"
    assert "secret" not in repr(address)


def test_a_host_that_is_an_ipv6_address_is_in_brackets():
    assert str(ServerAddress("::1", 5673)) == "amqp://[::1]:5673"


def test_an_address_with_tls_is_shown_as_amqps_and_its_key_password_is_not_shown():
    address = ServerAddress("rabbit.example", 5671, tls=AddressTls(password="secret"))
    assert str(address) == "amqps://rabbit.example:5671"
    assert "secret" not in repr(address)
