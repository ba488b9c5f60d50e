"""TLS contexts of connections to servers."""

import os
import ssl

import pytest

from leveret.broker.moving.client.address import AddressTls, ServerAddress
from leveret.broker.moving.client.ended import ConnectionFailed
from leveret.broker.moving.client.tls import context_of
from tests.feature.certificate_authority import CertificateAuthority


def context(**options):
    return context_of(ServerAddress("rabbit.example", tls=AddressTls(**options)))


@pytest.fixture
def authority(tmp_path):
    return CertificateAuthority(tmp_path)


def test_the_same_options_have_the_same_context(authority):
    options = {"cacertfile": authority.certfile, "verify_peer": True}
    assert context(**options) is context(**options)
    assert context(**options) is not context(cacertfile=authority.certfile)


def test_a_file_that_was_changed_is_read_again(authority):
    options = {"cacertfile": authority.certfile, "verify_peer": True}
    before = context(**options)
    os.utime(authority.certfile, (0, 0))
    assert context(**options) is not before


def test_a_server_that_is_not_checked_needs_no_authorities():
    made = context()
    assert (made.verify_mode, made.check_hostname) == (ssl.CERT_NONE, False)
    assert made.get_ca_certs() == []


def test_a_file_that_is_missing_is_told(tmp_path):
    with pytest.raises(ConnectionFailed, match="no authorities can be read from"):
        context(cacertfile=tmp_path / "none", verify_peer=True)
