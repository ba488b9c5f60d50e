"""SASL responses: user name and password out of what a client answers to connection.start.

PLAIN is RFC 4616 without an authorisation identity, which RabbitMQ does not take: a NUL, the name,
a NUL, the password. AMQPLAIN is a field table without its length, with the fields LOGIN and
PASSWORD.

What does not have this form is malformed (`SaslError`), and such a client is dropped without a
word. What does have it leads to credentials, and those are right or refused with 403. RabbitMQ
draws the line in an unexpected place: of LOGIN and PASSWORD only one has to be a string. The other
may be a byte array, which counts as a string; a value of any other type is refused like a wrong
password, not dropped (`rabbit_auth_mechanism_amqplain`). Such a value becomes the empty string
here, since an empty password is always refused.
"""

from typing import NamedTuple

from broker.amqp.field_table import Field, FieldTableError, decode_table, text_of

_STRING, _BYTES = "S", "x"


class SaslError(Exception):
    """The response is malformed: RabbitMQ drops such a client without a word."""


class Credentials(NamedTuple):
    """Who a client says it is, and the proof."""

    name: str
    password: str

    def __repr__(self) -> str:
        """Without the password: it would end up in a log or a traceback."""
        return f"Credentials(name={self.name!r})"


def read_response(mechanism: str, response: bytes) -> Credentials:
    """Name and password. mechanism: PLAIN or AMQPLAIN. Raises SaslError."""
    return _read_plain(response) if mechanism == "PLAIN" else _read_amqplain(response)


def _read_plain(response: bytes) -> Credentials:
    parts = response.split(b"\0")
    if len(parts) != 3 or parts[0]:
        raise SaslError("a PLAIN response is an empty identity, a name and a password")
    return Credentials(text_of(parts[1]), text_of(parts[2]))


def _read_amqplain(response: bytes) -> Credentials:
    try:
        table, _ = decode_table(len(response).to_bytes(4, "big") + response)
    except FieldTableError as error:
        raise SaslError(f"the AMQPLAIN response is no field table: {error}") from None
    login, password = table.get("LOGIN"), table.get("PASSWORD")
    if login is None or password is None:
        raise SaslError("the AMQPLAIN response has no LOGIN or no PASSWORD")
    if _STRING not in (login[0], password[0]):
        raise SaslError("neither LOGIN nor PASSWORD of the AMQPLAIN response is a string")
    name, secret = _text(login), _text(password)
    if name is None or secret is None:
        return Credentials(name or "", "")
    return Credentials(name, secret)


def _text(field: Field) -> str | None:
    letter, value = field
    if letter == _STRING:
        return str(value)
    return text_of(value) if letter == _BYTES else None
