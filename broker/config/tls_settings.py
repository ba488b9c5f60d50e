"""The settings of TLS: listeners and certificates, of AMQP, of management and of the metrics."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from broker.config.declaration import listed_setting, setting
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

VERIFY = one_of("verify_peer", "verify_none")
VERSION = one_of("tlsv1.2", "tlsv1.3")


@dataclass(frozen=True)
class TlsOptions:
    """The options of one TLS listener. fail_if_no_peer_cert: a client must have a certificate."""

    cacertfile: Path | None = None
    certfile: Path | None = None
    keyfile: Path | None = None
    password: str = ""
    verify: str = "verify_none"
    fail_if_no_peer_cert: bool = False
    versions: tuple[str, ...] = ()
    ciphers: tuple[str, ...] = ()
    honor_cipher_order: bool = True


@dataclass(frozen=True)
class TlsSettings:
    """What `Config` has of them. `tls_options` makes them into `TlsOptions`."""

    tls_listeners: tuple[Listener, ...] = listed_setting(
        "listeners.ssl.$name",
        LISTENER,
        (),
        "Where AMQP clients connect with TLS: a port, on all interfaces, or host:port.",
        default_text="none",
    )
    tls_cacertfile: Path | None = setting(  # noqa: RUF009
        "ssl_options.cacertfile", PATH, None, "The authorities whose client certificates count."
    )
    tls_certfile: Path | None = setting(  # noqa: RUF009
        "ssl_options.certfile", PATH, None, "The node's certificate, with its chain."
    )
    tls_keyfile: Path | None = setting(  # noqa: RUF009
        "ssl_options.keyfile", PATH, None, "The key of that certificate."
    )
    tls_password: str = setting(
        "ssl_options.password", TEXT, "", "The password of the key file.", is_secret=True
    )
    tls_verify: str = setting(
        "ssl_options.verify", VERIFY, "verify_none", "Whether clients' certificates are checked."
    )
    tls_fail_if_no_peer_cert: bool = setting(
        "ssl_options.fail_if_no_peer_cert",
        BOOLEAN,
        False,
        "Whether a client that is checked must have a certificate.",
    )
    tls_versions: tuple[str, ...] = listed_setting(
        "ssl_options.versions.$version",
        VERSION,
        (),
        "The versions of TLS that are spoken.",
        default_text="tlsv1.2, tlsv1.3",
    )
    tls_ciphers: tuple[str, ...] = listed_setting(
        "ssl_options.ciphers.$cipher",
        NAME,
        (),
        "The cipher suites of TLS 1.2, by OpenSSL's names.",
        default_text="OpenSSL's",
    )
    tls_honor_cipher_order: bool = setting(
        "ssl_options.honor_cipher_order", BOOLEAN, True, "The node's order of suites goes first."
    )
    tls_handshake_timeout_ms: int = setting(
        "ssl_handshake_timeout", MILLISECONDS, 5000, "How long a TLS handshake may take."
    )
    tls_login_from: str = setting(
        "ssl_cert_login_from",
        one_of("common_name", "distinguished_name", "subject_alternative_name"),
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
        "management.ssl.port", PORT, 0, "The port of management over HTTPS; 0 is none."
    )
    management_tls_bind: str | None = setting(
        "management.ssl.ip",
        HOST,
        None,
        "The one interface that it listens on.",
        default_text="all interfaces",
    )
    management_tls_cacertfile: Path | None = setting(  # noqa: RUF009
        "management.ssl.cacertfile", PATH, None, "As ssl_options.cacertfile."
    )
    management_tls_certfile: Path | None = setting(  # noqa: RUF009
        "management.ssl.certfile", PATH, None, "As ssl_options.certfile."
    )
    management_tls_keyfile: Path | None = setting(  # noqa: RUF009
        "management.ssl.keyfile", PATH, None, "As ssl_options.keyfile."
    )
    management_tls_password: str = setting(
        "management.ssl.password", TEXT, "", "As ssl_options.password.", is_secret=True
    )
    management_tls_verify: str = setting(
        "management.ssl.verify", VERIFY, "verify_none", "As ssl_options.verify."
    )
    management_tls_fail_if_no_peer_cert: bool = setting(
        "management.ssl.fail_if_no_peer_cert", BOOLEAN, False, "As in ssl_options."
    )
    management_tls_versions: tuple[str, ...] = listed_setting(
        "management.ssl.versions.$version",
        VERSION,
        (),
        "As ssl_options.versions.",
        default_text="tlsv1.2, tlsv1.3",
    )

    def tls_options(self, prefix: str = "tls") -> TlsOptions:
        """The options of one kind of listener. prefix: tls or management_tls."""
        names = [declared.name for declared in fields(TlsOptions)]
        values: dict[str, Any] = {
            name: getattr(self, f"{prefix}_{name}")
            for name in names
            if hasattr(self, f"{prefix}_{name}")
        }
        return TlsOptions(**values)
