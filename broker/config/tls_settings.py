"""The settings of TLS: listeners and certificates, of AMQP, of management and of the metrics.

The three have the same options. Those of AMQP, `ssl_options`, are written down in `TlsSettings`;
`_with_options_of` declares each of them once more under another key. `tls_options` makes one of the
three sets into the `TlsOptions` that broker/net/tls.py takes.
"""

from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from broker.config.declaration import METADATA_KEY, listed_setting, setting, variable_of
from broker.config.values import (
    BOOLEAN,
    HOST,
    LISTENER,
    MILLISECONDS,
    NAME,
    PATH,
    PORT,
    TEXT,
    Listener,
    one_of,
    whole_number,
)

AMQP_KEY, AMQP_PREFIX = "ssl_options", "tls"
DEPTH_MAX = 255
"""RabbitMQ takes a byte."""

Settings = TypeVar("Settings")


@dataclass(frozen=True)
class TlsOptions:
    """The options of one kind of TLS listener.

    cacertfile: the authorities of clients. keyfile: None if the key is in certfile.
    fail_if_no_peer_cert: a client must have a certificate. depth: of authorities between a client's
    certificate and the last one. versions, ciphers: empty for all that are good.
    """

    cacertfile: Path | None = None
    certfile: Path | None = None
    keyfile: Path | None = None
    password: str = field(default="", repr=False)
    verify: str = "verify_none"
    fail_if_no_peer_cert: bool = False
    depth: int = 10
    versions: tuple[str, ...] = ()
    ciphers: tuple[str, ...] = ()
    honor_cipher_order: bool = False
    dhfile: Path | None = None


def _with_options_of(key: str, prefix: str) -> Callable[[type[Settings]], type[Settings]]:
    """Declare the options of AMQP again. key: of the new ones; prefix: of their attributes."""

    def declare(settings: type[Settings]) -> type[Settings]:
        for option in fields(TlsOptions):
            name, original_name = f"{prefix}_{option.name}", f"{AMQP_PREFIX}_{option.name}"
            settings.__annotations__[name] = settings.__annotations__[original_name]
            setattr(settings, name, _under_key(key, settings.__dict__[original_name]))
        return settings

    return declare


def _under_key(key: str, original: Field[Any]) -> Any:
    """The declaration of an option of AMQP, under other keys, which are one text."""
    declaration = original.metadata[METADATA_KEY]
    (original_key,) = declaration["keys"]
    own_keys = tuple(original_key.replace(AMQP_KEY, one, 1) for one in key.split())
    own = {
        "keys": own_keys,
        "variable": variable_of(own_keys[0]),
        "purpose": f"As {original_key}.",
    }
    metadata = {METADATA_KEY: declaration | own}
    return field(default=original.default, metadata=metadata, repr=original.repr)


@dataclass(frozen=True)
@_with_options_of("prometheus.ssl", "prometheus_tls")
@_with_options_of("management.ssl management.listener.ssl_opts", "management_tls")
class TlsSettings:
    """What `Config` has of them."""

    tls_listeners: tuple[Listener, ...] = listed_setting(
        "listeners.ssl.$name",
        LISTENER,
        (),
        "Where AMQP clients connect with TLS: a port, on all interfaces, or host:port.",
        default_text="none",
    )
    tls_handshake_timeout_ms: int = setting(
        "ssl_handshake_timeout", MILLISECONDS, 5000, "How long a TLS handshake may take."
    )
    tls_cacertfile: Path | None = setting(  # noqa: RUF009
        "ssl_options.cacertfile", PATH, None, "The authorities whose client certificates count."
    )
    tls_certfile: Path | None = setting(  # noqa: RUF009
        "ssl_options.certfile", PATH, None, "The node's certificate, with its chain."
    )
    tls_keyfile: Path | None = setting(  # noqa: RUF009
        "ssl_options.keyfile",
        PATH,
        None,
        "The key of that certificate.",
        default_text="the certificate's file",
    )
    tls_password: str = setting(
        "ssl_options.password",
        TEXT,
        "",
        "The password of the key file.",
        default_text="none",
        is_secret=True,
    )
    tls_verify: str = setting(
        "ssl_options.verify",
        one_of("verify_peer", "verify_none"),
        "verify_none",
        "Whether clients' certificates are asked for and checked.",
    )
    tls_fail_if_no_peer_cert: bool = setting(
        "ssl_options.fail_if_no_peer_cert",
        BOOLEAN,
        False,
        "Whether a client must have a certificate; needs verify_peer.",
    )
    tls_depth: int = setting(
        "ssl_options.depth",
        whole_number("authorities", maximum=DEPTH_MAX),
        10,
        "How many authorities may be between a client's certificate and the topmost one.",
    )
    tls_versions: tuple[str, ...] = listed_setting(
        "ssl_options.versions.$version",
        one_of("tlsv1.2", "tlsv1.3"),
        (),
        "The versions of TLS that are spoken.",
        default_text="tlsv1.2, tlsv1.3",
    )
    tls_ciphers: tuple[str, ...] = listed_setting(
        "ssl_options.ciphers.$cipher",
        NAME,
        (),
        "The cipher suites, by OpenSSL's names or by IANA's.",
        default_text="OpenSSL's",
    )
    tls_honor_cipher_order: bool = setting(
        "ssl_options.honor_cipher_order",
        BOOLEAN,
        False,
        "Whether the node's order of suites goes before the client's.",
    )
    tls_dhfile: Path | None = setting(  # noqa: RUF009
        "ssl_options.dhfile",
        PATH,
        None,
        "The parameters for Diffie-Hellman in TLS 1.2; without them only elliptic curves are used.",
    )
    tls_login_from: str = setting(
        "ssl_cert_login_from",
        one_of("common_name", "distinguished_name", "subject_alternative_name", "subject_alt_name"),
        "distinguished_name",
        "What in a client's certificate is its user name, with the mechanism EXTERNAL.",
    )
    tls_login_san_type: str = setting(
        "ssl_cert_login_san_type",
        one_of("dns", "ip", "email", "uri", "other_name"),
        "dns",
        "Which kind of subject alternative name that is.",
    )
    tls_login_san_index: int = setting(
        "ssl_cert_login_san_index", whole_number(), 0, "Which one of that kind, counted from 0."
    )
    management_tls_port: int = setting(
        "management.ssl.port", PORT, 0, "The port of management over HTTPS; 0 switches it off."
    )
    management_tls_bind: str | None = setting(
        "management.ssl.ip",
        HOST,
        None,
        "The one interface that it listens on.",
        default_text="all interfaces",
    )
    prometheus_tls_port: int = setting(
        "prometheus.ssl.port", PORT, 0, "The port of the metrics over HTTPS; 0 switches it off."
    )
    prometheus_tls_bind: str | None = setting(
        "prometheus.ssl.ip",
        HOST,
        None,
        "The one interface that they listen on.",
        default_text="all interfaces",
    )

    def tls_options(self, prefix: str = AMQP_PREFIX) -> TlsOptions:
        """The options of one kind of listener. prefix: tls, management_tls or prometheus_tls."""
        values: dict[str, Any] = {
            option.name: getattr(self, f"{prefix}_{option.name}") for option in fields(TlsOptions)
        }
        return TlsOptions(**values)
