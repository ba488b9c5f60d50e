"""SASL responses: the user name and password in a client's connection.start-ok.

PLAIN is RFC 4616 without an authorization identity, which RabbitMQ does not accept: a NUL, the
name, a NUL, the password. AMQPLAIN is a field table without its length, with the fields LOGIN and
PASSWORD.

A response in any other form is malformed (`SaslError`), and the connection is closed without a
reply. Credentials from a well-formed response are accepted or refused with 403. RabbitMQ requires
only one of LOGIN and PASSWORD to be a string. The other may be a byte array, which counts as a
string; a value of any other type is refused like a wrong password and is not malformed
(`rabbit_auth_mechanism_amqplain`). Such a value becomes the empty string here, since an empty
password is always refused.
"""

from typing import NamedTuple

from leveret.broker.amqp.field_table import Field, FieldTableError, decode_table, text_of

_STRING, _BYTES = "S", "x"


class SaslError(Exception):
    """The response is malformed; RabbitMQ closes the connection without a reply."""


class Credentials(NamedTuple):
    """A user name and a password."""

    name: str
    password: str

    def __repr__(self) -> str:
        """Leave the password out of logs and tracebacks."""
        return f"Credentials(name={self.name!r})"


def read_response(mechanism: str, response: bytes) -> Credentials:
    """Parse a response. mechanism: PLAIN or AMQPLAIN. Raises SaslError."""
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
        raise SaslError(f"the AMQPLAIN response is not a field table: {error}") from None
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
