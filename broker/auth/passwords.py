"""Password hashes in RabbitMQ's format, so that its definitions can be imported.

A hash is a random salt of four bytes, followed by SHA-256 (or SHA-512) over salt and password, the
password as UTF-8 (RabbitMQ's documentation, "Credentials and Passwords"). Definitions files and the
HTTP API contain it in base64. The hash of a user without a password is empty and matches nothing.

The salt is short and the function fast, so that a stolen hash can be attacked by brute force. The
format must be RabbitMQ's, so hashes are kept out of logs and are shown to administrators only.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable

SALT_BYTES = 4
SHA256, SHA512 = "rabbit_password_hashing_sha256", "rabbit_password_hashing_sha512"
MD5 = "rabbit_password_hashing_md5"
"""The algorithm of RabbitMQ before 3.6: known so that its definitions can be imported."""
_DIGESTS: dict[str, Callable[[bytes], "hashlib._Hash"]] = {
    SHA256: hashlib.sha256,
    SHA512: hashlib.sha512,
    MD5: hashlib.md5,
}

ALGORITHMS = tuple(_DIGESTS)


def hash_password(password: str, algorithm: str = SHA256) -> bytes:
    """Hash a password with a new random salt."""
    salt = secrets.token_bytes(SALT_BYTES)
    return salt + _digest(salt, password, algorithm)


def password_matches(password: str, password_hash: bytes, algorithm: str) -> bool:
    """Whether a password matches a hash. Takes constant time."""
    if len(password_hash) <= SALT_BYTES or not password or algorithm not in _DIGESTS:
        return False
    salt = password_hash[:SALT_BYTES]
    return hmac.compare_digest(password_hash[SALT_BYTES:], _digest(salt, password, algorithm))


def hash_to_text(password_hash: bytes) -> str:
    """Encode a hash as in definitions."""
    return base64.b64encode(password_hash).decode()


def hash_from_text(text: str) -> bytes:
    """Decode a hash from definitions. White space is ignored. Raises ValueError."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        # The text is a secret: neither it nor base64's message, which may quote it, is shown.
        raise ValueError("a password hash is not in base64") from None


def _digest(salt: bytes, password: str, algorithm: str) -> bytes:
    data = salt + password.encode("utf-8", "surrogateescape")
    return _DIGESTS[algorithm](data).digest()
