"""Syslog: the messages, as RabbitMQ's are, and how they get there."""

import logging
import re
import socket
import ssl

import pytest

from leveret.broker.config import ClientTlsOptions, SettingError
from leveret.broker.config.log_settings import OutputSettings, SyslogSettings
from leveret.mgmt.log.formatting import formatter_of
from leveret.mgmt.log.syslog import Syslog
from tests.feature.certificate_authority import CertificateAuthority
from tests.patience import PATIENCE_SECONDS

HOST = re.escape(socket.gethostname())


def record(text="a line", level=logging.INFO):
    made = logging.LogRecord("leveret", level, "", 0, text, (), None)
    made.created, made.process = 1_700_000_000.614250, 4711
    return made


def syslog(**settings):
    handler = Syslog(SyslogSettings(**settings))
    handler.setFormatter(formatter_of(OutputSettings(), "$msg"))
    return handler


@pytest.fixture
def datagrams():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(PATIENCE_SECONDS)
        yield server


@pytest.fixture
def streams():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_SECONDS)
        yield server


def accepted(server):
    connection, _ = server.accept()
    connection.settimeout(PATIENCE_SECONDS)
    return connection.makefile("rb")


def test_udp_and_rfc_3164_are_the_defaults(datagrams):
    handler = syslog(port=datagrams.getsockname()[1])
    handler.emit(record())
    handler.close()
    message = datagrams.recv(999).decode()
    assert re.fullmatch(
        rf"<30>Nov 1\d \d\d:\d\d:20 {HOST} leveret\[4711\] <0\.4711\.0> - a line", message
    )


def test_rfc_5424_over_tcp_has_the_length_before(streams):
    handler = syslog(
        port=streams.getsockname()[1], transport="tcp", protocol="rfc5424", facility="local3",
        identity="rabbitmq-server",
    )  # fmt: skip
    handler.emit(record(level=logging.ERROR))
    handler.close()
    length, _, message = accepted(streams).read().decode().partition(" ")
    assert int(length) == len(message)
    assert re.fullmatch(
        rf"<155>1 2023-11-14T22:13:20\.614250Z {HOST} rabbitmq-server 4711 <0\.4711\.0> - a line",
        message,
    )


def test_tls(streams, tmp_path):
    authority = CertificateAuthority(tmp_path)
    server = authority.issue("server", names=["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certfile, server.keyfile)
    tls = ClientTlsOptions(cacertfile=authority.certfile)
    handler = syslog(port=streams.getsockname()[1], transport="tls", tls=tls)
    handler.emit(record())
    connection, _ = streams.accept()
    connection.settimeout(PATIENCE_SECONDS)
    with context.wrap_socket(connection, server_side=True) as wrapped:
        assert wrapped.recv(999).endswith(b" - a line")
        handler.close()


def test_each_line_is_a_message_unless_they_are_wanted_together(datagrams):
    port = datagrams.getsockname()[1]
    for is_one, count in ((False, 2), (True, 1)):
        handler = syslog(port=port, multiline_mode=is_one)
        handler.setFormatter(logging.Formatter("%(message)s\ntwo"))
        assert len(list(handler.messages(record()))) == count
        handler.close()


def test_messages_wait_for_a_server_that_cannot_be_reached(streams, caplog):
    port = streams.getsockname()[1]
    streams.close()
    handler = syslog(port=port, transport="tcp")
    handler.emit(record("first"))
    handler.emit(record("second"))
    with socket.create_server(("127.0.0.1", port)) as server:
        server.settimeout(PATIENCE_SECONDS)
        handler.close()
        text = accepted(server).read().decode()
    assert "first" in text
    assert "second" in text


def test_rfc_3164_is_refused_with_tls():
    with pytest.raises(SettingError, match="rfc3164 cannot be used with TLS"):
        syslog(transport="tls", protocol="rfc3164")


def test_authorities_that_cannot_be_read_are_refused(tmp_path):
    with pytest.raises(SettingError, match="no authorities can be read"):
        syslog(transport="tls", tls=ClientTlsOptions(cacertfile=tmp_path / "none.pem"))
