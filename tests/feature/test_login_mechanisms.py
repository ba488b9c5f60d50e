"""Logins by certificate (EXTERNAL) and challenge (RABBIT-CR-DEMO); limits of failed logins."""

import ssl
from dataclasses import replace
from functools import partial

import pika
import pytest
from pamqp import commands

from leveret.broker.amqp.frames import PROTOCOL_HEADER
from leveret.broker.config import (
    AuthenticationSettings,
    Config,
    Listener,
    TlsListenerOptions,
    TlsSettings,
)
from leveret.broker.protocols.amqp10.performatives import Accepted, SaslInit
from leveret.testing import LOOPBACK, EmbeddedBroker
from tests.feature.certificate_authority import CertificateAuthority
from tests.protocol.amqp10_socket import Amqp10Socket
from tests.protocol.raw_client import RawClient

REFUSED = (pika.exceptions.ProbableAuthenticationError, pika.exceptions.AuthenticationError)


@pytest.fixture
def authority(tmp_path):
    return CertificateAuthority(tmp_path)


@pytest.fixture
def config(authority):
    server = authority.issue("server", names=["localhost", LOOPBACK])
    return Config(
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


def context_of(authority, identity):
    context = ssl.create_default_context(cafile=authority.certfile)
    if identity is not None:
        context.load_cert_chain(identity.certfile, identity.keyfile)
    return context


def tls_port(broker):
    return broker.call(lambda embedded: embedded.broker.listeners.of("amqp/ssl")[0].port)


def connect(broker, authority, identity):
    context, port = context_of(authority, identity), tls_port(broker)
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            LOOPBACK, port, ssl_options=pika.SSLOptions(context, LOOPBACK),
            credentials=pika.credentials.ExternalCredentials(),
        )
    )  # fmt: skip


def test_a_certificate_is_a_login(config, authority):
    with EmbeddedBroker.in_thread(config) as broker:
        connection = connect(broker, authority, authority.issue("guest"))
        connection.channel().queue_declare("q")
        connection.close()


def test_an_unknown_certificate_or_none_is_not(config, authority):
    with EmbeddedBroker.in_thread(config) as broker:
        for identity in (authority.issue("stranger"), None):
            with pytest.raises(REFUSED):
                connect(broker, authority, identity)


def test_a_certificate_is_a_login_of_amqp_1_0(config, authority):
    with EmbeddedBroker.in_thread(replace(config, compat="4.x")) as broker:
        port, external = tls_port(broker), SaslInit("EXTERNAL", b"")
        tls = context_of(authority, authority.issue("guest"))
        client = Amqp10Socket(port, LOOPBACK, tls, external)
        client.publisher("/queue/q")
        client.publish("x" * 100_000)
        assert client.outcome() == (0, 0, Accepted())
        assert broker.call(lambda embedded: [
            (one.user.name, one.mechanism, one.is_tls) for one in embedded.broker.connections
        ]) == [("guest", "EXTERNAL", True)]  # fmt: skip
        client.close()
        for identity in (authority.issue("stranger"), None):
            with pytest.raises(PermissionError):
                Amqp10Socket(port, LOOPBACK, context_of(authority, identity), external)


def test_external_is_offered_over_tls_only(config):
    with EmbeddedBroker.in_thread(config) as broker, RawClient(broker) as client:
        client.send(PROTOCOL_HEADER)
        assert client.read_method(0, commands.Connection.Start).mechanisms in ("PLAIN", b"PLAIN")


@pytest.mark.parametrize(("password", "is_right"), [("guest", True), ("wrong", False)])
def test_a_challenge_is_answered(password, is_right):
    config = Config(authentication=AuthenticationSettings(mechanisms=("RABBIT-CR-DEMO",)))
    with EmbeddedBroker.in_thread(config) as broker, RawClient(broker) as client:
        client.start(mechanism="RABBIT-CR-DEMO", response="guest")
        secure = client.read_method(0, commands.Connection.Secure)
        assert secure.challenge in (b"Please tell me your password", "Please tell me your password")
        client.send_method(0, commands.Connection.SecureOk, response=f"My password is {password}")
        if is_right:
            client.read_method(0, commands.Connection.Tune)
        else:
            closed = client.read_method(0, commands.Connection.Close)
            assert closed.reply_code == 403


def connect_by_password(port, password):
    credentials = pika.PlainCredentials("guest", password)
    return pika.BlockingConnection(
        pika.ConnectionParameters(LOOPBACK, port, credentials=credentials)
    )


def test_a_user_with_too_many_failures_is_refused_without_a_check():
    config = Config(authentication=AuthenticationSettings(failures_per_minute=3))
    with EmbeddedBroker.in_thread(config) as broker:
        log_in = partial(connect_by_password, broker.port)
        for _ in range(3):
            with pytest.raises(REFUSED):
                log_in("wrong")
        with pytest.raises(REFUSED):
            log_in("guest")


def test_a_user_who_logged_in_before_can_return_while_others_fail():
    config = Config(authentication=AuthenticationSettings(failures_per_minute=3))
    with EmbeddedBroker.in_thread(config) as broker:
        log_in = partial(connect_by_password, broker.port)
        log_in("guest").close()
        for _ in range(5):
            with pytest.raises(REFUSED):
                log_in("wrong")
        log_in("guest").close()
