"""The settings of TLS: of the listeners for AMQP clients, and the options of any TLS endpoint.

`TlsListenerOptions` are the options of a listener. AMQP, management and the metrics have a section
each. `ClientTlsOptions` are the options of a connection that the node opens to a server; the
HTTP and the LDAP backend have one section of them each.
"""

from dataclasses import dataclass
from pathlib import Path

from leveret.broker.config.declaration import listed_setting, section, setting
from leveret.broker.config.value_kinds import (
    BOOLEAN,
    LISTENER,
    MILLISECONDS,
    NAME,
    PATH,
    TEXT,
    Listener,
    leaving_out,
    one_of,
    whole_number,
)

VERIFY_PEER, VERIFY_NONE = "verify_peer", "verify_none"
VERIFY = one_of(VERIFY_PEER, VERIFY_NONE)
TLS_VERSION = leaving_out(
    one_of("tlsv1.2", "tlsv1.3"),
    "has no effect: this TLS version is not secure and is not offered",
    "tlsv1.1", "tlsv1", "sslv3",
)  # fmt: skip
DEPTH_MAX = 255
"""RabbitMQ takes a byte."""


@dataclass(frozen=True)
class TlsListenerOptions:
    """The options of a TLS listener.

    cacertfile: the certificate authorities that client certificates are checked against. keyfile:
    None if the private key is in certfile. depth: how many intermediate authorities a client's
    chain may have. versions, ciphers: empty for all that are secure.
    """

    cacertfile: Path | None = setting(
        "cacertfile", PATH, None, "The authorities that client certificates are checked against."
    )
    certfile: Path | None = setting(
        "certfile", PATH, None, "The node's certificate, with its chain."
    )
    keyfile: Path | None = setting(
        "keyfile",
        PATH,
        None,
        "The private key of that certificate.",
        default_text="the certificate's file",
    )
    password: str = setting(
        "password",
        TEXT,
        "",
        "The password of the key file.",
        default_text="none",
        is_secret=True,
    )
    verify: str = setting(
        "verify",
        VERIFY,
        VERIFY_NONE,
        "Whether client certificates are requested and checked.",
    )
    fail_if_no_peer_cert: bool = setting(
        "fail_if_no_peer_cert",
        BOOLEAN,
        False,
        "Whether a client must have a certificate; needs verify_peer.",
    )
    depth: int = setting(
        "depth",
        whole_number("authorities", maximum=DEPTH_MAX),
        10,
        "How many intermediate authorities a client's certificate chain may have.",
    )
    versions: tuple[str, ...] = listed_setting(
        "versions.$version",
        TLS_VERSION,
        (),
        "The TLS versions that are offered. Older ones beside these are left out with a warning.",
        default_text="tlsv1.2, tlsv1.3",
    )
    ciphers: tuple[str, ...] = listed_setting(
        "ciphers.$cipher",
        NAME,
        (),
        "The cipher suites, by their OpenSSL or IANA names.",
        default_text="OpenSSL's",
    )
    honor_cipher_order: bool = setting(
        "honor_cipher_order",
        BOOLEAN,
        False,
        "Whether the node's order of cipher suites takes precedence over the client's.",
    )
    dhfile: Path | None = setting(
        "dhfile",
        PATH,
        None,
        "The Diffie-Hellman parameters for TLS 1.2; without them only elliptic curves are used.",
    )


@dataclass(frozen=True)
class ClientTlsOptions:
    """The options of a TLS connection that the node opens to a server.

    keyfile: None if the private key is in certfile. sni: empty or `none` for the address's host.
    """

    cacertfile: Path | None = setting(
        "cacertfile",
        PATH,
        None,
        "The authorities that the server's certificate is checked against.",
        default_text="the system's",
    )
    certfile: Path | None = setting(
        "certfile", PATH, None, "The certificate that the node presents to the server."
    )
    keyfile: Path | None = setting(
        "keyfile",
        PATH,
        None,
        "The private key of that certificate.",
        default_text="in the certificate's file",
    )
    password: str = setting("password", TEXT, "", "The password of the key file.", is_secret=True)
    verify: str = setting(
        "verify",
        VERIFY,
        VERIFY_PEER,
        "Whether the server's certificate is checked.",
    )
    sni: str = setting(
        "sni",
        TEXT,
        "",
        "The server name that the node asks for and checks the certificate against, instead of the "
        "host of the address.",
        default_text="none",
    )

    @property
    def server_name(self) -> str | None:
        """The name to ask for; None: the host of the address."""
        return None if self.sni in ("", "none") else self.sni


@dataclass(frozen=True)
class TlsSettings:
    """`config.tls`."""

    listeners: tuple[Listener, ...] = listed_setting(
        "listeners.ssl.$name",
        LISTENER,
        (),
        "An address for AMQP clients with TLS: a port, on all interfaces, or host:port.",
        default_text="none",
    )
    handshake_timeout_ms: int = setting(
        "ssl_handshake_timeout", MILLISECONDS, 5000, "How long a TLS handshake may take."
    )
    options: TlsListenerOptions = section(TlsListenerOptions, "ssl_options")
    login_from: str = setting(
        "ssl_cert_login_from",
        one_of("common_name", "distinguished_name", "subject_alternative_name", "subject_alt_name"),
        "distinguished_name",
        "The part of a client certificate that is the user name for the mechanism EXTERNAL.",
    )
    login_san_type: str = setting(
        "ssl_cert_login_san_type",
        one_of("dns", "ip", "email", "uri", "other_name"),
        "dns",
        "The type of the subject alternative name.",
    )
    login_san_index: int = setting(
        "ssl_cert_login_san_index",
        whole_number(),
        0,
        "The index of the subject alternative name among those of its type, from 0.",
    )
