"""Password hashes, in RabbitMQ's form, so that its definitions files import.

A hash is a random salt of four bytes, followed by SHA-256 (or SHA-512) over salt and password, the
password as UTF-8 (RabbitMQ's documentation, "Credentials and Passwords"). Definitions files and the
HTTP API write it in base64. An empty hash is that of no password, and matches none.

The salt is short and the function fast, so a stolen hash is soon tried against many passwords.
It has to be the same as RabbitMQ's, so hashes are kept out of logs and from other users' eyes.
"""

import base64
import hashlib
import hmac
import secrets

SALT_BYTES = 4
SHA256, SHA512 = "rabbit_password_hashing_sha256", "rabbit_password_hashing_sha512"
_DIGESTS = {SHA256: hashlib.sha256, SHA512: hashlib.sha512}

ALGORITHMS = tuple(_DIGESTS)


def hash_password(password: str, algorithm: str = SHA256) -> bytes:
    """A new hash, with a salt of its own."""
    salt = secrets.token_bytes(SALT_BYTES)
    return salt + _digest(salt, password, algorithm)


def password_matches(password: str, password_hash: bytes, algorithm: str) -> bool:
    """Whether this is the password. How much of a hash is right does not show in the time."""
    if len(password_hash) <= SALT_BYTES or not password or algorithm not in _DIGESTS:
        return False
    salt = password_hash[:SALT_BYTES]
    return hmac.compare_digest(password_hash[SALT_BYTES:], _digest(salt, password, algorithm))


def hash_to_text(password_hash: bytes) -> str:
    """As definitions have it."""
    return base64.b64encode(password_hash).decode()


def hash_from_text(text: str) -> bytes:
    """Out of definitions, where RabbitMQ takes no notice of white space. Raises ValueError."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        # The text is a secret, so it is not repeated, and neither is what base64 has to say.
        raise ValueError("a password hash is not in base64") from None


def _digest(salt: bytes, password: str, algorithm: str) -> bytes:
    data = salt + password.encode("utf-8", "surrogateescape")
    return _DIGESTS[algorithm](data).digest()
