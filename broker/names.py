"""How error texts name things, and the names that the broker makes up.

RabbitMQ's texts call a queue ``queue 'orders' in vhost '/'`` (`rabbit_misc:rs/1`). Names that it
generates are ``amq.gen-`` or ``amq.ctag-`` and 22 characters of base64 (`rabbit_guid`).
"""

import base64
import secrets

QUEUE, EXCHANGE = "queue", "exchange"
RESERVED_PREFIX = "amq."
GENERATED_BYTES = 16


def resource(kind: str, name: str, vhost: str) -> str:
    """`queue 'q' in vhost '/'`."""
    return f"{kind} '{name}' in vhost '{vhost}'"


def generate_name(prefix: str) -> str:
    """`amq.gen-` (or another prefix) and 22 characters that nobody can guess."""
    token = base64.urlsafe_b64encode(secrets.token_bytes(GENERATED_BYTES)).rstrip(b"=")
    return f"{prefix}-{token.decode()}"


def without_line_breaks(name: str) -> str:
    """RabbitMQ strips carriage returns and line feeds from declared names."""
    return name.replace("\n", "").replace("\r", "")
