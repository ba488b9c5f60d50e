"""The user name in a client's certificate, for SASL EXTERNAL.

It is the common name, the whole distinguished name, or a subject alternative name, as
`ssl_cert_login_from` says. A distinguished name is written as RabbitMQ writes it: the most specific
part first, parts with commas between them (RFC 4514).
"""

from typing import NamedTuple

from cryptography import x509
from cryptography.x509.oid import NameOID

COMMON_NAME, DISTINGUISHED_NAME = "common_name", "distinguished_name"
SUBJECT_ALTERNATIVE_NAME = "subject_alternative_name"

_SAN_TYPES: dict[str, type[x509.GeneralName]] = {
    "dns": x509.DNSName, "ip": x509.IPAddress, "email": x509.RFC822Name,
    "uri": x509.UniformResourceIdentifier, "other_name": x509.OtherName,
}  # fmt: skip


class CertificateLogin(NamedTuple):
    """Which part of a certificate is the user name. san_index: counted from 0."""

    source: str = DISTINGUISHED_NAME
    san_type: str = "dns"
    san_index: int = 0


def peer_name(der: bytes, login: CertificateLogin) -> str | None:
    """The user name in a certificate; None if it has no such part."""
    try:
        certificate = x509.load_der_x509_certificate(der)
    except ValueError:
        return None
    if login.source == COMMON_NAME:
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        # Several common names are one with commas, in RabbitMQ.
        return ",".join(str(name.value) for name in names) or None
    if login.source == DISTINGUISHED_NAME:
        return certificate.subject.rfc4514_string() or None
    return _alternative_name(certificate, login)


def _alternative_name(certificate: x509.Certificate, login: CertificateLogin) -> str | None:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return None
    wanted = _SAN_TYPES[login.san_type]
    names = [name for name in extension.value if isinstance(name, wanted)]
    if login.san_index >= len(names):
        return None
    value = names[login.san_index].value
    # The value of an other name is ASN.1: a tag, a length and then the text.
    return value[2:].decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
