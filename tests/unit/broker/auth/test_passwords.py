"""Password hashes in RabbitMQ's form."""

import base64
import hashlib

import pytest

from leveret.broker.auth.passwords import (
    SHA256,
    SHA512,
    hash_from_text,
    hash_password,
    hash_to_text,
    password_matches,
)


@pytest.mark.parametrize(("algorithm", "size"), [(SHA256, 4 + 32), (SHA512, 4 + 64)])
def test_a_password_matches_its_hash_and_no_other(algorithm, size):
    hashed = hash_password("secret", algorithm)
    assert len(hashed) == size
    assert password_matches("secret", hashed, algorithm)
    for wrong in ("Secret", "secret ", "", "secre"):
        assert not password_matches(wrong, hashed, algorithm)


def test_the_example_of_rabbitmqs_documentation():
    salt = bytes.fromhex("908DC60A")
    hashed = salt + hashlib.sha256(salt + b"test12").digest()
    assert base64.b64encode(hashed) == b"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    assert password_matches("test12", hashed, SHA256)


def test_each_hash_has_a_salt_of_its_own():
    assert len({hash_password("secret")[:4] for _ in range(20)}) > 1


def test_an_empty_hash_is_that_of_no_password():
    assert not password_matches("", b"", SHA256)
    assert not password_matches("guest", b"", SHA256)


def test_an_empty_password_never_matches():
    assert not password_matches("", hash_password(""), SHA256)


@pytest.mark.parametrize("hashed", [b"\0", b"\0" * 4, b"\0" * 36])
def test_hashes_that_are_none_match_nothing(hashed):
    assert not password_matches("guest", hashed, SHA256)


def test_an_unknown_algorithm_matches_nothing():
    assert not password_matches("guest", hash_password("guest"), "rabbit_password_hashing_md5")
    assert not password_matches("guest", hash_password("guest"), SHA512)


def test_passwords_may_hold_anything():
    for password in ("pässwörd", "\udcff\udc80", "a\0b", "x" * 10_000):
        assert password_matches(password, hash_password(password), SHA256)


@pytest.mark.parametrize(
    ("password", "algorithm", "text"),
    [
        ("test12", SHA256, "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"),
        ("guest", SHA256, "AQIDBEMMOXwY6PKx/JKP9PAqfsb4ozuD0Ta3pxxa9gEYBMmD"),
        (
            "guest",
            SHA512,
            "AQIDBANSvkE51MvG7pNDq4NjmP8SFay7rWsolg//30q7jnApCiuE049JxchapptDh7ryvu/VdvUXYHbwdpa9"
            "veVAv14=",
        ),
    ],
)
def test_hashes_that_rabbitmqs_definitions_have(password, algorithm, text):
    assert password_matches(password, hash_from_text(text), algorithm)
    assert hash_to_text(hash_from_text(text)) == text


def test_white_space_in_a_hash_is_skipped():
    assert hash_from_text(" AQID\n  BEM= ") == b"\1\2\3\4C"


@pytest.mark.parametrize("text", ["AQIDBEM", "AQI*", "größe"])
def test_a_text_that_is_no_hash_is_refused_and_not_repeated(text):
    with pytest.raises(ValueError) as caught:
        hash_from_text(text)
    assert str(caught.value) == "a password hash is not in base64"
