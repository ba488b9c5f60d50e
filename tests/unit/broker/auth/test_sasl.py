"""Clients' responses in connection.start-ok."""

import pytest

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.auth.sasl import SaslError, read_response


def amqplain(**fields):
    """Return a field table without its length."""
    return encode_table(fields)[4:]


def test_plain():
    assert read_response("PLAIN", b"\0guest\0secret") == ("guest", "secret")
    assert read_response("PLAIN", b"\0\0") == ("", "")
    assert read_response("PLAIN", "\0jürgen\0größe".encode()) == ("jürgen", "größe")
    assert read_response("PLAIN", b"\0a\xff\0b") == ("a\udcff", "b")


@pytest.mark.parametrize(
    "response",
    [b"", b"guest", b"\0guest", b"identity\0guest\0secret", b"\0guest\0sec\0ret"],
)
def test_a_plain_response_that_is_none(response):
    with pytest.raises(SaslError):
        read_response("PLAIN", response)


def test_amqplain():
    response = amqplain(LOGIN=("S", "guest"), PASSWORD=("S", "secret"))
    assert read_response("AMQPLAIN", response) == ("guest", "secret")
    more = amqplain(PASSWORD=("S", ""), X=("I", 1), LOGIN=("S", "\udcff"))
    assert read_response("AMQPLAIN", more) == ("\udcff", "")


@pytest.mark.parametrize(
    "response",
    [
        b"",
        amqplain(LOGIN=("S", "guest")),
        amqplain(PASSWORD=("S", "secret")),
        amqplain(LOGIN=("x", b"guest"), PASSWORD=("x", b"secret")),
        amqplain(LOGIN=("S", "guest"), PASSWORD=("S", "secret"))[:-1],
        encode_table({"LOGIN": ("S", "guest"), "PASSWORD": ("S", "secret")}),
        b"\0guest\0secret",
    ],
)
def test_an_amqplain_response_that_is_none(response):
    with pytest.raises(SaslError):
        read_response("AMQPLAIN", response)


def test_one_of_both_may_be_of_another_type_as_in_rabbitmq():
    response = amqplain(LOGIN=("x", b"guest"), PASSWORD=("S", "secret"))
    assert read_response("AMQPLAIN", response) == ("guest", "secret")
    response = amqplain(LOGIN=("S", "guest"), PASSWORD=("I", 1))
    assert read_response("AMQPLAIN", response) == ("guest", "")


def test_a_password_is_not_shown():
    assert "secret" not in repr(read_response("PLAIN", b"\0guest\0secret"))


@pytest.mark.parametrize(("login", "name"), [(("I", 1), ""), (("S", "guest"), "guest")])
def test_a_value_that_is_no_string_becomes_a_password_that_is_always_refused(login, name):
    password = ("S", "secret") if login[0] == "I" else ("t", True)
    response = amqplain(LOGIN=login, PASSWORD=password)
    assert read_response("AMQPLAIN", response) == (name, "")


def test_the_message_about_a_bad_response_shows_no_password():
    for mechanism, response in (
        ("PLAIN", b"identity\0guest\0secret"),
        ("AMQPLAIN", amqplain(LOGIN=("x", b"guest"), PASSWORD=("x", b"secret"))),
        ("AMQPLAIN", amqplain(PASSWORD=("S", "secret"))),
    ):
        with pytest.raises(SaslError) as caught:
            read_response(mechanism, response)
        assert "secret" not in str(caught.value)
