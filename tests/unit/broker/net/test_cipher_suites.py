"""Names of cipher suites in OpenSSL, IANA and Erlang."""

import pytest

from leveret.broker.net.cipher_suites import (
    is_known_to_erlang_only,
    known_suites,
    openssl_name,
    suite_parts,
)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("TLS_AES_256_GCM_SHA384", ("any", "aes_256_gcm", "aead")),
        ("TLS_CHACHA20_POLY1305_SHA256", ("any", "chacha20_poly1305", "aead")),
        ("TLS_AES_128_CCM_8_SHA256", ("any", "aes_128_ccm_8", "aead")),
        ("ECDHE-ECDSA-AES256-GCM-SHA384", ("ecdhe_ecdsa", "aes_256_gcm", "aead")),
        ("ECDHE-RSA-CHACHA20-POLY1305", ("ecdhe_rsa", "chacha20_poly1305", "aead")),
        ("ECDHE-ECDSA-AES128-CCM8", ("ecdhe_ecdsa", "aes_128_ccm_8", "aead")),
        ("DHE-RSA-AES128-SHA256", ("dhe_rsa", "aes_128_cbc", "sha256")),
        ("ECDHE-RSA-AES256-SHA", ("ecdhe_rsa", "aes_256_cbc", "sha")),
        ("AES256-GCM-SHA384", ("rsa", "aes_256_gcm", "aead")),
        ("AES128-SHA", ("rsa", "aes_128_cbc", "sha")),
    ],
)
def test_the_parts_that_management_shows(name, parts):
    assert suite_parts(name) == parts


@pytest.mark.parametrize("name", sorted(known_suites()))
def test_every_suite_has_parts(name):
    assert all(suite_parts(name))


@pytest.mark.parametrize(
    ("iana", "name"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
        ("TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "DHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8", "ECDHE-ECDSA-AES128-CCM8"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
        ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ],
)
def test_names_of_iana(iana, name):
    assert openssl_name(iana) == name


def test_suites_that_openssl_has_given_up_are_told_from_mistakes():
    assert is_known_to_erlang_only("ECDH-RSA-AES256-GCM-SHA384")
    assert is_known_to_erlang_only("ECDHE-RSA-DES-CBC3-SHA")
    assert is_known_to_erlang_only("RC4-MD5")
    assert is_known_to_erlang_only("TLS_AES_128_CCM_SHA256")
    assert not is_known_to_erlang_only("ECDHE-RSA-AES257-GCM-SHA384")
    assert not is_known_to_erlang_only("AES")
