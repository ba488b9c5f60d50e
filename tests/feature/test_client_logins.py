"""The node's AMQP client connects and logs in, or says why it cannot."""

import asyncio
import socket
import ssl
from dataclasses import replace

import pytest

from leveret.broker.amqp.frames import PROTOCOL_HEADER
from leveret.broker.config import (
    AuthenticationSettings,
    Config,
    Listener,
    TlsListenerOptions,
    TlsSettings,
)
from leveret.broker.moving.client.address import AddressTls, ServerAddress
from leveret.broker.moving.client.connection import ClientConnection
from leveret.broker.moving.client.ended import ConnectionFailed
from leveret.testing import LOOPBACK, EmbeddedBroker
from tests.feature.certificate_authority import CertificateAuthority
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port


async def connect(address):
    connection = await ClientConnection.open(address, {})
    assert connection.is_open
    await connection.close()
    return connection


async def refusal(address):
    with pytest.raises(ConnectionFailed) as raised:
        await ClientConnection.open(address, {})
    return str(raised.value)


@pytest.fixture
async def broker():
    async with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def address(broker):
    return ServerAddress(broker.host, broker.port)


class TestWithoutTls:
    @pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
    async def test_a_login(self, address, mechanism):
        connection = await connect(replace(address, mechanisms=(mechanism,)))
        assert connection.closed.result() == (200, "closed by this node")

    async def test_a_wrong_password(self, address):
        assert await refusal(replace(address, user="ann", password="wrong")) == (
            f"{address} refuses the login of user 'ann': 403, ACCESS_REFUSED - Login was refused "
            "using authentication mechanism PLAIN. For details see the broker logfile."
        )

    async def test_a_vhost_that_is_not_there(self, address):
        assert await refusal(replace(address, vhost="burrow")) == (
            f"{address} refuses vhost 'burrow' to user 'guest': 530, NOT_ALLOWED - vhost burrow "
            "not found"
        )

    async def test_external_is_not_offered_without_tls(self, address):
        text = await refusal(replace(address, mechanisms=("EXTERNAL",)))
        assert text.endswith("and not EXTERNAL: choose another one with auth_mechanism")

    async def test_a_port_without_a_listener(self):
        address = ServerAddress(LOOPBACK, free_port())
        assert (await refusal(address)).startswith(f"{address} cannot be reached: ")

    async def test_a_host_that_does_not_exist(self):
        address = ServerAddress("rabbit.invalid")
        assert (await refusal(address)).startswith(f"{address} cannot be reached: ")

    async def test_a_server_that_says_nothing(self):
        with socket.create_server((LOOPBACK, 0)) as silent:
            address = ServerAddress(LOOPBACK, silent.getsockname()[1], connection_timeout_s=0.05)
            text = await refusal(address)
        assert text == f"{address} does not answer connection.start within 0.05 s"

    async def test_an_attempt_that_is_cancelled_closes_its_socket(self):
        arrived, ended = asyncio.Event(), asyncio.Event()

        async def serve(reader, writer):
            await reader.readexactly(len(PROTOCOL_HEADER))
            arrived.set()
            await reader.read()
            writer.close()
            ended.set()

        async with await asyncio.start_server(serve, LOOPBACK, 0) as server:
            address = ServerAddress(LOOPBACK, server.sockets[0].getsockname()[1])
            opening = asyncio.ensure_future(ClientConnection.open(address, {}))
            await asyncio.wait_for(arrived.wait(), PATIENCE_SECONDS)
            opening.cancel()
            await asyncio.wait_for(ended.wait(), PATIENCE_SECONDS)
            with pytest.raises(asyncio.CancelledError):
                await opening


@pytest.fixture
def authority(tmp_path):
    return CertificateAuthority(tmp_path)


@pytest.fixture
async def tls_address(authority):
    """The address of a broker with TLS, whose clients may log in with a certificate."""
    server = authority.issue("server", names=["localhost", LOOPBACK])
    config = Config(
        authentication=AuthenticationSettings(mechanisms=("PLAIN", "EXTERNAL")),
        tls=TlsSettings(
            listeners=(Listener(LOOPBACK, 0),),
            options=TlsListenerOptions(
                cacertfile=authority.certfile, certfile=server.certfile, keyfile=server.keyfile,
                verify="verify_peer",
            ),
            login_from="common_name",
        ),
    )  # fmt: skip
    async with EmbeddedBroker(config) as broker:
        yield ServerAddress(
            LOOPBACK, broker.broker.listeners.of("amqp/ssl")[0].port, tls=AddressTls()
        )


class TestWithTls:
    async def test_a_certificate_that_is_not_checked(self, tls_address):
        await connect(tls_address)

    async def test_a_certificate_that_is_checked(self, tls_address, authority):
        tls = AddressTls(cacertfile=authority.certfile, verify_peer=True)
        await connect(replace(tls_address, tls=tls))
        await connect(replace(tls_address, tls=replace(tls, server_name_indication="localhost")))
        await connect(replace(tls_address, tls=replace(tls, server_name_indication="disable")))

    async def test_a_certificate_of_an_unknown_authority(self, tls_address):
        text = await refusal(replace(tls_address, tls=AddressTls(verify_peer=True)))
        assert text.startswith(f"{tls_address}: TLS fails: ")
        assert "certificate" in text

    async def test_a_certificate_for_another_name(self, tls_address, authority):
        tls = AddressTls(
            cacertfile=authority.certfile, verify_peer=True, server_name_indication="other"
        )
        text = await refusal(replace(tls_address, tls=tls))
        assert text.startswith(f"{tls_address}: TLS fails: Hostname mismatch")

    async def test_a_login_with_a_certificate(self, tls_address, authority):
        guest = authority.issue("guest")
        tls = AddressTls(certfile=guest.certfile, keyfile=guest.keyfile)
        await connect(replace(tls_address, tls=tls, mechanisms=("EXTERNAL",)))

    async def test_a_context(self, tls_address, authority):
        context = ssl.create_default_context(cafile=authority.certfile)
        await connect(replace(tls_address, tls=context))

    async def test_files_that_are_missing(self, tls_address, tmp_path):
        tls = AddressTls(certfile=tmp_path / "missing.pem")
        text = await refusal(replace(tls_address, tls=tls))
        assert text.startswith(f"{tls_address} cannot be connected to: no certificate and key in")

    async def test_a_server_without_tls(self, address):
        text = await refusal(replace(address, tls=AddressTls()))
        assert text.startswith(f"amqps://{address.host}:{address.port}: TLS fails: ")

    async def test_a_server_with_tls_without_it(self, tls_address):
        plain = replace(tls_address, tls=None)
        assert await refusal(plain) == (
            f"{plain} refuses the connection: the server closed the socket: end of file; if it "
            "speaks TLS, connect with amqps://"
        )
