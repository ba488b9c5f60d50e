"""Password hashes, in RabbitMQ's form, so that its definitions files import.

A hash is a random salt of four bytes, followed by SHA-256 (or SHA-512) over salt and password
(RabbitMQ's documentation, "Credentials and Passwords"). An empty hash is that of no password.
"""

import hashlib
import hmac
import secrets

SALT_BYTES = 4
SHA256, SHA512 = "rabbit_password_hashing_sha256", "rabbit_password_hashing_sha512"
_DIGESTS = {SHA256: hashlib.sha256, SHA512: hashlib.sha512}


def hash_password(password: str, algorithm: str = SHA256) -> bytes:
    """A new hash, with a salt of its own."""
    salt = secrets.token_bytes(SALT_BYTES)
    return salt + _digest(salt, password, algorithm)


def password_matches(password: str, password_hash: bytes, algorithm: str) -> bool:
    """Whether this is the password. Takes the same time whatever is wrong with it."""
    if len(password_hash) <= SALT_BYTES or not password or algorithm not in _DIGESTS:
        return False
    salt = password_hash[:SALT_BYTES]
    return hmac.compare_digest(password_hash[SALT_BYTES:], _digest(salt, password, algorithm))


def _digest(salt: bytes, password: str, algorithm: str) -> bytes:
    data = salt + password.encode("utf-8", "surrogateescape")
    return _DIGESTS[algorithm](data).digest()
