"""Cipher suites: which there are, and what one is called by OpenSSL, by IANA and by Erlang."""

import re
import ssl
from itertools import takewhile
from typing import Any, NamedTuple

ALL_SUITES = "ALL:COMPLEMENTOFALL:@SECLEVEL=0"
_ERLANG_ONLY = re.compile(r"(ECDH|EDH|SRP|RSA-PSK)-|(.*-)?(DES|RC4)-|TLS_AES_128_CCM_")
"""What RabbitMQ takes and OpenSSL has given up, or is seldom built with."""


class Suite(NamedTuple):
    """The parts of a cipher suite, by Erlang's names."""

    key_exchange: str
    cipher: str
    mac: str


_KEY_EXCHANGES = frozenset({"ECDHE", "DHE", "ECDSA", "RSA", "DSS", "PSK"})
_AUTHENTICATED = {"GCM": "_gcm", "CCM": "_ccm", "CCM8": "_ccm_8", "POLY1305": "_poly1305"}


def known_suites() -> dict[str, str]:
    """The version of each suite that OpenSSL has."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(ALL_SUITES)
    return {one["name"]: version_of(one) for one in context.get_ciphers()}


def is_known_to_erlang_only(name: str) -> bool:
    """Whether a suite that OpenSSL does not have is none for a mistake."""
    return _ERLANG_ONLY.match(name) is not None


def version_of(suite: Any) -> str:
    """The version of TLS that an entry of `SSLContext.get_ciphers` is of, by RabbitMQ's name."""
    return str(suite["protocol"]).lower()


def openssl_name(name: str) -> str:
    """OpenSSL's name: TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is ECDHE-RSA-AES256-GCM-SHA384.

    Those of TLS 1.3 have one name only.
    """
    exchange, is_iana, cipher = name.removeprefix("TLS_").partition("_WITH_")
    if not is_iana:
        return name
    cipher = re.sub(r"(AES|CAMELLIA|ARIA)_(\d+)", r"\1\2", cipher).replace("_CBC_", "_")
    cipher = cipher.removesuffix("_SHA256") if "POLY1305" in cipher else cipher
    cipher = cipher.replace("CCM_8", "CCM8")
    words = cipher if exchange == "RSA" else f"{exchange}_{cipher}"
    return words.replace("_", "-")


def suite_parts(name: str) -> Suite:
    """The parts of a suite that OpenSSL calls so."""
    if name.startswith("TLS_"):
        cipher, _, _ = name.removeprefix("TLS_").lower().rpartition("_")
        return Suite("any", cipher, "aead")
    words = name.split("-")
    exchange = list(takewhile(_KEY_EXCHANGES.__contains__, words))
    cipher, mode, *_ = [*words[len(exchange) :], "", ""]
    cipher = re.sub(r"^(aes|aria|camellia)(\d+)$", r"\1_\2", cipher.lower())
    key_exchange = "_".join(exchange).lower() or "rsa"
    if mode in _AUTHENTICATED:
        return Suite(key_exchange, cipher + _AUTHENTICATED[mode], "aead")
    return Suite(key_exchange, f"{cipher}_cbc", mode.lower())
