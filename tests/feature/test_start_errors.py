"""A mistake in the configuration ends the start with one line: where it is, and what is wrong."""

import os
import socket
import subprocess
import sys

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port


def start(tmp_path, lines=(), *options, **variables):
    """Start a node that has a mistake; returns the last line of its output."""
    file = tmp_path / "rabbitmq.conf"
    file.write_text("".join(f"{line}\n" for line in lines))
    ports = {"--port": free_port(), "--management-port": 0, "--prometheus-port": 0}
    given = [str(part) for name, port in ports.items() if name not in options
             for part in (name, port)]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "leveret.mgmt.cli.entry", "serve", "--config", str(file),
         "--bind", "127.0.0.1", "--data-dir", str(tmp_path / "data"), *given, *options],
        env=os.environ | variables, capture_output=True, text=True, timeout=PATIENCE_SECONDS,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stderr.splitlines()[-1]


@pytest.fixture
def taken():
    """A port that another program uses."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("option", ["--port", "--management-port", "--prometheus-port"])
def test_a_taken_port(tmp_path, taken, option):
    line = start(tmp_path, [], option, str(taken))
    assert line == (
        f"leveret: {option}: cannot listen on 127.0.0.1:{taken}: Address already in use"
    )


def test_a_tls_file_that_does_not_exist(tmp_path):
    lines = ["listeners.ssl.default = 5671", "ssl_options.certfile = /no/server.pem"]
    assert start(tmp_path, lines) == (
        f"leveret: {tmp_path}/rabbitmq.conf line 2: ssl_options.certfile: "
        "/no/server.pem cannot be read: No such file or directory"
    )


def test_a_tls_file_that_is_not_named(tmp_path):
    line = start(tmp_path, ["management.ssl.port = 15671"])
    assert line == (
        "leveret: management.ssl.certfile: a TLS listener needs a certificate: set certfile and "
        "keyfile; set it in the configuration file, or with LEVERET_MANAGEMENT_SSL_CERTFILE"
    )


def test_a_path_prefix_without_a_slash(tmp_path):
    assert start(tmp_path, ["management.path_prefix = mq"]) == (
        f"leveret: {tmp_path}/rabbitmq.conf line 1: management.path_prefix = 'mq': "
        "expected a path that begins with /"
    )


def test_definitions_that_do_not_exist(tmp_path):
    assert start(tmp_path, ["load_definitions = /nofile"]) == (
        f"leveret: {tmp_path}/rabbitmq.conf line 1: load_definitions: "
        "/nofile cannot be read: No such file or directory"
    )


def test_a_misspelt_variable(tmp_path):
    line = start(tmp_path, LEVERET_HEARTBEET="30")
    assert line == (
        "leveret: environment variable LEVERET_HEARTBEET: no setting has this variable; "
        "did you mean LEVERET_HEARTBEAT?"
    )
