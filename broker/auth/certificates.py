"""The user name in a client certificate, for SASL EXTERNAL, and certificates as text.

The name is the common name, the whole distinguished name, or a subject alternative name, according
to `ssl_cert_login_from`. Distinguished names have RabbitMQ's format, since they are user names: the
most specific part first, commas between the parts, and everything that is not printable ASCII as
escaped bytes of UTF-8. That is RFC 4514, except that more attribute types have a name, and that a
few more characters are escaped (`rabbit_cert_info`).

A certificate is used only if it was verified. TLS requests client certificates only if
`ssl_options.verify` is `verify_peer`.
"""

from typing import Any, NamedTuple

from cryptography import x509
from cryptography.x509.oid import NameOID

from leveret.broker.config.tls_settings import VERIFY_PEER, TlsSettings

COMMON_NAME, DISTINGUISHED_NAME = "common_name", "distinguished_name"


_TYPES = {
    NameOID.SURNAME: "SN", NameOID.GIVEN_NAME: "GIVENNAME", NameOID.INITIALS: "INITIALS",
    NameOID.GENERATION_QUALIFIER: "GENERATIONQUALIFIER", NameOID.COMMON_NAME: "CN",
    NameOID.LOCALITY_NAME: "L", NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.ORGANIZATION_NAME: "O", NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.TITLE: "TITLE", NameOID.COUNTRY_NAME: "C", NameOID.SERIAL_NUMBER: "SERIALNUMBER",
    NameOID.PSEUDONYM: "PSEUDONYM", NameOID.DOMAIN_COMPONENT: "DC",
    NameOID.EMAIL_ADDRESS: "EMAILADDRESS", NameOID.USER_ID: "UID",
}  # fmt: skip
"""RabbitMQ's table lists STREET, too, but with an object identifier that does not exist."""
_ESCAPED_FIRST = b" #"
_ESCAPED = b'"+,;<>\\'
_PRINTABLE_MIN, _PRINTABLE_MAX = 0x20, 0x7D
"""RabbitMQ escapes the tilde as well."""

_SAN_TYPES: dict[str, type[x509.GeneralName]] = {
    "dns": x509.DNSName, "ip": x509.IPAddress, "email": x509.RFC822Name,
    "uri": x509.UniformResourceIdentifier, "other_name": x509.OtherName,
}  # fmt: skip
_ASN1_STRINGS = {
    0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}  # fmt: skip
"""Tags of ASN.1: UTF8String, PrintableString, TeletexString, IA5String, UniversalString and
BMPString."""
_LENGTH_FOLLOWS = 0x80


UNREADABLE = (
    ValueError,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""Raised by `cryptography` for certificates that OpenSSL accepts."""


class CertificateRefused(Exception):
    """A client cannot log in with its certificate; the text says why."""


class CertificateLogin(NamedTuple):
    """The part of a certificate that is the user name. san_index: from 0."""

    source: str = DISTINGUISHED_NAME
    san_type: str = "dns"
    san_index: int = 0


def name_from_session(
    session: Any, settings: TlsSettings, login: CertificateLogin | None = None
) -> str:
    """The user name in the client certificate of a TLS session. Raises CertificateRefused.

    session: an `SSLObject`; None for a connection without TLS. login: the part of the certificate;
    None for the one that `ssl_cert_login_from` names.
    """
    if session is None:
        raise CertificateRefused("not a TLS-enabled connection")
    if settings.options.verify != VERIFY_PEER:
        raise CertificateRefused(
            "client certificates are not verified: set ssl_options.verify to verify_peer"
        )
    der = session.getpeercert(binary_form=True)
    if not der:
        raise CertificateRefused("the client has not sent a certificate")
    login = login or CertificateLogin(
        settings.login_from, settings.login_san_type, settings.login_san_index
    )
    name = peer_name(der, login)
    if name is None:
        raise CertificateRefused(f"the client's certificate has no user name: {login}")
    return name


def peer_name(der: bytes, login: CertificateLogin) -> str | None:
    """The user name in a certificate; None if there is none, or if it cannot be parsed."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        if login.source == COMMON_NAME:
            # RabbitMQ joins several common names with commas.
            names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            return ",".join(_text(name.value) for name in names) or None
        if login.source == DISTINGUISHED_NAME:
            return distinguished_name(certificate.subject) or None
        return _alternative_name(certificate, login)
    except UNREADABLE:
        return None


# Distinguished names


def distinguished_name(name: x509.Name) -> str:
    """A subject or an issuer in RabbitMQ's format."""
    parts = ["+".join(_attribute(one) for one in part) for part in name.rdns]
    return ",".join(reversed(parts))


def _attribute(attribute: x509.NameAttribute[Any]) -> str:
    type_name = _TYPES.get(attribute.oid, attribute.oid.dotted_string)
    return f"{type_name}={_escape(_text(attribute.value).encode())}"


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _escape(value: bytes) -> str:
    last = len(value) - 1
    return "".join(
        f"\\{byte:c}" if _needs_backslash(byte, index, last) else _printable(byte)
        for index, byte in enumerate(value)
    )


def _needs_backslash(byte: int, index: int, last: int) -> bool:
    if byte in _ESCAPED or (index == 0 and byte in _ESCAPED_FIRST):
        return True
    return index == last and byte == ord(" ")


def _printable(byte: int) -> str:
    return chr(byte) if _PRINTABLE_MIN <= byte <= _PRINTABLE_MAX else f"\\{byte:02X}"


# Alternative names


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
    name = _asn1_string(value) if isinstance(value, bytes) else str(value)
    return name or None


def _asn1_string(der: bytes) -> str | None:
    """The text of an `otherName`; None if its value is not a string."""
    encoding = _ASN1_STRINGS.get(der[0]) if len(der) >= 2 else None
    if encoding is None:
        return None
    # A length below 128 is one byte. Otherwise the byte says how many bytes the length has.
    start = 2 + (der[1] - _LENGTH_FOLLOWS if der[1] >= _LENGTH_FOLLOWS else 0)
    return der[start:].decode(encoding)


# Times


def validity(certificate: x509.Certificate) -> str:
    """The period of validity in RabbitMQ's format."""
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return f"{start:%Y-%m-%dT%H:%M:%SZ} - {end:%Y-%m-%dT%H:%M:%SZ}"
