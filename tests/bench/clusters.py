"""Starts and stops clusters of three nodes, of Leveret and of RabbitMQ.

All nodes of a cluster start together, for the first time, and find each other by a list in their
configuration, as a user's would. Each has a directory and a listener for clients of its own, as in
brokers.py; only the secret and, with RabbitMQ, the port mapper are shared.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import brokers, other_rabbitmq
from .brokers import HOST, ROOT, THIS_TREE, Broker, Source
from .node_files import shared_settings

NODES = 3


@dataclass
class Node:
    """How one node is started. home: a directory of its own."""

    name: str
    port: int
    command: list[str]
    home: Path
    environment: dict[str, str]
    working_directory: Path = ROOT
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        """Start its process; `await_start` waits for it."""
        self.process = brokers.spawn(
            self.command, self.working_directory, self.home, self.environment
        )

    def await_start(self) -> None:
        """Wait until it answers clients. Raises BrokerFailed."""
        assert self.process is not None
        brokers.await_start(self.process, self.name, self.port, self.home)

    def stop(self) -> None:
        """Stop it, if it runs."""
        if self.process is not None:
            brokers.stop(self.process)
            self.process = None


@dataclass
class Cluster:
    """The nodes of a cluster."""

    name: str
    nodes: list[Node]
    formation_seconds: float = 0

    def form(self) -> None:
        """Start all nodes, and wait until all answer clients. Raises BrokerFailed."""
        since = time.monotonic()
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.await_start()
        self.formation_seconds = time.monotonic() - since

    @property
    def broker(self) -> Broker:
        """Its nodes, of which the first one has the publishers."""
        first, *others = (
            Broker(self.name, node.port, node.process.pid if node.process else 0)
            for node in self.nodes
        )
        return Broker(first.name, first.port, first.pid, others=tuple(others))


@contextlib.contextmanager
def _formed(cluster: Cluster) -> Iterator[Cluster]:
    try:
        cluster.form()
        yield cluster
    finally:
        for node in cluster.nodes:
            node.stop()


def _found_by_list(names: list[str]) -> str:
    lines = ["cluster_formation.peer_discovery_backend = classic_config"]
    lines += [
        f"cluster_formation.classic_config.nodes.{number} = {name}"
        for number, name in enumerate(names, 1)
    ]
    return "\n".join(lines) + "\n"


def _stream_listener(ports: Sequence[int], number: int) -> str:
    return brokers.stream_listener(ports[number]) if ports else ""


def _homes(directory: str) -> list[Path]:
    homes = [Path(directory) / str(number) for number in range(NODES)]
    for home in homes:
        home.mkdir()
    return homes


@contextlib.contextmanager
def leveret(
    source: Source = THIS_TREE, settings: str = "", stream_ports: Sequence[int] = ()
) -> Iterator[Cluster]:
    """Run a cluster of Leveret. settings: lines of its configuration files.

    stream_ports: of the nodes' listeners for the stream protocol, if they have some.
    """
    ports, link_ports = ([brokers.free_port(0) for _ in range(NODES)] for _ in range(2))
    names = [f"bench{number}@{HOST}" for number in range(NODES)]
    listed = _found_by_list(
        [f"{name}:{port}" for name, port in zip(names, link_ports, strict=True)]
    )
    environment = {**os.environ, "LEVERET_COOKIE": secrets.token_hex(16)}
    nodes = []
    with tempfile.TemporaryDirectory(prefix="bench-leveret-") as directory:
        for number, (home, name, port, link_port) in enumerate(
            zip(_homes(directory), names, ports, link_ports, strict=True)
        ):
            own = listed + settings + _stream_listener(stream_ports, number)
            config = home / "leveret.conf"
            config.write_text(shared_settings(home, HOST, brokers.free_port(0)) + own)
            command = [*source.words, "--bind", HOST, "--config", str(config), "--node", name]
            command += ["--port", str(port), "--cluster-port", str(link_port)]
            command += ["--management-port", "0", "--prometheus-port", "0"]
            command += ["--data-dir", str(home / "data")]
            nodes.append(Node(source.name, port, command, home, environment, source.tree))
        with _formed(Cluster(source.name, nodes)) as cluster:
            yield cluster


@contextlib.contextmanager
def rabbitmq(root: Path | None = None, stream_ports: Sequence[int] = ()) -> Iterator[Cluster]:
    """Run a private cluster of RabbitMQ. root: of another system (other_rabbitmq.py).

    stream_ports: of the nodes' listeners for the stream protocol; with them it has this plugin.
    """
    program = brokers.find_rabbitmq() if root is None else other_rabbitmq.PROGRAM
    name_of_all = "rabbitmq" if root is None else other_rabbitmq.NAME
    names = [f"bench{number}@localhost" for number in range(NODES)]
    epmd_port = str(brokers.free_port(0))
    cookie = secrets.token_hex(16)
    nodes = []
    with tempfile.TemporaryDirectory(
        prefix="bench-rabbitmq-", ignore_cleanup_errors=True,
        dir=None if root is None else root / "srv",
    ) as directory:  # fmt: skip
        plugins = [brokers.STREAM_PLUGIN] if stream_ports else []
        for number, (home, name) in enumerate(zip(_homes(directory), names, strict=True)):
            port = brokers.free_port(0)
            settings = shared_settings(home, HOST, brokers.free_port(0)) + _found_by_list(names)
            settings += _stream_listener(stream_ports, number)
            environment = brokers.rabbitmq_environment(home, port, settings, plugins=plugins) | {
                "RABBITMQ_NODENAME": name,
                "RABBITMQ_DIST_PORT": str(brokers.free_port(0)),
                "ERL_EPMD_PORT": epmd_port,
            }
            (home / ".erlang.cookie").touch(mode=0o600)
            (home / ".erlang.cookie").write_text(cookie)
            command = [str(program)]
            if root is not None:
                command, environment = other_rabbitmq.moved(root, home, environment)
            nodes.append(Node(name_of_all, port, command, home, environment))
        try:
            with _formed(Cluster(name_of_all, nodes)) as cluster:
                yield cluster
        finally:
            brokers.stop_port_mapper({"ERL_EPMD_PORT": epmd_port})
