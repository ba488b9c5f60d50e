"""TLS: contexts out of configuration, certificates that are reloaded, and what a session shows.

A context stays the same object as long as the node runs; `CertificateWatcher` looks at the files
every few seconds and loads them into it again, so that new connections get the new certificate and
those that are open go on. Files that are wrong are logged, and the old ones stay in force.
"""

import logging
import ssl
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography import x509

from broker.clock import Clock, Timer
from broker.config.tls_settings import TlsOptions

LOOK_MS = 5_000
VERSIONS = {"tlsv1.2": ssl.TLSVersion.TLSv1_2, "tlsv1.3": ssl.TLSVersion.TLSv1_3}

logger = logging.getLogger("leveret.tls")


class TlsError(ValueError):
    """TLS cannot be set up; the text names the file or the option and says what is wrong."""


def make_server_context(options: TlsOptions) -> ssl.SSLContext:
    """A context for a listener. Raises TlsError."""
    if options.certfile is None:
        raise TlsError("a TLS listener needs a certificate: set certfile and keyfile")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [VERSIONS[name] for name in options.versions or VERSIONS]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if options.honor_cipher_order:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    if options.ciphers:
        try:
            context.set_ciphers(":".join(options.ciphers))
        except ssl.SSLError:
            raise TlsError(f"no cipher suite of {', '.join(options.ciphers)} is known") from None
    context.verify_mode = _verify_mode(options)
    load_certificates(context, options)
    return context


def _verify_mode(options: TlsOptions) -> ssl.VerifyMode:
    if options.verify != "verify_peer":
        return ssl.CERT_NONE
    if options.cacertfile is None:
        raise TlsError("verify_peer needs authorities to check against: set cacertfile")
    return ssl.CERT_REQUIRED if options.fail_if_no_peer_cert else ssl.CERT_OPTIONAL


def load_certificates(context: ssl.SSLContext, options: TlsOptions) -> None:
    """Load the files into a context, for handshakes to come. Raises TlsError."""
    assert options.certfile is not None
    for path in (options.certfile, options.keyfile, options.cacertfile):
        if path is not None and not path.is_file():
            raise TlsError(f"the file {path} is missing")
    try:
        # Without a password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(options.certfile, options.keyfile, password=options.password)
    except ssl.SSLError as error:
        raise TlsError(
            f"the certificate {options.certfile} and the key {options.keyfile or options.certfile} "
            f"cannot be used: {error.reason or error}; both have to be PEM, the key has to be the "
            "certificate's, and its password has to be right"
        ) from None
    if options.cacertfile is not None:
        try:
            context.load_verify_locations(options.cacertfile)
        except ssl.SSLError as error:
            raise TlsError(f"{options.cacertfile} holds no certificates: {error}") from None


def expiry_of(path: Path) -> datetime | None:
    """When the first certificate in a file ends; None if it cannot be read."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    except (OSError, ValueError) as error:
        logger.error("the certificate %s cannot be read: %s", path, error)
        return None


class CertificateWatcher:
    """Reloads the files of contexts when they change."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watched: list[tuple[ssl.SSLContext, TlsOptions]] = []
        self._seen: dict[Path, tuple[float, int]] = {}
        self._timer: Timer | None = None

    def watch(self, context: ssl.SSLContext, options: TlsOptions) -> None:
        """Keep a context's certificates fresh."""
        self._watched.append((context, options))
        self._seen.update(_stamps(options))
        if self._timer is None:
            self._timer = self._clock.call_later_ms(LOOK_MS, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self.reload()
        self._timer = self._clock.call_later_ms(LOOK_MS, self._look)

    def reload(self) -> None:
        """Load what has changed."""
        for context, options in self._watched:
            stamps = _stamps(options)
            if all(self._seen.get(path) == stamp for path, stamp in stamps.items()):
                continue
            self._seen.update(stamps)
            try:
                # Into a context of its own first: a half of a new pair must not be taken.
                make_server_context(options)
                load_certificates(context, options)
            except TlsError as error:
                logger.error("certificates were changed and are not used: %s", error)
            else:
                logger.info("the certificate %s was loaded again", options.certfile)


def _stamps(options: TlsOptions) -> dict[Path, tuple[float, int]]:
    stamps = {}
    for path in (options.certfile, options.keyfile, options.cacertfile):
        if path is not None:
            try:
                found = path.stat()
            except OSError:
                # Missing for a moment, or for good; loading says so.
                stamps[path] = (0.0, 0)
            else:
                stamps[path] = (found.st_mtime, found.st_ino)
    return stamps


def session_facts(session: Any) -> dict[str, Any]:
    """What RabbitMQ's management shows of a connection's TLS session (an `SSLObject`)."""
    cipher = session.cipher() or ("", "", 0)
    version = str(session.version() or "").lower()
    facts: dict[str, Any] = {
        "ssl": True,
        "ssl_protocol": version,
        "ssl_cipher": cipher[0],
        "ssl_key_exchange": "any" if version == "tlsv1.3" else cipher[0].partition("-")[0].lower(),
        "ssl_hash": "aead" if "GCM" in cipher[0] or "CHACHA" in cipher[0] else "sha",
    }
    der = session.getpeercert(binary_form=True)
    if der:
        certificate = x509.load_der_x509_certificate(der)
        facts["peer_cert_subject"] = certificate.subject.rfc4514_string()
        facts["peer_cert_issuer"] = certificate.issuer.rfc4514_string()
        facts["peer_cert_validity"] = (
            f"{certificate.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ} - "
            f"{certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"
        )
    return facts
