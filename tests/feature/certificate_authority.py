"""Certificates for tests: an authority, and certificates of servers and clients signed by it.

    authority = CertificateAuthority(directory)
    server = authority.issue("server", names=["localhost", "127.0.0.1"])
    ssl.create_default_context(cafile=authority.certfile)

All are written as PEM files, the input format of brokers and clients.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LIFETIME = timedelta(days=30)


@dataclass(frozen=True)
class Identity:
    """A certificate and its key, in files of their own. der: the encoded certificate."""

    certfile: Path
    keyfile: Path
    der: bytes

    @property
    def certificate(self) -> x509.Certificate:
        """The certificate as an object."""
        return x509.load_der_x509_certificate(self.der)


def name_of(common_name: str) -> x509.Name:
    """Return a distinguished name in the organisation Burrow."""
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Burrow"),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def general_name(name: str | x509.GeneralName) -> x509.GeneralName:
    """Return a subject alternative name: an IP address or a DNS name."""
    if isinstance(name, x509.GeneralName):
        return name
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


class CertificateAuthority:
    """An authority with files in a directory. above: its issuer; None if it is self-signed."""

    def __init__(
        self,
        directory: Path,
        name: str = "authority",
        above: "CertificateAuthority | None" = None,
    ) -> None:
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = name_of(name)
        self._above = above
        self.certificate = self._signed(self._subject, self._key, above or self, is_authority=True)
        self.certfile = directory / f"{name}.pem"
        self.certfile.write_bytes(pem(self.certificate))

    def issue(
        self,
        name: str,
        *,
        subject: x509.Name | None = None,
        names: Sequence[str | x509.GeneralName] = (),
        lifetime: timedelta = LIFETIME,
        password: str = "",
        chain: Sequence["CertificateAuthority"] = (),
    ) -> Identity:
        """Write a certificate to NAME.pem and its key to NAME.key. names: its alternative names."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(
            name_of(name) if subject is None else subject,
            key,
            self,
            names=names,
            lifetime=lifetime,
        )
        certfile, keyfile = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        certfile.write_bytes(
            pem(certificate) + b"".join(pem(authority.certificate) for authority in chain)
        )
        keyfile.write_bytes(pem_of_key(key, password))
        return Identity(certfile, keyfile, certificate.public_bytes(serialization.Encoding.DER))

    @staticmethod
    def _signed(
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        signer: "CertificateAuthority",
        *,
        names: Sequence[str | x509.GeneralName] = (),
        lifetime: timedelta = LIFETIME,
        is_authority: bool = False,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(signer._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, now + lifetime) - timedelta(hours=1))
            .not_valid_after(now + lifetime)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        )
        if names:
            alternatives = x509.SubjectAlternativeName(map(general_name, names))
            builder = builder.add_extension(alternatives, critical=False)
        return builder.sign(signer._key, hashes.SHA256())


def pem(certificate: x509.Certificate) -> bytes:
    """Encode a certificate for a file."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def pem_of_key(key: ec.EllipticCurvePrivateKey, password: str = "") -> bytes:
    """Encode a key for a file, encrypted if there is a password."""
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        encryption = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
