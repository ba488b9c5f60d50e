"""Nodes of a cluster, each `leveret serve` in a process of its own, and programs that use them."""

import json
import os
import signal
import time
from pathlib import Path

import pika

from tests.cluster.namespaces import Host
from tests.forked_programs import run_program, start_program
from tests.patience import LOOK_SECONDS, PATIENCE_SECONDS
from tests.ports import free_ports
from tests.store_problems import assert_intact

LOOPBACK = Host("127.0.0.1")
COOKIE = "a cookie that all nodes of a test share"
ENVIRONMENT = {**os.environ, "LEVERET_COOKIE": COOKIE}


class ClusteredNode:
    """A node with a port for clients and one for links. It is ended with `stop`.

    host: where it runs. Its ports are free ones of this host, unless they are given.
    program: of tests/forked_programs.py.
    """

    program = "leveret"

    def __init__(
        self, directory: Path, name: str, *options, link_port=None, waits=True, host=LOOPBACK,
        port=None, environment=None,
    ):  # fmt: skip
        self.host = host
        self.name = f"{name}@{host.address}"
        self.data_dir = directory / name
        free = free_ports(2)
        self.port, self.link_port = port or free[0], link_port or free[1]
        self.log_path = directory / f"{name}.log"
        self._options = options
        self._environment = {**ENVIRONMENT, **(environment or {})}
        self.start(waits=waits)

    def start(self, *more_options, waits=True):
        self._log = self.log_path.open("w")
        self.process = self._start_program(
            "serve", "--node", self.name, "--data-dir", self.data_dir,
            "--bind", self.host.address, "--port", self.port,
            "--cluster-port", self.link_port, "--management-port", 0, "--prometheus-port", 0,
            *self._options, *more_options,
        )  # fmt: skip
        if waits:
            self.wait_until(lambda: self.is_ready or self.process.poll() is not None, "it is ready")
            assert self.is_ready, self.log

    def _start_program(self, *arguments):
        return start_program(
            self.program, *arguments,
            output=self._log, environment=self._environment, network=self.host.network,
        )  # fmt: skip

    @property
    def address(self):
        """The address in the form that `join_cluster` takes."""
        return f"{self.name}:{self.link_port}"

    @property
    def log(self):
        return self.log_path.read_text()

    @property
    def is_ready(self):
        """Whether it says that it is ready: the space excludes 'Address already in use'."""
        return " ready in" in self.log

    def wait_for_log(self, text):
        self.wait_until(lambda: text in self.log, f"the log has {text!r}")

    def wait_for_log_again(self, text, seen):
        """Wait until the log has a text more often than `seen` times, which it had before."""
        self.wait_until(lambda: self.log.count(text) > seen, f"the log has {text!r} once more")

    def wait_until(self, condition, what):
        self.wait_to_have(condition, what)

    def wait_to_have(self, look, what):
        """Look until there is something; return it. what: what was waited for, for the error."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (found := look()):
            assert time.monotonic() < deadline, f"waited until {what}\n{self.log[-3000:]}"
            time.sleep(LOOK_SECONDS)
        return found

    def wait_for_end(self):
        """Wait until the process has ended by itself; return its exit code."""
        return self.process.wait(PATIENCE_SECONDS)

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE_SECONDS)
            assert_intact(self.data_dir)
        self._log.close()

    def ctl(self, *words, succeeds=True):
        """Run leveretctl on this node; return its output."""
        done = self._run_ctl(*words)
        assert (done.returncode == 0) is succeeds, f"{done}\n{self.name} logged {self.log[-3000:]}"
        return done.stdout + done.stderr

    def ctl_json(self, *words):
        """Run leveretctl, and return the JSON that it prints, without its warnings."""
        done = self._run_ctl(*words, "--formatter", "json")
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def ctl_until_done(self, *words):
        """Run leveretctl until it succeeds: a leader may not be handed over in time, and a killed
        node counts as running until the others have noticed.
        """
        self.wait_until(lambda: not self._run_ctl(*words).returncode, f"{words} is done")

    def _run_ctl(self, *words):
        environment = {**ENVIRONMENT, "LEVERET_DATA_DIR": str(self.data_dir)}
        return run_program("leveretctl", "--quiet", *words, environment=environment)

    def join(self, other, *options):
        self.ctl("stop_app")
        done = self._run_ctl("join_cluster", *options, other.address)
        assert done.returncode == 0, f"{done}\n{other.name} logged {other.log[-3000:]}"
        self.ctl("start_app")

    def connect(self, name=None, vhost="/", user="guest", password="guest"):
        """A connection of a client. name: what the client calls it."""
        return pika.BlockingConnection(
            pika.ConnectionParameters(
                self.host.address, self.port, vhost, pika.PlainCredentials(user, password),
                heartbeat=0, client_properties={"connection_name": name} if name else None,
            )
        )  # fmt: skip


def form(directory, *names, kind=ClusteredNode):
    """Start nodes, and have all join the first one."""
    nodes = [kind(directory, name) for name in names]
    for node in nodes[1:]:
        node.join(nodes[0])
    return nodes


def declare(node, *queues):
    """Declare durable queues on a node."""
    with node.connect() as connection:
        channel = connection.channel()
        for queue in queues:
            channel.queue_declare(queue, durable=True)


def members(node):
    """The names of the nodes of its cluster, as a node shows them, running or not.

    The whole text of `cluster_status` also has the cluster's name, which is that of a node.
    """
    shown = node.ctl_json("cluster_status")
    return {*shown["disk_nodes"], *shown["ram_nodes"]}


def queues(node):
    """The names of the queues that a node shows."""
    return set(node.ctl("list_queues", "name", "--no-table-headers").split())
