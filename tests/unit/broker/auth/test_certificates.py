"""User names from client certificates, compared with RabbitMQ's for the same certificates."""

from datetime import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import ExtensionOID, NameOID, ObjectIdentifier

from leveret.broker.auth.certificates import (
    CertificateLogin,
    CertificateRefused,
    distinguished_name,
    name_from_session,
    peer_name,
    validity,
)
from leveret.broker.config import TlsListenerOptions, TlsSettings
from tests.feature.certificate_authority import CertificateAuthority, name_of

KEY = ec.generate_private_key(ec.SECP256R1())
PRINCIPAL_NAME = ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")


@pytest.fixture
def authority(tmp_path):
    return CertificateAuthority(tmp_path)


def parts(*pairs):
    """Return a name of parts with one attribute each."""
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in pairs])


def alternative(der, kind, index=0):
    """Return the user name for an alternative name."""
    return peer_name(der, CertificateLogin("subject_alternative_name", kind, index))


class TestDistinguishedNames:
    def test_the_most_specific_part_is_first(self, authority):
        subject = parts(
            (NameOID.COUNTRY_NAME, "AT"),
            (NameOID.STATE_OR_PROVINCE_NAME, "Tirol"),
            (NameOID.ORGANIZATION_NAME, "Burrow"),
            (NameOID.COMMON_NAME, "hare"),
            (NameOID.EMAIL_ADDRESS, "hare@burrow.example"),
        )
        der = authority.issue("client", subject=subject).der
        expected = "EMAILADDRESS=hare@burrow.example,CN=hare,O=Burrow,ST=Tirol,C=AT"
        assert peer_name(der, CertificateLogin()) == expected

    def test_types_that_have_a_name_and_types_that_have_none(self):
        subject = parts(
            (NameOID.SURNAME, "s"),
            (NameOID.GIVEN_NAME, "g"),
            (NameOID.USER_ID, "u"),
            (NameOID.DOMAIN_COMPONENT, "example"),
            (NameOID.STREET_ADDRESS, "Field 1"),
            (ObjectIdentifier("1.2.3.4"), "own"),
        )
        expected = "1.2.3.4=own,2.5.4.9=Field 1,DC=example,UID=u,GIVENNAME=g,SN=s"
        assert distinguished_name(subject) == expected

    @pytest.mark.parametrize(
        ("value", "written"),
        [
            ("a, b", r"a\, b"),
            ('"+;<>\\', r"\"\+\;\<\>\\"),
            ("#1 #2", r"\#1 #2"),
            (" a  b ", r"\ a  b\ "),
            (" ", r"\ "),
            ("a=b/c", "a=b/c"),
            ("~\x7f\n", r"\7E\7F\0A"),
            ("Hasé", r"Has\C3\A9"),
            ("🐇", r"\F0\9F\90\87"),
        ],
    )
    def test_what_is_escaped(self, value, written):
        assert distinguished_name(parts((NameOID.COMMON_NAME, value))) == f"CN={written}"

    def test_a_part_of_two_attributes(self):
        both = [
            x509.NameAttribute(NameOID.COMMON_NAME, "a"),
            x509.NameAttribute(NameOID.USER_ID, "b"),
        ]
        name = x509.Name([x509.RelativeDistinguishedName(both)])
        assert distinguished_name(name) == "CN=a+UID=b"

    def test_strings_in_old_encodings(self, authority):
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.COMMON_NAME, "λ", _type=_ASN1Type.BMPString),
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "λ", _type=_ASN1Type.UniversalString),
            ]
        )
        der = authority.issue("client", subject=subject).der
        assert peer_name(der, CertificateLogin()) == r"O=\CE\BB,CN=\CE\BB"

    def test_an_empty_one_is_no_name(self, authority):
        der = authority.issue("client", subject=x509.Name([])).der
        assert peer_name(der, CertificateLogin()) is None


class TestCommonNames:
    LOGIN = CertificateLogin("common_name")

    def test_the_common_name(self, authority):
        assert peer_name(authority.issue("hare").der, self.LOGIN) == "hare"

    def test_several_are_one_with_commas(self, authority):
        subject = parts((NameOID.COMMON_NAME, "a"), (NameOID.COMMON_NAME, "b"))
        assert peer_name(authority.issue("client", subject=subject).der, self.LOGIN) == "a,b"

    def test_without_one_there_is_no_name(self, authority):
        subject = parts((NameOID.ORGANIZATION_NAME, "Burrow"))
        assert peer_name(authority.issue("client", subject=subject).der, self.LOGIN) is None


class TestAlternativeNames:
    def test_each_kind(self, authority):
        names = [
            "hare.example",
            "127.0.0.1",
            x509.RFC822Name("hare@burrow.example"),
            x509.UniformResourceIdentifier("spiffe://burrow/hare"),
            x509.OtherName(PRINCIPAL_NAME, b"\x0c\x05h\xc3\xa4se"),
        ]
        der = authority.issue("client", names=names).der
        assert alternative(der, "dns") == "hare.example"
        assert alternative(der, "ip") == "127.0.0.1"
        assert alternative(der, "email") == "hare@burrow.example"
        assert alternative(der, "uri") == "spiffe://burrow/hare"
        assert alternative(der, "other_name") == "häse"

    def test_the_older_word_for_it(self, authority):
        der = authority.issue("client", names=["hare.example"]).der
        assert peer_name(der, CertificateLogin("subject_alt_name")) == "hare.example"

    def test_those_of_one_kind_are_counted_from_0(self, authority):
        der = authority.issue("client", names=["one.example", "10.0.0.1", "two.example"]).der
        assert alternative(der, "dns", 1) == "two.example"
        assert alternative(der, "dns", 2) is None
        assert alternative(der, "ip", 0) == "10.0.0.1"
        assert alternative(der, "uri") is None

    def test_a_certificate_that_has_none(self, authority):
        assert alternative(authority.issue("client").der, "dns") is None

    @pytest.mark.parametrize(
        ("value", "name"),
        [
            (b"\x13\x04hare", "hare"),
            (b"\x1e\x02\x03\xbb", "λ"),
            (b"\x0c\x81\xc8" + b"h" * 200, "h" * 200),
            (b"\x02\x01\x05", None),
            (b"\x0c\x02\xff\xff", None),
            (b"\x0c\x00", None),
        ],
    )
    def test_another_name_may_be_anything_and_counts_if_it_is_a_string(
        self, authority, value, name
    ):
        der = authority.issue("client", names=[x509.OtherName(PRINCIPAL_NAME, value)]).der
        assert alternative(der, "other_name") == name

    @pytest.mark.parametrize("value", [b"\x30\x02\xa3\x00", b"\x30\x02\xa5\x00", b"\x05\x00"])
    def test_kinds_that_have_no_reader(self, authority, value):
        """An X.400 address or an EDI party, which an authority may include."""
        names = x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, value)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name_of("client"))
            .issuer_name(name_of("client"))
            .public_key(KEY.public_key())
            .serial_number(1)
            .not_valid_before(datetime(2020, 1, 1))
            .not_valid_after(datetime(2040, 1, 1))
            .add_extension(names, critical=False)
            .sign(KEY, hashes.SHA256())
        )
        assert alternative(certificate.public_bytes(serialization.Encoding.DER), "dns") is None


@pytest.mark.parametrize("source", ["common_name", "distinguished_name", "subject_alt_name"])
def test_an_invalid_certificate_has_no_name(source):
    assert peer_name(b"certificate", CertificateLogin(source)) is None


def test_validity_is_two_times(authority):
    certificate = authority.issue("client").certificate
    start, end = validity(certificate).split(" - ")
    assert start == certificate.not_valid_before_utc.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert end == certificate.not_valid_after_utc.strftime("%Y-%m-%dT%H:%M:%SZ")


class Session:
    """A TLS session whose client has sent a certificate, or none."""

    def __init__(self, der):
        self.der = der

    def getpeercert(self, binary_form):
        assert binary_form
        return self.der


class TestSessions:
    CHECKED = TlsListenerOptions(verify="verify_peer")
    SETTINGS = TlsSettings(options=CHECKED, login_from="common_name")

    def test_the_name_that_the_configuration_asks_for(self, authority):
        session = Session(authority.issue("hare", names=["hare.example"]).der)
        assert name_from_session(session, self.SETTINGS) == "hare"
        settings = TlsSettings(options=self.CHECKED, login_from="subject_alternative_name")
        assert name_from_session(session, settings) == "hare.example"

    def test_a_plain_connection_is_refused(self):
        with pytest.raises(CertificateRefused, match="not a TLS-enabled connection"):
            name_from_session(None, self.SETTINGS)

    def test_a_client_without_a_certificate_is_refused(self):
        with pytest.raises(CertificateRefused, match="has not sent a certificate"):
            name_from_session(Session(None), self.SETTINGS)

    def test_without_verification_a_certificate_proves_nothing(self, authority):
        session = Session(authority.issue("hare").der)
        with pytest.raises(CertificateRefused, match=r"set ssl_options.verify to verify_peer"):
            name_from_session(session, TlsSettings())

    def test_a_certificate_without_that_name_is_refused(self, authority):
        settings = TlsSettings(options=self.CHECKED, login_from="subject_alternative_name")
        with pytest.raises(CertificateRefused, match=r"no user name: .* san_type='dns'"):
            name_from_session(Session(authority.issue("hare").der), settings)
