"""TLS contexts: their restrictions, errors for invalid files, and reloading.

Handshakes are executed in memory, between the contexts of a listener and of a client.
"""

import logging
import os
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from leveret.broker.config import Config, ConfigError, load_config
from leveret.broker.config.tls_settings import TlsListenerOptions
from leveret.broker.net.tls import (
    CertificateWatcher,
    TlsError,
    expiries_of,
    make_server_context,
    session_facts,
)
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.feature.certificate_authority import CertificateAuthority

LOOK_S = 5.0
ROUNDS_MAX = 10


@pytest.fixture
def authority(tmp_path):
    return CertificateAuthority(tmp_path)


@pytest.fixture
def options(authority):
    """A server's certificate, and clients that may have one."""
    server = authority.issue("server", names=["localhost"])
    return TlsListenerOptions(
        authority.certfile, server.certfile, server.keyfile, verify="verify_peer"
    )


def client_context(authority, identity=None, version=None):
    context = ssl.create_default_context(cafile=authority.certfile)
    if identity is not None:
        context.load_cert_chain(identity.certfile, identity.keyfile)
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context


class Handshake:
    """A handshake in memory. server, client: the two sessions after it.

    session: an earlier one that the client would like to resume. Raises the error of the side that
    fails first.
    """

    def __init__(self, server_context, client, session=None):
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.to_client = to_client
        self.server = server_context.wrap_bio(to_server, to_client, server_side=True)
        self.client = client.wrap_bio(
            to_client, to_server, server_hostname="localhost", session=session
        )
        waiting = [self.client, self.server]
        for _ in range(ROUNDS_MAX):
            waiting = [side for side in waiting if not self.is_over(side)]
            if not waiting:
                return
        raise AssertionError("the handshake does not end")

    @staticmethod
    def is_over(side):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True


def issuer_seen_by(handshake):
    """Return the common name of the issuer of the server's certificate."""
    return dict(pair for (pair,) in handshake.client.getpeercert()["issuer"])["commonName"]


class TestVersionsAndSuites:
    def test_1_3_is_spoken_and_1_2_with_clients_that_want_it(self, authority, options):
        context = make_server_context(options)
        assert Handshake(context, client_context(authority)).server.version() == "TLSv1.3"
        older = client_context(authority, version=ssl.TLSVersion.TLSv1_2)
        assert Handshake(context, older).server.version() == "TLSv1.2"

    def test_nothing_follows_a_handshake_of_1_3(self, authority, options):
        handshake = Handshake(make_server_context(options), client_context(authority))
        assert handshake.client.version() == "TLSv1.3"
        assert not handshake.to_client.pending, "session tickets were sent"

    @pytest.mark.parametrize(
        ("versions", "refused"),
        [(("tlsv1.3",), ssl.TLSVersion.TLSv1_2), (("tlsv1.2",), ssl.TLSVersion.TLSv1_3)],
    )
    def test_a_version_that_is_not_listed_is_refused(self, authority, options, versions, refused):
        context = make_server_context(replace(options, versions=versions))
        with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"):
            Handshake(context, client_context(authority, version=refused))
        assert Handshake(context, client_context(authority)).server.version().lower() in versions

    def test_a_suite_that_is_listed_is_the_only_one(self, authority, options):
        name = "ECDHE-ECDSA-AES128-GCM-SHA256"
        context = make_server_context(replace(options, ciphers=(name,)))
        session = Handshake(context, client_context(authority)).server
        # The list has no suite of TLS 1.3, so that version is not used.
        assert (session.version(), session.cipher()[0]) == ("TLSv1.2", name)

    def test_suites_may_have_their_iana_names(self, authority, options):
        name = "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384"
        context = make_server_context(replace(options, ciphers=(name,)))
        session = Handshake(context, client_context(authority)).server
        assert session.cipher()[0] == "ECDHE-ECDSA-AES256-SHA384"

    def test_suites_of_1_3_alone_leave_1_3_alone(self, options, caplog):
        names = ("TLS_AES_256_GCM_SHA384", "TLS_AES_128_CCM_SHA256")
        context = make_server_context(replace(options, ciphers=names))
        assert context.minimum_version is ssl.TLSVersion.TLSv1_3
        assert "OpenSSL has no cipher suite TLS_AES_128_CCM_SHA256: left out" in caplog.text
        assert "suites of TLS 1.3 cannot be chosen one by one" in caplog.text

    def test_the_order_is_the_clients_unless_it_is_to_be_the_nodes(self, authority, options):
        names = ("ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256")
        client = client_context(authority, version=ssl.TLSVersion.TLSv1_2)
        client.set_ciphers(":".join(reversed(names)))
        chosen = [
            Handshake(
                make_server_context(replace(options, ciphers=names, honor_cipher_order=honored)),
                client,
            ).server.cipher()[0]
            for honored in (True, False)
        ]
        assert chosen == list(names)

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ({"versions": ("tlsv1.1",)}, r"version tlsv1.1 is not known: .* tlsv1.2 and tlsv1.3"),
            ({"ciphers": ("AES257",)}, "cipher suite AES257 is not known"),
            ({"ciphers": ("RC4-MD5",)}, "none of the cipher suites RC4-MD5"),
            (
                {"ciphers": ("AES256-SHA",), "versions": ("tlsv1.3",)},
                "none of the cipher suites AES256-SHA is of tlsv1.3",
            ),
            ({"verify": "peer"}, "verify is 'peer': it must be verify_peer or verify_none"),
            ({"cacertfile": None}, "verify_peer needs authorities.*set cacertfile"),
            (
                {"verify": "verify_none", "fail_if_no_peer_cert": True},
                "fail_if_no_peer_cert needs verify_peer",
            ),
            ({"certfile": None}, "needs a certificate: set certfile and keyfile"),
        ],
    )
    def test_options_that_cannot_be(self, options, change, problem):
        with pytest.raises(TlsError, match=problem):
            make_server_context(replace(options, **change))


class TestFiles:
    @pytest.mark.parametrize("option", ["certfile", "keyfile", "cacertfile", "dhfile"])
    def test_a_file_that_is_missing(self, options, tmp_path, option):
        path = tmp_path / "lost.pem"
        with pytest.raises(TlsError, match=r"lost.pem cannot be read: No such file or directory"):
            make_server_context(replace(options, **{option: path}))

    @pytest.mark.parametrize(
        ("option", "problem"),
        [
            ("certfile", "other.pem holds no certificate in PEM form"),
            ("keyfile", "other.pem holds no private key in PEM form"),
            ("cacertfile", "other.pem holds no certificates in PEM form"),
            ("dhfile", "other.pem holds no Diffie-Hellman parameters in PEM form"),
        ],
    )
    def test_a_file_of_something_else(self, options, tmp_path, option, problem):
        path = tmp_path / "other.pem"
        path.write_text("something else")
        with pytest.raises(TlsError, match=problem):
            make_server_context(replace(options, **{option: path}))

    def test_the_key_of_another_certificate(self, authority, options):
        other = authority.issue("other")
        with pytest.raises(TlsError, match=r"other.key does not belong to .*server.pem"):
            make_server_context(replace(options, keyfile=other.keyfile))

    def test_a_key_that_is_damaged(self, options):
        text = options.keyfile.read_text().splitlines()
        options.keyfile.write_text("\n".join([text[0], "AAAA", text[-1]]))
        with pytest.raises(TlsError, match=r"the key .*server.key is damaged"):
            make_server_context(options)

    def test_an_encrypted_key_needs_its_password(self, authority, options):
        server = authority.issue("locked", password="burrow")
        locked = replace(options, certfile=server.certfile, keyfile=server.keyfile)
        with pytest.raises(TlsError, match=r"locked.key is encrypted: set password"):
            make_server_context(locked)
        with pytest.raises(TlsError, match=r"the password is not that of the key .*locked.key"):
            make_server_context(replace(locked, password="field"))
        make_server_context(replace(locked, password="burrow"))

    def test_key_and_certificate_may_be_in_one_file(self, options, tmp_path):
        both = tmp_path / "both.pem"
        both.write_bytes(options.certfile.read_bytes() + options.keyfile.read_bytes())
        make_server_context(replace(options, certfile=both, keyfile=None))
        with pytest.raises(TlsError, match=r"server.pem holds no private key"):
            make_server_context(replace(options, keyfile=None))

    def test_passwords_are_not_shown(self):
        assert "burrow" not in repr(TlsListenerOptions(password="burrow"))

    async def test_when_certificates_end(self, authority, tmp_path):
        soon = authority.issue("soon", lifetime=timedelta(days=2), chain=[authority])
        ends = await expiries_of(soon.certfile)
        assert len(ends) == 2
        left = min(ends) - datetime.now(UTC)
        assert timedelta(days=1, hours=23) < left < timedelta(days=2)

    async def test_when_an_invalid_certificate_ends(self, options, tmp_path, caplog):
        assert await expiries_of(options.keyfile) == []
        assert await expiries_of(tmp_path / "lost.pem") == []
        assert "server.key cannot be read" in caplog.text
        assert "No such file" in caplog.text


class TestClientCertificates:
    def test_one_that_is_signed_is_taken(self, authority, options):
        client = client_context(authority, authority.issue("client"))
        session = Handshake(make_server_context(options), client).server
        assert session.getpeercert()["subject"]

    def test_none_is_taken_unless_there_must_be_one(self, authority, options, caplog):
        client = client_context(authority, version=ssl.TLSVersion.TLSv1_2)
        Handshake(make_server_context(options), client)
        strict = make_server_context(replace(options, fail_if_no_peer_cert=True))
        with pytest.raises(ssl.SSLError):
            Handshake(strict, client)
        assert "failed: peer did not return a certificate" in caplog.text

    def test_one_of_another_authority_is_refused_and_its_client_told(
        self, authority, options, tmp_path, caplog
    ):
        stranger = CertificateAuthority(tmp_path, "other").issue("stranger")
        client = client_context(authority, stranger, ssl.TLSVersion.TLSv1_2)
        with pytest.raises(ssl.SSLError, match=r"(?i)alert unknown ca"):
            Handshake(make_server_context(options), client)
        assert "unable to get local issuer certificate" in caplog.text

    def test_one_that_has_ended_is_refused(self, authority, options, caplog):
        old = authority.issue("old", lifetime=timedelta(hours=-1))
        with pytest.raises(ssl.SSLError):
            Handshake(
                make_server_context(options),
                client_context(authority, old, ssl.TLSVersion.TLSv1_2),
            )
        assert "certificate has expired" in caplog.text

    def test_no_client_is_asked_without_verification(self, authority, options, tmp_path):
        stranger = CertificateAuthority(tmp_path, "other").issue("stranger")
        context = make_server_context(replace(options, verify="verify_none"))
        session = Handshake(context, client_context(authority, stranger)).server
        assert session.getpeercert(binary_form=True) is None

    def test_there_may_be_as_many_authorities_between_as_depth_says(
        self, authority, options, tmp_path, caplog
    ):
        burrow = CertificateAuthority(tmp_path, "burrow", above=authority)
        client = client_context(authority, burrow.issue("client", chain=[burrow]))
        Handshake(make_server_context(replace(options, depth=1)), client)
        with pytest.raises(ssl.SSLCertVerificationError, match="there are 1 authorities"):
            Handshake(make_server_context(replace(options, depth=0)), client)
        assert "depth allows for 0" in caplog.text


class TestFacts:
    def test_of_a_client_with_a_certificate(self, authority, options):
        client = client_context(authority, authority.issue("hare"))
        facts = session_facts(Handshake(make_server_context(options), client).server)
        assert facts.pop("peer_cert_validity").count("T") == 2
        assert facts == {
            "ssl": True,
            "ssl_protocol": "tlsv1.3",
            "ssl_key_exchange": "any",
            "ssl_cipher": "aes_256_gcm",
            "ssl_hash": "aead",
            "peer_cert_subject": "CN=hare,O=Burrow",
            "peer_cert_issuer": "CN=authority,O=Burrow",
        }

    def test_of_a_client_without_one(self, authority, options):
        client = client_context(authority, version=ssl.TLSVersion.TLSv1_2)
        facts = session_facts(Handshake(make_server_context(options), client).server)
        assert facts == {
            "ssl": True,
            "ssl_protocol": "tlsv1.2",
            "ssl_key_exchange": "ecdhe_ecdsa",
            "ssl_cipher": "aes_256_gcm",
            "ssl_hash": "aead",
        }


class TestReplacingCertificates:
    @pytest.fixture
    def clock(self):
        return VirtualClock()

    @pytest.fixture
    def watcher(self, clock):
        watcher = CertificateWatcher(clock)
        yield watcher
        watcher.stop()

    @pytest.fixture
    def context(self, watcher, options):
        context = make_server_context(options)
        watcher.watch(context, options)
        return context

    @pytest.fixture
    def other(self, options, tmp_path):
        """A second authority, to replace the first."""
        return CertificateAuthority(tmp_path, "other")

    @staticmethod
    def take_over(other, options):
        """Replace the authority and the certificate by those of another one."""
        os.replace(other.certfile, options.cacertfile)
        other.certfile = options.cacertfile
        other.issue("server", names=["localhost"])

    def test_new_ones_are_used_within_seconds(self, clock, context, authority, other, options):
        before = client_context(authority)
        assert issuer_seen_by(Handshake(context, before)) == "authority"
        self.take_over(other, options)
        assert issuer_seen_by(Handshake(context, before)) == "authority"
        clock.advance(LOOK_S)
        assert issuer_seen_by(Handshake(context, client_context(other))) == "other"

    def test_or_at_once_if_that_is_asked_for(self, watcher, context, other, options):
        self.take_over(other, options)
        watcher.reload()
        assert issuer_seen_by(Handshake(context, client_context(other))) == "other"

    def test_authorities_that_are_gone_vouch_for_no_client(
        self, watcher, context, authority, other, options
    ):
        client = client_context(authority, authority.issue("client"), ssl.TLSVersion.TLSv1_2)
        session = Handshake(context, client).client.session
        assert Handshake(context, client, session).server.session_reused
        self.take_over(other, options)
        client.load_verify_locations(other.certfile)
        watcher.reload()
        with pytest.raises(ssl.SSLError, match=r"(?i)unknown ca"):
            Handshake(context, client, session)

    def test_bad_ones_are_logged_once_and_the_old_ones_stay(
        self, clock, context, authority, options, caplog
    ):
        options.certfile.write_text("half a certif")
        clock.advance(2 * LOOK_S)
        (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
        assert "the old ones stay in use" in record.getMessage()
        assert "server.pem holds no certificate" in record.getMessage()
        assert issuer_seen_by(Handshake(context, client_context(authority))) == "authority"

    def test_a_file_that_is_gone_for_a_moment(self, clock, context, authority, options, caplog):
        key = options.keyfile.read_bytes()
        options.keyfile.unlink()
        clock.advance(LOOK_S)
        assert "server.key cannot be read" in caplog.text
        assert issuer_seen_by(Handshake(context, client_context(authority))) == "authority"
        authority.issue("server", names=["localhost"])
        assert key != options.keyfile.read_bytes()
        clock.advance(LOOK_S)
        assert issuer_seen_by(Handshake(context, client_context(authority))) == "authority"
        assert len([one for one in caplog.records if one.levelno == logging.ERROR]) == 1

    def test_every_listener_of_the_same_files_gets_them(self, watcher, context, other, options):
        second = make_server_context(options)
        watcher.watch(second, options)
        self.take_over(other, options)
        watcher.reload()
        for one in (context, second):
            assert issuer_seen_by(Handshake(one, client_context(other))) == "other"

    def test_a_link_that_points_elsewhere_is_seen(self, watcher, options, tmp_path):
        """Kubernetes changes certificates by changing a symbolic link."""
        old, new = tmp_path / "old", tmp_path / "new"
        for folder, name in ((old, "one"), (new, "two")):
            folder.mkdir()
            authority = CertificateAuthority(folder, name)
            authority.issue("tls", names=["localhost"])
        link = tmp_path / "current"
        link.symlink_to(old)
        linked = TlsListenerOptions(certfile=link / "tls.pem", keyfile=link / "tls.key")
        context = make_server_context(linked)
        watcher.watch(context, linked)
        (tmp_path / "next").symlink_to(new)
        os.replace(tmp_path / "next", link)
        watcher.reload()
        assert issuer_seen_by(Handshake(context, client_context(authority))) == "two"

    def test_a_watcher_that_is_stopped_looks_no_more(
        self, clock, watcher, context, options, caplog
    ):
        watcher.stop()
        options.certfile.write_text("")
        clock.advance(2 * LOOK_S)
        assert not caplog.records


class TestSettings:
    def test_three_kinds_of_listeners_have_the_same_options(self, tmp_path):
        lines = []
        for key in ("ssl_options", "management.ssl", "prometheus.ssl"):
            lines += [
                f"{key}.cacertfile = ca.pem",
                f"{key}.certfile = {key}.pem",
                f"{key}.keyfile = {key}.key",
                f"{key}.password = burrow",
                f"{key}.verify = verify_peer",
                f"{key}.fail_if_no_peer_cert = true",
                f"{key}.depth = 2",
                f"{key}.versions.1 = tlsv1.3",
                f"{key}.ciphers.1 = TLS_AES_256_GCM_SHA384",
                f"{key}.honor_cipher_order = true",
                f"{key}.dhfile = dh.pem",
            ]
        file = tmp_path / "rabbitmq.conf"
        file.write_text("\n".join(lines))
        config = load_config(file, {}, {})
        assert config.settings_without_effect == ()
        assert "burrow" not in repr(config)
        for found, key in (
            (config.tls.options, "ssl_options"),
            (config.management.tls, "management.ssl"),
            (config.prometheus.tls, "prometheus.ssl"),
        ):
            assert str(found.certfile) == f"{key}.pem"
            assert (found.verify, found.depth, found.versions) == ("verify_peer", 2, ("tlsv1.3",))
            assert (found.password, found.honor_cipher_order) == ("burrow", True)

    def test_they_have_variables_as_well(self):
        variables = {"LEVERET_PROMETHEUS_SSL_PORT": "15691", "LEVERET_SSL_OPTIONS_DEPTH": "1"}
        config = load_config(None, variables, {})
        assert (config.prometheus.tls_port, config.tls.options.depth) == (15691, 1)

    def test_nothing_listens_by_default(self):
        config = Config()
        assert config.tls.listeners == ()
        assert (config.management.tls_port, config.prometheus.tls_port) == (0, 0)
        assert config.prometheus.tls == TlsListenerOptions()

    @pytest.mark.parametrize(
        "line",
        [
            "ssl_options.versions.1 = tlsv1.1",
            "management.ssl.verify = yes",
            "prometheus.ssl.depth = 256",
            "ssl_cert_login_from = nickname",
            "ssl_cert_login_san_type = rid",
            "ssl_handshake_timeout = 0",
        ],
    )
    def test_the_refusal_of_a_bad_value_names_the_expected_ones(self, tmp_path, line):
        file = tmp_path / "rabbitmq.conf"
        file.write_text(line)
        with pytest.raises(ConfigError, match=f"{line.split(' ')[0]} = .* expected"):
            load_config(file, {}, {})
