"""TLS cipher suites: those that OpenSSL supports, and their OpenSSL, IANA and Erlang names."""

import re
import ssl
from itertools import takewhile
from typing import Any, NamedTuple

ALL_SUITES = "ALL:COMPLEMENTOFALL:@SECLEVEL=0"
_ERLANG_ONLY = re.compile(r"(ECDH|EDH|SRP|RSA-PSK)-|(.*-)?(DES|RC4)-|TLS_AES_128_CCM_")
"""Suites that RabbitMQ accepts and that OpenSSL has removed or is rarely built with."""


class Suite(NamedTuple):
    """The components of a cipher suite, by their Erlang names."""

    key_exchange: str
    cipher: str
    mac: str


_KEY_EXCHANGES = frozenset({"ECDHE", "DHE", "ECDSA", "RSA", "DSS", "PSK"})
_AUTHENTICATED = {"GCM": "_gcm", "CCM": "_ccm", "CCM8": "_ccm_8", "POLY1305": "_poly1305"}


def known_suites() -> dict[str, str]:
    """The TLS version of each suite that OpenSSL supports, by the suite's OpenSSL name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(ALL_SUITES)
    return {one["name"]: version_of(one) for one in context.get_ciphers()}


def is_known_to_erlang_only(name: str) -> bool:
    """Whether a suite that OpenSSL does not support is a valid suite in Erlang."""
    return _ERLANG_ONLY.match(name) is not None


def version_of(suite: Any) -> str:
    """The TLS version of an entry of `SSLContext.get_ciphers`, by its RabbitMQ name."""
    return str(suite["protocol"]).lower()


def openssl_name(name: str) -> str:
    """OpenSSL's name: TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is ECDHE-RSA-AES256-GCM-SHA384.

    Suites of TLS 1.3 have the same name in OpenSSL and IANA.
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
    """The components of the suite with this OpenSSL name."""
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
