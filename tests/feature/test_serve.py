"""`leveret serve` as a process: starting, stopping, restarting, and failing to start."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import pika
import pytest
from pika import exceptions

from tests.forked_programs import start_program
from tests.patience import LOOK_SECONDS, PATIENCE_SECONDS
from tests.ports import free_port


class Server:
    """A node and its address."""

    def __init__(self, folder, *options, environment=None):
        self.port = free_port()
        self.folder = folder
        self._log = folder.with_name(f"{folder.name} {self.port}.log")
        with self._log.open("w") as output:
            self.process = start_program(
                "leveret", "serve", "--bind", "127.0.0.1", "--port", self.port,
                "--management-port", 0, "--prometheus-port", 0, "--data-dir", folder, *options,
                output=output, environment={**os.environ, **(environment or {})},
            )  # fmt: skip

    def wait_until_ready(self):
        """Return the lines that it printed until it was ready."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while " ready in" not in (printed := self._log.read_text()):
            assert self.process.poll() is None, f"the node did not start: {printed}"
            assert time.monotonic() < deadline, f"the node is not ready: {printed}"
            time.sleep(LOOK_SECONDS)
        return printed.splitlines()

    def connect(self):
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.port, heartbeat=0)
        )

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.wait_for_end()

    def wait_for_end(self):
        """Wait until it has ended; return what it printed."""
        self.process.wait(PATIENCE_SECONDS)
        return self._log.read_text()


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path / "data")
    server.wait_until_ready()
    yield server
    if server.process.poll() is None:
        server.stop(signal.SIGKILL)


def test_a_listener_for_streams_is_named(tmp_path):
    settings = tmp_path / "leveret.conf"
    settings.write_text(f"stream.listeners.tcp.1 = 127.0.0.1:{free_port()}\n")
    server = Server(tmp_path / "data", "--config", str(settings))
    lines = server.wait_until_ready()
    server.stop()
    assert any("listening for the stream protocol on 127.0.0.1:" in line for line in lines)


def test_durable_objects_come_back_after_a_kill(server):
    connection = server.connect()
    channel = connection.channel()
    channel.exchange_declare("x", "topic", durable=True)
    channel.queue_declare("q", durable=True, arguments={"x-max-length": 5})
    channel.queue_declare("gone")
    channel.queue_bind("q", "x", "a.#", arguments={"n": 1})
    server.stop(signal.SIGKILL)

    again = Server(server.folder)
    again.wait_until_ready()
    channel = again.connect().channel()
    channel.queue_declare("q", durable=True, arguments={"x-max-length": 5})
    channel.basic_publish("x", "a.b", b"routed")
    assert channel.basic_get("q", auto_ack=True)[2] == b"routed"
    with pytest.raises(exceptions.ChannelClosedByBroker):
        channel.queue_declare("gone", passive=True)
    again.stop()


def test_a_copy_of_a_stopped_nodes_directory_is_a_node(server, tmp_path):
    channel = server.connect().channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"kept", pika.BasicProperties(delivery_mode=2))
    server.stop()
    shutil.copytree(server.folder, tmp_path / "copy")
    copy = Server(tmp_path / "copy")
    lines = copy.wait_until_ready()
    assert any("restored 1 queues, with 1 messages in classic queues" in line for line in lines)
    assert copy.connect().channel().basic_get("q", auto_ack=True)[2] == b"kept"
    copy.stop()


def test_clients_are_told_when_it_stops(server):
    connection = server.connect()
    server.process.send_signal(signal.SIGTERM)
    with pytest.raises(exceptions.ConnectionClosedByBroker) as error:
        connection.process_data_events(time_limit=PATIENCE_SECONDS)
    assert error.value.reply_code == 320
    server.process.wait(PATIENCE_SECONDS)
    assert server.process.returncode == 0


def test_the_log_of_an_orderly_stop_has_no_errors(server):
    connection = server.connect()
    connection.channel().queue_declare("q", durable=True)
    connection.close()
    output = server.stop()
    assert output.splitlines()[-1].endswith("stopped")
    assert not [word for word in ("[error]", "Traceback", "never retrieved") if word in output]


def test_systemd_is_told_when_it_is_ready_and_when_it_stops(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(PATIENCE_SECONDS)
        server = Server(tmp_path / "data", environment={"NOTIFY_SOCKET": systemd.getsockname()})
        assert systemd.recv(100) == b"READY=1"
        server.connect().close()
        server.stop()
        assert systemd.recv(100) == b"STOPPING=1"


def test_a_second_server_on_the_same_data_is_refused(server):
    second = Server(server.folder)
    output = second.wait_for_end()
    assert second.process.returncode == 1
    assert f"process {server.process.pid}" in output


def test_an_unknown_key_is_named_with_the_nearest_one(tmp_path):
    file = tmp_path / "rabbitmq.conf"
    file.write_text("# settings\nheartbeet = 30\n")
    server = Server(tmp_path / "data", "--config", str(file))
    output = server.wait_for_end()
    assert server.process.returncode == 2
    assert "rabbitmq.conf" in output
    assert "line 2" in output
    assert "'heartbeet'" in output
    assert "'heartbeat'" in output


def test_a_name_with_line_breaks_forges_no_line_of_the_log(server):
    name = "eve\n2030-01-01 00:00:00 [INFO] leveret: all is well\x1b[2J\u2028"
    with pytest.raises(exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(
            pika.ConnectionParameters(
                "127.0.0.1", server.port, credentials=pika.PlainCredentials(name, "x")
            )
        )
    log = server.stop()
    assert "'eve\\n2030-01-01 00:00:00 [INFO] leveret: all is well\\x1b[2J\\u2028'" in log
    assert not any(line.startswith("2030") for line in log.splitlines())


def test_the_command_says_first_what_runs_where_and_the_environment_sets_its_port(tmp_path):
    port = free_port()
    process = subprocess.Popen(
        [
            sys.executable, "-m", "leveret.mgmt.cli.entry", "serve", "--node", "hare@here",
            "--data-dir", str(tmp_path),
        ],
        stdout=subprocess.PIPE, text=True,
        env=os.environ
        | {"LEVERET_PORT": str(port), "LEVERET_BIND": "127.0.0.1"}
        | dict.fromkeys(("LEVERET_MANAGEMENT_PORT", "LEVERET_PROMETHEUS_PORT"), "0"),
    )  # fmt: skip
    first = next(process.stdout)
    listening = next(line for line in process.stdout if "AMQP on" in line)
    process.terminate()
    process.communicate(timeout=PATIENCE_SECONDS)
    for text in ("Leveret", "hare@here", str(tmp_path)):
        assert text in first
    assert f"listening for AMQP on 127.0.0.1:{port}" in listening
