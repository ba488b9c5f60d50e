"""SASL responses: user name and password out of what a client answers to connection.start.

PLAIN is RFC 4616 without an authorisation identity, which RabbitMQ does not take. AMQPLAIN is a
field table without its length, with the fields LOGIN and PASSWORD.
"""

from broker.amqp.field_table import FieldTableError, decode_table


class SaslError(Exception):
    """The response is malformed: RabbitMQ drops such a client without a word."""


def read_response(mechanism: str, response: bytes) -> tuple[str, str]:
    """Name and password. mechanism: PLAIN or AMQPLAIN."""
    return _read_plain(response) if mechanism == "PLAIN" else _read_amqplain(response)


def _read_plain(response: bytes) -> tuple[str, str]:
    parts = response.split(b"\0", 2)
    if len(parts) != 3 or parts[0]:
        raise SaslError("a PLAIN response is an empty identity, a name and a password")
    return _text(parts[1]), _text(parts[2])


def _read_amqplain(response: bytes) -> tuple[str, str]:
    try:
        table, _ = decode_table(len(response).to_bytes(4, "big") + response)
    except FieldTableError as error:
        raise SaslError(f"the AMQPLAIN response is no field table: {error}") from None
    name, password = table.get("LOGIN"), table.get("PASSWORD")
    if name is None or password is None or name[0] != "S" or password[0] != "S":
        raise SaslError("the AMQPLAIN response has no LOGIN or no PASSWORD")
    return name[1], password[1]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
