"""Names that the broker generates: ``amq.gen-`` or ``amq.ctag-`` and 22 characters of base64.

RabbitMQ's `rabbit_guid` makes names of this form.
"""

import base64
import secrets

GENERATED_BYTES = 16


def generate_name(prefix: str) -> str:
    """`amq.gen-` (or another prefix) and 22 characters that cannot be guessed."""
    return encode_name(prefix, secrets.token_bytes(GENERATED_BYTES))


def encode_name(prefix: str, data: bytes) -> str:
    """A prefix and these bytes as base64, for a name that is not generated at random."""
    token = base64.urlsafe_b64encode(data).rstrip(b"=")
    return f"{prefix}-{token.decode()}"
