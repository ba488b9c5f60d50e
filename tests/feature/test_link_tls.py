"""Links with TLS: both sides show a certificate for the host of their name, and check it."""

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
import uvloop

from leveret.broker.config import LinkTlsOptions, SettingError
from leveret.cluster.links.compression import readable_methods
from leveret.cluster.links.tls import LinkTls, is_certificate_for
from tests.feature.certificate_authority import CertificateAuthority
from tests.unit.cluster.links.fakes import (
    LinkedNode,
    check_a_stop_while_the_other_sends,
    linked,
    system_clock,
    until,
)


@pytest.fixture
def authority(tmp_path):
    return CertificateAuthority(tmp_path)


def options(authority, identity):
    return LinkTlsOptions(identity.certfile, identity.keyfile, authority.certfile)


@asynccontextmanager
async def started(name, tls=None, **more):
    """A node. tls: its options; None for links without TLS."""
    node = LinkedNode(name, tls=tls and LinkTls(tls, system_clock()), **more)
    await node.links.start()
    try:
        yield node
    finally:
        await node.links.stop()


@asynccontextmanager
async def pair(of_a, of_b, **more):
    """Two nodes, of which the second dials the first."""
    async with started("a@127.0.0.1", of_a, **more) as a, started("b@127.0.0.1", of_b, **more) as b:
        b.dial(a)
        yield a, b


async def refused(caplog, *texts):
    """Wait until all of the texts are in the log."""
    await until(lambda: all(text in caplog.text for text in texts))


async def check_frames_over_tls(authority, **more):
    one = authority.issue("one", names=["127.0.0.1"])
    other = authority.issue("other", names=["127.0.0.1"])
    large = bytes(range(256)) * 20_000
    async with pair(options(authority, one), options(authority, other), **more) as (a, b):
        await linked(a, b)
        for payload in (b"small", large, b"last"):
            a.send(b, payload)
            b.send(a, payload)
        await until(lambda: len(a.service.received_payloads) == 3)
        await until(lambda: len(b.service.received_payloads) == 3)
        assert a.service.received_payloads == [b"small", large, b"last"]
        transport = a.service.up[b.name]._transport
        assert transport.get_extra_info("ssl_object").version() == "TLSv1.3"


async def test_frames_over_tls(authority):
    await check_frames_over_tls(authority)


async def check_a_stop_over_tls(authority):
    one = authority.issue("one", names=["127.0.0.1"])
    other = authority.issue("other", names=["127.0.0.1"])
    async with pair(options(authority, one), options(authority, other)) as (a, b):
        await check_a_stop_while_the_other_sends(a, b)


async def test_what_was_sent_before_a_stop_arrives_over_tls(authority):
    await check_a_stop_over_tls(authority)


def test_what_was_sent_before_a_stop_arrives_over_tls_on_uvloop(authority):
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(check_a_stop_over_tls(authority))


def test_frames_over_tls_and_compressed_on_uvloop(authority):
    compressed = {"compression": "deflate", "compressions": readable_methods()}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(check_frames_over_tls(authority))
        runner.run(check_frames_over_tls(authority, identity=compressed))


async def test_a_certificate_of_another_authority_is_refused(authority, tmp_path, caplog):
    stranger = CertificateAuthority(tmp_path, "stranger")
    ours = authority.issue("ours", names=["127.0.0.1"])
    theirs = stranger.issue("theirs", names=["127.0.0.1"])
    trusting = LinkTlsOptions(theirs.certfile, theirs.keyfile, authority.certfile)
    # The dialler does not trust the acceptor's, then the acceptor does not trust the dialler's.
    async with pair(trusting, options(authority, ours)) as (a, b):
        await refused(caplog, "no link with a@127.0.0.1", "TLS fails: unable to get local issuer")
        assert not a.service.calls + b.service.calls
    caplog.clear()
    async with pair(options(authority, ours), trusting) as (a, b):
        await refused(caplog, "the TLS handshake of a client failed: unable to get local issuer")
        assert "unknown address" not in caplog.text
        assert not a.service.calls + b.service.calls


async def test_a_certificate_for_another_host_is_refused_by_the_dialler(authority, caplog):
    ours = options(authority, authority.issue("ours", names=["127.0.0.1"]))
    elsewhere = options(authority, authority.issue("elsewhere", names=["127.0.0.2", "b.example"]))
    async with pair(elsewhere, ours) as (a, b):
        await refused(caplog, "TLS fails: IP address mismatch, certificate is not valid for")
        assert not a.service.calls + b.service.calls


async def test_a_certificate_for_another_host_is_refused_by_the_acceptor(authority, caplog):
    ours = options(authority, authority.issue("ours", names=["127.0.0.1"]))
    elsewhere = options(authority, authority.issue("elsewhere", names=["127.0.0.2", "b.example"]))
    async with pair(ours, elsewhere) as (a, b):
        await refused(
            caplog,
            "the certificate of node b@127.0.0.1 is not valid for the host 127.0.0.1",
            "node a@127.0.0.1 refuses this node (certificate): its log says why",
        )
        assert not a.service.calls + b.service.calls


async def test_an_expired_certificate_is_refused(authority, caplog):
    ours = options(authority, authority.issue("ours", names=["127.0.0.1"]))
    old = authority.issue("old", names=["127.0.0.1"], lifetime=timedelta(minutes=-1))
    async with pair(options(authority, old), ours):
        await refused(caplog, "TLS fails: certificate has expired")


async def test_a_node_without_tls_and_one_with_it_are_not_linked(authority, caplog):
    ours = options(authority, authority.issue("ours", names=["127.0.0.1"]))
    async with pair(None, ours) as (a, b):
        await refused(
            caplog,
            "does not speak the protocol between Leveret nodes",
            "it closed the connection before the handshake; all nodes of a cluster need",
        )
        assert not a.service.calls + b.service.calls
    caplog.clear()
    async with pair(ours, None) as (a, b):
        await refused(caplog, "the TLS handshake of a client failed", "no link with a@127.0.0.1")
        assert not a.service.calls + b.service.calls


async def test_renewed_certificates_count_for_new_links(authority):
    """Both keep their old certificates until the authority is replaced, too."""
    old = options(authority, authority.issue("node", names=["127.0.0.1"]))
    async with pair(old, old) as (a, b):
        await linked(a, b)
        before = a.service.up[b.name]._transport.get_extra_info("peercert")["serialNumber"]
        authority.issue("node", names=["127.0.0.1"])
        a.links.drop(b.name, "a test")
        await linked(a, b)
        after = a.service.up[b.name]._transport.get_extra_info("peercert")["serialNumber"]
        assert after != before


async def test_tls_without_authorities_is_an_error_at_the_start(authority):
    one = authority.issue("one", names=["127.0.0.1"])
    with pytest.raises(SettingError, match="need authorities") as caught:
        LinkTls(LinkTlsOptions(one.certfile, one.keyfile), system_clock())
    assert caught.value.attribute == "cluster.tls.cacertfile"


async def test_a_missing_file_is_an_error_at_the_start(authority, tmp_path):
    missing = LinkTlsOptions(tmp_path / "no.pem", None, authority.certfile)
    with pytest.raises(SettingError, match="no.pem cannot be read") as caught:
        LinkTls(missing, system_clock())
    assert caught.value.attribute == "cluster.tls.certfile"


@pytest.mark.parametrize(
    ("names", "host", "is_valid"),
    [
        (["node1"], "NODE1", True),
        (["node1.example.com"], "node1.example.com", True),
        (["*.example.com"], "node1.example.com", True),
        (["*.example.com"], "a.node1.example.com", False),
        (["*.example.com"], "example.com", False),
        (["*"], "node1", False),
        (["node1"], "node2", False),
        (["127.0.0.1"], "127.0.0.1", True),
        (["127.0.0.1"], "127.0.0.2", False),
        (["::1"], "::1", True),
        ([], "node1", False),
    ],
)
def test_a_certificate_is_for_the_hosts_among_its_names(authority, names, host, is_valid):
    assert is_certificate_for(authority.issue("node1", names=names).der, host) is is_valid


def test_bytes_that_are_not_a_certificate_match_no_host():
    assert not is_certificate_for(b"\x30\x03\x02\x01\x01", "node1")
