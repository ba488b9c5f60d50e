"""A mistake in the configuration ends the start with one line: where it is, and what is wrong."""

import os
import socket

import pytest
from typer.testing import CliRunner

from leveret.broker.config.known_settings import OWN
from leveret.mgmt.cli.application import app
from leveret.mgmt.definitions.contents import fault_in_json
from tests.forked_programs import run_program
from tests.ports import free_port


def start(tmp_path, lines=(), *options, **variables):
    """Start a node that has a mistake; returns the last line of its output."""
    file = tmp_path / "rabbitmq.conf"
    file.write_text("".join(f"{line}\n" for line in lines))
    defaults = {
        "--data-dir": tmp_path / "data", "--port": free_port(), "--management-port": 0,
        "--prometheus-port": 0,
    }  # fmt: skip
    given = [part for name, value in defaults.items() if name not in options
             for part in (name, value)]  # fmt: skip
    done = run_program(
        "leveret", "serve", "--config", file, "--bind", "127.0.0.1", *given, *options,
        environment=os.environ | variables,
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


@pytest.mark.parametrize(("content", "fault"), [
    (b'{"queues": [', "it is not JSON: line 1 column 13: Expecting value"),
    (b'{"users":\n [}', "it is not JSON: line 2 column 3: Expecting value"),
    (b"[1]", "it is not a JSON object of lists"),
    (b"\xff\xfe", "it is not UTF-8 text: byte 0 is 0xff"),
])  # fmt: skip
def test_definitions_that_are_not_json(tmp_path, content, fault):
    file = tmp_path / "definitions.json"
    file.write_bytes(content)
    if b"users" in content:
        # One start is enough for the whole way.
        assert start(tmp_path, [f"load_definitions = {file}"]) == (
            f"leveret: {tmp_path}/rabbitmq.conf line 1: load_definitions: "
            f"the definitions in {file} cannot be loaded: {fault}"
        )
    assert fault_in_json(content) == fault


def test_a_data_directory_that_cannot_be_used(tmp_path):
    (tmp_path / "taken").write_text("a file")
    line = start(tmp_path, [], "--data-dir", str(tmp_path / "taken"))
    assert line.startswith(
        f"leveret: --data-dir: the data directory {tmp_path}/taken cannot be used: "
    )


def test_a_log_directory_that_cannot_be_used(tmp_path):
    (tmp_path / "taken").write_text("a file")
    assert start(tmp_path, ["log.file = a.log", f"log.dir = {tmp_path}/taken"]) == (
        f"leveret: {tmp_path}/rabbitmq.conf line 2: log.dir: "
        f"{tmp_path}/taken/a.log cannot be written: File exists"
    )


def test_a_backend_that_cannot_be_set_up(tmp_path):
    lines = [
        "auth_backends.1 = internal", "auth_backends.2 = oauth2",
        "auth_oauth2.resource_server_id = mq", "auth_oauth2.signing_keys.one = /no/one.pem",
    ]  # fmt: skip
    assert start(tmp_path, lines) == (
        f"leveret: {tmp_path}/rabbitmq.conf line 2: auth_backends.2: the backend oauth2 cannot be "
        "set up: /no/one.pem cannot be used: No such file or directory"
    )


def test_a_port_that_is_not_a_number(tmp_path):
    assert start(tmp_path, [], "--port", "amqp") == (
        "leveret: --port = 'amqp': expected a whole number, 0 to 65535"
    )


def test_the_help_has_the_default_and_the_variable_of_each_option(monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    text = " ".join(CliRunner().invoke(app, ["serve", "--help"]).output.split())
    for flag, setting in OWN.by_flag.items():
        assert f"--{flag.replace('_', '-')} " in text
        assert f"(default: {setting.default_text}; variable: {setting.variable})" in text
    assert "variable: LEVERET_CONFIG)" in text


SHOVEL = '[{rabbitmq_shovel, [{shovels, [{s, [{source, [{uris, ["amqp://"]}]}]}]}]}].'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[{rabbit, [}].", "line 1, column 12: the text has '}' where a term has to be"),
        (SHOVEL, "shovel 's': destination is missing (missing_parameter)"),
    ],
)
def test_an_advanced_config_that_is_wrong(tmp_path, text, told):
    (tmp_path / "advanced.config").write_text(text)
    assert start(tmp_path) == f"leveret: {tmp_path}/advanced.config: {told}"
