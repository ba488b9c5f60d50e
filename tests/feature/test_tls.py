"""Clients over TLS, with and without certificates.

Versions, and which certificates are taken, are in tests/unit/broker/net/test_tls.py.
"""

import asyncio
import contextlib
import os
import ssl
from dataclasses import replace
from inspect import signature

import aio_pika
import pika
import pytest
import uvloop

from leveret.broker.config import (
    AuthenticationSettings,
    Config,
    Listener,
    TlsListenerOptions,
    TlsSettings,
)
from leveret.testing import LOOPBACK, EmbeddedBroker
from tests.feature.certificate_authority import CertificateAuthority
from tests.patience import PATIENCE_SECONDS, until

LARGE_BYTES = 3_000_000
REFUSED = (aio_pika.exceptions.AMQPConnectionError, ssl.SSLError, ConnectionError)


@pytest.fixture
def authority(tmp_path):
    return CertificateAuthority(tmp_path)


@pytest.fixture
def config(authority):
    """A TLS listener that requests certificates and does not require them."""
    server = authority.issue("server", names=["localhost", LOOPBACK])
    return Config(
        tls=TlsSettings(
            listeners=(Listener(LOOPBACK, 0),),
            options=TlsListenerOptions(
                cacertfile=authority.certfile,
                certfile=server.certfile,
                keyfile=server.keyfile,
                verify="verify_peer",
            ),
        )
    )


def with_options(config, **changes):
    """Return the configuration with other TLS options."""
    options = replace(config.tls.options, **changes)
    return replace(config, tls=replace(config.tls, options=options))


def with_external(config, login_from, **changes):
    """Return the configuration with the mechanism EXTERNAL first."""
    return replace(
        config,
        tls=replace(config.tls, login_from=login_from),
        authentication=AuthenticationSettings(mechanisms=("EXTERNAL", "PLAIN")),
        **changes,
    )


def port_of(embedded):
    return embedded.broker.listeners.of("amqp/ssl")[0].port


def client_context(authority, identity=None):
    context = ssl.create_default_context(cafile=authority.certfile)
    if identity is not None:
        context.load_cert_chain(identity.certfile, identity.keyfile)
    return context


def connect(embedded, context):
    """Open a connection with aio-pika."""
    url = f"amqps://guest:guest@{LOOPBACK}:{port_of(embedded)}/"
    return asyncio.wait_for(aio_pika.connect(url, ssl_context=context), PATIENCE_SECONDS)


# Clients


def test_pika_publishes_and_consumes(config, authority):
    with EmbeddedBroker.in_thread(config) as broker:
        parameters = pika.ConnectionParameters(
            LOOPBACK,
            broker.call(port_of),
            ssl_options=pika.SSLOptions(client_context(authority), "localhost"),
            blocked_connection_timeout=PATIENCE_SECONDS,
        )
        with contextlib.closing(pika.BlockingConnection(parameters)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("q")
            channel.basic_publish("", "q", b"hello")
            assert channel.basic_get("q", auto_ack=True)[2] == b"hello"


async def test_large_messages_and_many_come_through_whole(config, authority):
    bodies = [os.urandom(LARGE_BYTES), *(str(number).encode() for number in range(500))]
    async with (
        EmbeddedBroker(config) as embedded,
        await connect(embedded, client_context(authority)) as connection,
    ):
        channel = await connection.channel()
        queue = await channel.declare_queue("q")
        for body in bodies:
            await channel.default_exchange.publish(aio_pika.Message(body), "q")
        async with queue.iterator(no_ack=True, timeout=PATIENCE_SECONDS) as messages:
            received = [(await anext(messages)).body for _ in bodies]
    assert received == bodies


async def test_management_is_told_of_the_session(config, authority):
    client = client_context(authority, authority.issue("hare"))
    async with EmbeddedBroker(config) as embedded, await connect(embedded, client):
        (connection,) = embedded.broker.connections
        facts = connection.tls_facts()
        assert (facts["ssl"], facts["ssl_protocol"]) == (True, "tlsv1.3")
        assert facts["peer_cert_subject"] == "CN=hare,O=Burrow"


async def test_plain_listeners_stay_plain(config):
    async with EmbeddedBroker(config) as embedded, await aio_pika.connect(embedded.url):
        (connection,) = embedded.broker.connections
        assert connection.tls_facts() == {}


# Versions


# Clients' certificates


async def test_a_client_must_have_a_certificate_if_that_is_asked(config, authority, tmp_path):
    strict = with_options(config, fail_if_no_peer_cert=True)
    stranger = CertificateAuthority(tmp_path, "other").issue("stranger")
    async with EmbeddedBroker(strict) as embedded:
        with pytest.raises(REFUSED, match=r"(?i)certificate required"):
            await connect(embedded, client_context(authority))
        with pytest.raises(REFUSED, match=r"(?i)unknown ca"):
            await connect(embedded, client_context(authority, stranger))
        async with await connect(embedded, client_context(authority, authority.issue("hare"))):
            assert len(embedded.broker.connections) == 1


async def test_too_many_authorities_between(config, authority, tmp_path):
    burrow = CertificateAuthority(tmp_path, "burrow", above=authority)
    client = client_context(authority, burrow.issue("client", chain=[burrow]))
    async with EmbeddedBroker(with_options(config, depth=0)) as embedded:
        with pytest.raises(REFUSED):
            await connect(embedded, client)
    async with (
        EmbeddedBroker(with_options(config, depth=1)) as embedded,
        await connect(embedded, client),
    ):
        assert len(embedded.broker.connections) == 1


# Logging in with a certificate


def log_in(port, context):
    """Open a connection with pika that authenticates by its certificate only."""
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            LOOPBACK,
            port,
            credentials=pika.credentials.ExternalCredentials(),
            ssl_options=pika.SSLOptions(context, "localhost"),
        )
    )


@pytest.mark.parametrize(
    ("source", "user"),
    [
        ("distinguished_name", "CN=hare,O=Burrow"),
        ("common_name", "hare"),
        ("subject_alternative_name", "hare.example"),
    ],
)
def test_the_certificate_names_the_user(config, authority, source, user):
    named = with_external(config, source, default_user=user)
    client = client_context(authority, authority.issue("hare", names=["hare.example"]))
    with EmbeddedBroker.in_thread(named) as broker:
        with contextlib.closing(log_in(broker.call(port_of), client)):
            names = broker.call(lambda it: [one.user.name for one in it.broker.connections])
        assert names == [user]


def test_a_certificate_without_a_user_name_or_none_does_not_log_in(config, authority):
    named = with_external(config, "common_name")
    with EmbeddedBroker.in_thread(named) as broker:
        port = broker.call(port_of)
        fox = client_context(authority, authority.issue("fox"))
        for context in (fox, client_context(authority)):
            with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="EXTERNAL"):
                log_in(port, context)


# Refused clients


async def test_a_client_that_speaks_no_tls_is_dropped_at_once(config, caplog):
    async with EmbeddedBroker(config) as embedded:
        reader, writer = await asyncio.open_connection(LOOPBACK, port_of(embedded))
        writer.write(b"AMQP\x00\x00\x09\x01")
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await reader.read() == b""
        writer.close()
        assert "the TLS handshake of a client failed: wrong version number" in caplog.text


@pytest.mark.parametrize("first", [b"", b"\x16\x03\x01\x02\x00\x01"])
async def test_a_client_that_does_not_go_on_is_dropped(config, first):
    impatient = replace(config, tls=replace(config.tls, handshake_timeout_ms=100))
    async with EmbeddedBroker(impatient) as embedded:
        reader, writer = await asyncio.open_connection(LOOPBACK, port_of(embedded))
        writer.write(first)
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert await reader.read() == b""
        writer.close()
        assert not embedded.broker.connections


# Replacing certificates


async def test_a_new_certificate_is_for_new_connections(config, authority, tmp_path):
    async with (
        EmbeddedBroker(config, virtual_clock=True) as embedded,
        await connect(embedded, client_context(authority)) as early,
    ):
        channel = await early.channel()
        other = CertificateAuthority(tmp_path, "other")
        other.issue("server", names=["localhost", LOOPBACK])
        embedded.advance(seconds=5)
        with pytest.raises(REFUSED, match="certificate verify failed"):
            await connect(embedded, client_context(authority))
        async with await connect(embedded, client_context(other)):
            # The earlier one continues its session.
            assert (await channel.declare_queue("q")).name == "q"
            assert len(embedded.broker.connections) == 2


# End of connections


async def test_a_broker_that_stops_tells_its_tls_clients(config, authority):
    embedded = EmbeddedBroker(config)
    await embedded.start()
    connection = await connect(embedded, client_context(authority))
    closed = []
    connection.close_callbacks.add(lambda _, error: closed.append(error))
    await asyncio.wait_for(embedded.stop(), PATIENCE_SECONDS)
    await until(lambda: closed)
    assert "CONNECTION_FORCED" in str(closed[0])


# The event loop of a server process

ON_UVLOOP = [
    test_large_messages_and_many_come_through_whole,
    test_management_is_told_of_the_session,
    test_a_client_must_have_a_certificate_if_that_is_asked,
    test_too_many_authorities_between,
    test_a_client_that_speaks_no_tls_is_dropped_at_once,
    test_a_new_certificate_is_for_new_connections,
    test_a_broker_that_stops_tells_its_tls_clients,
]
"""uvloop has its own TLS implementation, so these are tested with it, too."""


@pytest.mark.parametrize("check", ON_UVLOOP)
def test_on_uvloop(request, check):
    arguments = {name: request.getfixturevalue(name) for name in signature(check).parameters}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(check(**arguments))


# The stream protocol


async def test_a_stream_client_publishes_and_is_led_to_the_listener_with_tls(config, authority):
    rstream = pytest.importorskip("rstream", reason="the extra [test] is not fully installed")
    stream = replace(
        config.stream, tls_listeners=(Listener(LOOPBACK, 0),), advertised_host=LOOPBACK
    )
    config = replace(config, stream=stream)
    async with EmbeddedBroker(config) as embedded, asyncio.timeout(PATIENCE_SECONDS):
        client = {
            "host": LOOPBACK, "port": embedded.broker.listeners.of("stream/ssl")[0].port,
            "username": "guest", "password": "guest", "ssl_context": client_context(authority),
        }  # fmt: skip
        async with rstream.Producer(**client) as producer:
            await producer.create_stream("s")
            await producer.send_wait("s", bytes(LARGE_BYTES // 10))
            await producer.send_wait("s", b"hello")
        received = asyncio.Queue()
        async with rstream.Consumer(**client) as consumer:
            await consumer.start()
            await consumer.subscribe(
                "s",
                lambda message, context: received.put(message),
                offset_specification=rstream.ConsumerOffsetSpecification(rstream.OffsetType.FIRST),
            )
            assert [len(await received.get()) for _ in range(2)] == [LARGE_BYTES // 10, 5]
