"""TLS: server contexts from options, certificate reload while the node runs, session facts.

`make_server_context` makes the context that a listener keeps while it is open. `CertificateWatcher`
checks the context's files every few seconds and replaces the context when they have changed: new
connections get the new certificate and are verified against the new authorities, and old sessions
are not resumed. Open connections are not affected. If a file is invalid the error is logged, and
the previous context stays in force.

OpenSSL's error texts for an invalid file are poor: `_refusal_reason` finds the actual mistake.
Source of the fields for management: RabbitMQ's `rabbit_ssl`.
"""

import logging
import ssl
from collections.abc import Container, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import aiofiles
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from leveret.broker.auth.certificates import (
    UNREADABLE,
    distinguished_name,
    validity,
)
from leveret.broker.config.setting_error import SettingError
from leveret.broker.config.tls_settings import VERIFY_NONE, VERIFY_PEER, TlsListenerOptions
from leveret.broker.net.cipher_suites import (
    is_known_to_erlang_only,
    known_suites,
    openssl_name,
    suite_parts,
    version_of,
)
from leveret.broker.net.tls_session import ServerContext
from leveret.broker.runtime.clock import Clock, Timer
from leveret.broker.runtime.tls_errors import reason_of

LOOK_MS = 5_000
TLS_1_2, TLS_1_3 = "tlsv1.2", "tlsv1.3"
VERSIONS = {TLS_1_2: ssl.TLSVersion.TLSv1_2, TLS_1_3: ssl.TLSVersion.TLSv1_3}

logger = logging.getLogger("leveret.tls")


class TlsError(ValueError):
    """TLS cannot be set up; the text names the file or the option and the mistake.

    option: the field of `TlsListenerOptions` to change.
    """

    def __init__(self, option: str, reason: str) -> None:
        self.option = option
        super().__init__(reason)


# Contexts


def context_of(section: str, options: TlsListenerOptions) -> ServerContext:
    """A context for a listener. Raises SettingError. section: the attribute of the options."""
    try:
        return make_server_context(options)
    except TlsError as error:
        raise SettingError(f"{section}.{error.option}", str(error)) from None


def make_server_context(options: TlsListenerOptions) -> ServerContext:
    """A context for a listener. Raises TlsError."""
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.depth = options.depth
    context.options |= ssl.OP_NO_RENEGOTIATION
    # Tickets come after the handshake, and RabbitMQ sends none: its Java client with NIO takes them
    # for the end of its stream.
    context.num_tickets = 0
    if not options.honor_cipher_order:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    _set_versions_and_suites(context, options)
    context.verify_mode = _verify_mode(options)
    _load_files(context, options)
    return context


def _verify_mode(options: TlsListenerOptions) -> ssl.VerifyMode:
    if options.verify not in (VERIFY_PEER, VERIFY_NONE):
        raise TlsError(
            "verify", f"verify is {options.verify!r}: it must be {VERIFY_PEER} or {VERIFY_NONE}"
        )
    if options.verify == VERIFY_PEER:
        if options.cacertfile is None:
            raise TlsError(
                "cacertfile", "verify_peer needs authorities to check against: set cacertfile"
            )
        return ssl.CERT_REQUIRED if options.fail_if_no_peer_cert else ssl.CERT_OPTIONAL
    if options.fail_if_no_peer_cert:
        raise TlsError("fail_if_no_peer_cert", "fail_if_no_peer_cert needs verify_peer: set verify")
    return ssl.CERT_NONE


def _set_versions_and_suites(context: ssl.SSLContext, options: TlsListenerOptions) -> None:
    versions = set(options.versions or VERSIONS)
    if unknown := versions - set(VERSIONS):
        raise TlsError(
            "versions",
            f"the TLS version {', '.join(sorted(unknown))} is not known: versions are "
            f"{' and '.join(VERSIONS)}",
        )
    if options.ciphers:
        versions = _set_suites(context, options.ciphers, versions)
    spoken = [VERSIONS[name] for name in versions]
    context.minimum_version, context.maximum_version = min(spoken), max(spoken)


def _set_suites(context: ssl.SSLContext, ciphers: Sequence[str], versions: set[str]) -> set[str]:
    """Permit the suites; returns the versions that have at least one of them."""
    known = known_suites()
    names = _usable_names(ciphers, known)
    modern = {name for name in names if known[name] == TLS_1_3}
    older = [name for name in names if name not in modern]
    usable = {version for version in versions if (modern if version == TLS_1_3 else older)}
    if not usable:
        raise TlsError(
            "ciphers",
            f"none of the cipher suites {', '.join(ciphers)} is of {' or '.join(sorted(versions))}",
        )
    if older:
        context.set_ciphers(":".join(older))
    offered = {one["name"] for one in context.get_ciphers() if version_of(one) == TLS_1_3}
    if TLS_1_3 in usable and modern != offered:
        logger.warning(
            "the cipher suites of TLS 1.3 cannot be chosen one by one: all are offered, %s",
            ", ".join(sorted(offered)),
        )
    return usable


def _usable_names(ciphers: Sequence[str], known: Container[str]) -> list[str]:
    """The OpenSSL names of the suites that OpenSSL supports."""
    names = [openssl_name(cipher) for cipher in ciphers]
    missing = [name for name in names if name not in known]
    wrong = [name for name in missing if not is_known_to_erlang_only(name)]
    if wrong:
        raise TlsError(
            "ciphers",
            f"the cipher suite {', '.join(wrong)} is not known: `openssl ciphers ALL` lists those "
            "that are",
        )
    if missing:
        logger.warning("OpenSSL has no cipher suite %s: left out", ", ".join(missing))
    return [name for name in names if name in known]


# Files


def _load_files(context: ssl.SSLContext, options: TlsListenerOptions) -> None:
    """Load certificate, key, authorities and parameters. Raises TlsError."""
    if options.certfile is None:
        raise TlsError("certfile", "a TLS listener needs a certificate: set certfile and keyfile")
    for option, path in _files(options):
        _read(option, path)
    try:
        # Without a password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(options.certfile, options.keyfile, password=options.password)
    except (ssl.SSLError, ValueError) as error:
        raise _refusal(options, options.certfile, error) from None
    if options.cacertfile is not None:
        try:
            context.load_verify_locations(options.cacertfile)
        except ssl.SSLError:
            raise TlsError(
                "cacertfile", f"{options.cacertfile} holds no certificates in PEM form"
            ) from None
    if options.dhfile is not None:
        try:
            context.load_dh_params(str(options.dhfile))
        except ssl.SSLError:
            raise TlsError(
                "dhfile", f"{options.dhfile} holds no Diffie-Hellman parameters in PEM form"
            ) from None


def _files(options: TlsListenerOptions) -> list[tuple[str, Path]]:
    """The configured files, each with its option."""
    named = (
        ("certfile", options.certfile), ("keyfile", options.keyfile),
        ("cacertfile", options.cacertfile), ("dhfile", options.dhfile),
    )  # fmt: skip
    return [(option, path) for option, path in named if path is not None]


def _read(option: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlsError(option, f"{path} cannot be read: {error.strerror}") from None


def _refusal(options: TlsListenerOptions, certfile: Path, error: Exception) -> TlsError:
    """The mistake in a certificate, its key or its password."""
    keyfile = options.keyfile or certfile
    key_option = "keyfile" if options.keyfile else "certfile"
    try:
        certificate = x509.load_pem_x509_certificate(_read("certfile", certfile))
    except ValueError:
        return TlsError("certfile", f"{certfile} holds no certificate in PEM form")
    key_text = _read(key_option, keyfile)
    if b"PRIVATE KEY-----" not in key_text:
        return TlsError(key_option, f"{keyfile} holds no private key in PEM form")
    is_encrypted = b"ENCRYPTED" in key_text
    if is_encrypted and not options.password:
        return TlsError(key_option, f"the key {keyfile} is encrypted: set password")
    try:
        password = options.password.encode() if is_encrypted else None
        key = serialization.load_pem_private_key(key_text, password)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        if is_encrypted:
            reason = f"the password is not that of the key {keyfile}, or the key is damaged"
            return TlsError("password", reason)
        return TlsError(key_option, f"the key {keyfile} is damaged")
    if key.public_key() != certificate.public_key():
        reason = f"the key {keyfile} does not belong to the certificate {certfile}"
        return TlsError(key_option, reason)
    reason = reason_of(error) if isinstance(error, ssl.SSLError) else str(error)
    return TlsError(
        "certfile", f"OpenSSL rejects the certificate {certfile} with the key {keyfile}: {reason}"
    )


async def expiries_of(path: Path) -> list[datetime]:
    """The expiry of each certificate in a file; empty, and logged, if it cannot be read."""
    try:
        async with aiofiles.open(path, "rb") as file:
            certificates = x509.load_pem_x509_certificates(await file.read())
    except (OSError, ValueError) as error:
        logger.error("the certificates in %s cannot be read: %s", path, error)
        return []
    return [certificate.not_valid_after_utc for certificate in certificates]


# Replacing certificates


class CertificateWatcher:
    """Replaces the contexts of listeners when their files change."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watched: list[_WatchedContext] = []
        self._timer: Timer | None = None

    def watch(self, context: ServerContext, options: TlsListenerOptions) -> None:
        """Replace a listener's context whenever its files change."""
        self._watched.append(_WatchedContext(context, options))
        if self._timer is None:
            self._timer = self._clock.call_later_ms(LOOK_MS, self._look)

    def stop(self) -> None:
        """Stop watching the files."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self.reload()
        self._timer = self._clock.call_later_ms(LOOK_MS, self._look)

    def reload(self) -> None:
        """Load changed files now."""
        for watched in self._watched:
            watched.refresh()


class Stamp(NamedTuple):
    """The properties of a file that show that it has changed."""

    inode: int
    size: int
    modified_ns: int


class _WatchedContext:
    """The context of a listener, and the stamps of its files when they were loaded."""

    def __init__(self, context: ServerContext, options: TlsListenerOptions) -> None:
        self._context = context
        self._options = options
        self._stamps = _stamps(options)

    def refresh(self) -> None:
        """Replace the context if a file has changed."""
        stamps = _stamps(self._options)
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            self._context.successor = make_server_context(self._options)
        except TlsError as error:
            logger.error("changed certificates are invalid; the old ones stay in use: %s", error)
        else:
            logger.info("the certificate %s was reloaded", self._options.certfile)


def _stamps(options: TlsListenerOptions) -> dict[Path, Stamp | None]:
    """The stamps of the files; None for a missing one, which loading reports."""
    stamps: dict[Path, Stamp | None] = {}
    for _, path in _files(options):
        try:
            found = path.stat()
        except OSError:
            stamps[path] = None
        else:
            stamps[path] = Stamp(found.st_ino, found.st_size, found.st_mtime_ns)
    return stamps


# Facts for management


def session_facts(session: ssl.SSLObject) -> dict[str, Any]:
    """RabbitMQ's management fields of a connection's TLS session."""
    name, _, _ = session.cipher() or ("", "", 0)
    suite = suite_parts(name)
    facts: dict[str, Any] = {
        "ssl": True,
        "ssl_protocol": str(session.version() or "").lower(),
        "ssl_key_exchange": suite.key_exchange,
        "ssl_cipher": suite.cipher,
        "ssl_hash": suite.mac,
    }
    der = session.getpeercert(binary_form=True)
    return facts | _certificate_facts(der) if der else facts


def _certificate_facts(der: bytes) -> dict[str, str]:
    try:
        certificate = x509.load_der_x509_certificate(der)
        return {
            "peer_cert_subject": distinguished_name(certificate.subject),
            "peer_cert_issuer": distinguished_name(certificate.issuer),
            "peer_cert_validity": validity(certificate),
        }
    except UNREADABLE as error:
        logger.warning("a client's certificate cannot be decoded: %s", error)
        return {}
