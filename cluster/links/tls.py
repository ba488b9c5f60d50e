"""TLS of links: both sides show a certificate, and both check it.

A certificate has to be signed by the configured authorities and to be valid for the host of the
node's name. OpenSSL checks the host of the acceptor's certificate; the host of the dialler's is
checked here, since its name is known only from the handshake. Changed files apply to new links.
"""

import ssl
from ipaddress import ip_address

from cryptography import x509

from leveret.broker.auth.backends.client_tls import client_context
from leveret.broker.auth.certificates import UNREADABLE
from leveret.broker.config import ClientTlsOptions, LinkTlsOptions, SettingError, TlsListenerOptions
from leveret.broker.config.tls_settings import VERIFY_PEER
from leveret.broker.net.tls import CertificateWatcher, context_of
from leveret.broker.net.tls_session import ServerContext
from leveret.broker.runtime.clock import Clock

SECTION = "cluster.tls"


class LinkTls:
    """The TLS contexts of a node's links. Raises SettingError for unusable files."""

    def __init__(self, options: LinkTlsOptions, clock: Clock) -> None:
        if options.cacertfile is None:
            raise SettingError(
                f"{SECTION}.cacertfile",
                "links with TLS need authorities that certificates of other nodes are checked "
                "against",
            )
        of_listener = TlsListenerOptions(
            cacertfile=options.cacertfile,
            certfile=options.certfile,
            keyfile=options.keyfile,
            password=options.password,
            verify=VERIFY_PEER,
            fail_if_no_peer_cert=True,
        )
        self._of_dialler = ClientTlsOptions(
            cacertfile=options.cacertfile,
            certfile=options.certfile,
            keyfile=options.keyfile,
            password=options.password,
            verify=VERIFY_PEER,
        )
        self.acceptor_context: ServerContext = context_of(SECTION, of_listener)
        self._watcher = CertificateWatcher(clock)
        self._watcher.watch(self.acceptor_context, of_listener)

    def dialler_context(self) -> ssl.SSLContext:
        """A context for one connection. Raises ValueError for unusable files."""
        return client_context(self._of_dialler)

    def close(self) -> None:
        """Stop watching the files."""
        self._watcher.stop()


def is_certificate_for(der: bytes, host: str) -> bool:
    """Whether a certificate, which was verified, is valid for a host name or an address."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        names = extension.value
        try:
            return ip_address(host) in names.get_values_for_type(x509.IPAddress)
        except ValueError:
            return any(_matches(one, host) for one in names.get_values_for_type(x509.DNSName))
    except (x509.ExtensionNotFound, *UNREADABLE):
        return False


def _matches(pattern: str, host: str) -> bool:
    """RFC 6125: a wildcard stands for the whole first label."""
    pattern, host = pattern.lower().rstrip("."), host.lower().rstrip(".")
    if pattern.startswith("*."):
        first, dot, rest = host.partition(".")
        return bool(first and dot) and rest == pattern[2:]
    return pattern == host
