"""Starts and stops the brokers that are compared.

Each is a process tree with its own temporary directory, listening on loopback only: Leveret from
this source tree or another one, Debian's RabbitMQ with a node name, an Erlang port mapper and a
database of its own, so that an installed or running one is not touched, and the relay (relay.c),
which shows the bound. Brokers use their defaults, with policies that only the queues of some loads
match (node_files.py), and settings that a scenario makes for both. A broker counts as started when
it answers a protocol header.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests import ports

from . import other_rabbitmq
from .measure import tree
from .node_files import PLUGIN, RABBITMQ_TRACES, shared_settings

HOST = "127.0.0.1"
PREFERRED_PORTS = {
    "leveret": 5682, "rabbitmq": 5683, "dist": 25683, "epmd": 24369, "relay": 5684,
    "leveret-tls": 5692, "rabbitmq-tls": 5693, "management": 15682, "metrics": 15692,
}  # fmt: skip
STREAM_PLUGIN = "rabbitmq_stream"
START_SECONDS = 90
STOP_SECONDS = 20
OUTPUT = "output.log"
ROOT = Path(__file__).resolve().parents[2]
RABBITMQ_HOMES = Path("/usr/lib/rabbitmq/lib")
GUEST = "Basic " + b64encode(b"guest:guest").decode()


class BrokerFailed(Exception):
    """A broker is missing or did not start."""


@dataclass(frozen=True)
class Broker:
    """A running broker: its listeners, and the root of its process tree."""

    name: str
    port: int
    pid: int
    host: str = HOST
    tls_port: int = 0
    """0: none."""
    metrics_port: int = 0
    others: tuple[Broker, ...] = ()
    """The other nodes of its cluster. Consumers use the first one, and queues live on the last."""

    @property
    def address(self) -> list[str]:
        """Its address, as options of the load generator."""
        words = [f"--host={self.host}", f"--port={self.port}"]
        return [*words, f"--consumer-port={self.others[0].port}"] if self.others else words

    @property
    def home(self) -> Broker:
        """The node on which queues are declared."""
        return self.others[-1] if self.others else self

    @property
    def pids(self) -> tuple[int, ...]:
        """The roots of the process trees of all its nodes."""
        return self.pid, *(other.pid for other in self.others)

    @property
    def tls_address(self) -> list[str]:
        """The address of its TLS listener."""
        return [f"--host={self.host}", f"--port={self.tls_port}"]


def free_port(wanted: int) -> int:
    """Return the wanted port if it is free, or another one, which is not returned again."""
    if wanted:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((HOST, wanted))
                return wanted
    while (port := ports.free_port()) in PREFERRED_PORTS.values():
        pass
    return port


def stream_listener(port: int) -> str:
    """The line of configuration for a listener of the stream protocol."""
    return f"stream.listeners.tcp.1 = {HOST}:{port}\n"


def _answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=2) as connection:
            connection.sendall(b"AMQP\0\0\x09\x01")
            return bool(connection.recv(1))
    except OSError:
        return False


def await_start(process: subprocess.Popen[bytes], name: str, port: int, home: Path) -> None:
    """Wait until a process answers. Raises BrokerFailed."""
    deadline = time.monotonic() + START_SECONDS
    while not _answers(port):
        if process.poll() is not None or time.monotonic() > deadline:
            tail = (home / OUTPUT).read_text(errors="replace")[-2000:]
            raise BrokerFailed(f"{name} did not start:\n{tail}")
        time.sleep(0.05)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its descendants, which may be in other sessions."""
    pids = tree(process.pid)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def spawn(
    command: list[str], directory: Path, home: Path, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Start a broker's process, with its output in a file of its home."""
    with (home / OUTPUT).open("wb") as output:
        return subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


@contextlib.contextmanager
def _running(
    broker: Broker, command: list[str], directory: Path, home: Path, environment: dict[str, str]
) -> Iterator[Broker]:
    """Run what listens as `broker` says, and give the broker its process."""
    process = spawn(command, directory, home, environment)
    try:
        await_start(process, broker.name, broker.port, home)
        yield replace(broker, pid=process.pid)
    finally:
        stop(process)


@dataclass(frozen=True)
class Source:
    """Which Leveret to run: a command, or the one in a source tree with its environment."""

    name: str = "leveret"
    tree: Path = ROOT
    command: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """The command line, without options."""
        python = sys.executable if self.tree == ROOT else str(self.tree / ".venv/bin/python")
        return list(self.command or (python, "-m", "leveret.mgmt.cli.entry", "serve"))


THIS_TREE = Source()


def _trace_everything(port: int) -> None:
    request = urllib.request.Request(
        f"http://{HOST}:{port}/api/vhosts/%2F",
        b'{"tracing": true}',
        {"Content-Type": "application/json", "Authorization": GUEST},
        method="PUT",
    )
    urllib.request.urlopen(request, timeout=START_SECONDS).close()


@contextlib.contextmanager
def leveret(
    source: Source = THIS_TREE,
    settings: str = "",
    home: Path | None = None,
    *,
    is_traced: bool = False,
    has_metrics: bool = False,
) -> Iterator[Broker]:
    """Run Leveret, by default from this source tree with default settings.

    settings: lines of a configuration file. home: a data directory to keep. is_traced: with the
    firehose on; only then is there a management listener, which switches it on.
    """
    port, tls_port = (free_port(PREFERRED_PORTS[name]) for name in ("leveret", "leveret-tls"))
    management = free_port(PREFERRED_PORTS["management"]) if is_traced else 0
    metrics = free_port(PREFERRED_PORTS["metrics"]) if has_metrics else 0
    with tempfile.TemporaryDirectory(prefix="bench-leveret-") as directory:
        config = Path(directory) / "leveret.conf"
        config.write_text(shared_settings(Path(directory), HOST, tls_port) + settings)
        command = [*source.words, "--bind", HOST, "--config", str(config), "--port", str(port)]
        command += ["--management-port", str(management), "--prometheus-port", str(metrics)]
        command += ["--data-dir", str(home or Path(directory) / "data")]
        running = Broker(source.name, port, 0, HOST, tls_port, metrics)
        with _running(running, command, source.tree, Path(directory), dict(os.environ)) as broker:
            if is_traced:
                _trace_everything(management)
            yield broker


@contextlib.contextmanager
def relay(program: Path) -> Iterator[Broker]:
    """Run the relay."""
    port = free_port(PREFERRED_PORTS["relay"])
    with tempfile.TemporaryDirectory(prefix="bench-relay-") as directory:
        command = [str(program), str(port)]
        running = Broker("relay", port, 0)
        with _running(running, command, ROOT, Path(directory), dict(os.environ)) as broker:
            yield broker


def _rabbitmq_program() -> Path | None:
    found = sorted(RABBITMQ_HOMES.glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    return found[-1] if found else None


def _install_rabbitmq() -> None:
    """Try to install it; the caller checks whether the program exists."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    quiet = subprocess.DEVNULL
    for words in (["update"], ["install", "-y", "rabbitmq-server"]):
        command = ["apt-get", "-qq", *words]
        subprocess.run(command, env=environment, stdin=quiet, stdout=quiet, check=False)


def find_rabbitmq() -> Path:
    """Return RabbitMQ's start script; as root, the package is installed if it is missing."""
    program = _rabbitmq_program()
    if program is None and os.geteuid() == 0 and shutil.which("apt-get"):
        _install_rabbitmq()
        program = _rabbitmq_program()
    if program is None:
        raise BrokerFailed("RabbitMQ is not installed (Debian's package is rabbitmq-server)")
    return program


def rabbitmq_environment(
    home: Path,
    port: int,
    settings: str,
    *,
    plugins: Sequence[str] = (),
    is_traced: bool = False,
    choose_port: Callable[[int], int] = free_port,
) -> dict[str, str]:
    """Write the files of a node; return the environment of its process."""
    config = home / "rabbitmq.conf"
    config.write_text(f"listeners.tcp.1 = {HOST}:{port}\n{settings}")
    (home / "enabled_plugins").write_text(f"[{','.join((PLUGIN, *plugins))}].\n")
    if is_traced:
        (home / "advanced.config").write_text(RABBITMQ_TRACES)
    (home / "environment").touch()
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "HOME": str(home),
        "ERL_EPMD_ADDRESS": HOST,
        "ERL_EPMD_PORT": str(choose_port(PREFERRED_PORTS["epmd"])),
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_DIST_PORT": str(choose_port(PREFERRED_PORTS["dist"])),
        "RABBITMQ_CONFIG_FILE": str(config),
        # Otherwise the machine's own configuration would be used.
        "RABBITMQ_CONFIG_FILES": str(home / "conf.d"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(home / "advanced.config"),
        "RABBITMQ_CONF_ENV_FILE": str(home / "environment"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_PID_FILE": str(home / "pid"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }


@contextlib.contextmanager
def rabbitmq(
    settings: str = "",
    *,
    plugins: Sequence[str] = (),
    is_traced: bool = False,
    choose_port: Callable[[int], int] = free_port,
    root: Path | None = None,
) -> Iterator[Broker]:
    """Run a private RabbitMQ with default settings and the given ones.

    plugins: those that it has beside the consistent hash exchange. is_traced: with the firehose on.
    choose_port: chooses a port, when another one would be preferred. root: of another system
    (other_rabbitmq.py).
    """
    program = find_rabbitmq() if root is None else other_rabbitmq.PROGRAM
    port, tls_port = (choose_port(PREFERRED_PORTS[name]) for name in ("rabbitmq", "rabbitmq-tls"))
    with tempfile.TemporaryDirectory(
        prefix="bench-rabbitmq-", ignore_cleanup_errors=True,
        dir=None if root is None else root / "srv",
    ) as directory:  # fmt: skip
        home = Path(directory)
        shared = shared_settings(home, HOST, tls_port)
        environment = rabbitmq_environment(
            home, port, shared + settings,
            plugins=plugins, is_traced=is_traced, choose_port=choose_port,
        )  # fmt: skip
        command, name = [str(program)], "rabbitmq"
        started_with = environment
        if root is not None:
            name = other_rabbitmq.NAME
            command, started_with = other_rabbitmq.moved(root, home, environment)
        running = Broker(name, port, 0, HOST, tls_port)
        try:
            with _running(running, command, ROOT, home, started_with) as broker:
                yield broker
        finally:
            stop_port_mapper(environment)


def stop_port_mapper(environment: dict[str, str]) -> None:
    """Erlang does not stop its port mapper; this one has no other users."""
    program = shutil.which("epmd")
    if program is not None:
        quiet = subprocess.DEVNULL
        subprocess.run([program, "-kill"], env=environment, stdout=quiet, stderr=quiet, check=False)


def attached(text: str) -> Broker:
    """Return a running broker, given as `HOST:PORT:PID:NAME`."""
    host, port, pid, name = text.split(":", 3)
    return Broker(name, int(port), int(pid), host)
