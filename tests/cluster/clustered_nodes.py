"""Nodes of a cluster, each `leveret serve` in a process of its own, and programs that use them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pika

from tests.patience import PATIENCE_SECONDS
from tests.ports import free_ports

COOKIE = "a cookie that all nodes of a test share"
ENVIRONMENT = {**os.environ, "LEVERET_COOKIE": COOKIE, "PYTHONUNBUFFERED": "1"}
RUN_CTL = "import sys; from leveret.mgmt.tools.ctl.leveretctl import main; sys.exit(main())"


class ClusteredNode:
    """A node with a port for clients and one for links. It is ended with `stop`."""

    def __init__(self, directory: Path, name: str, *options, link_port=None, waits=True):
        self.name = f"{name}@127.0.0.1"
        self.data_dir = directory / name
        self.port, free = free_ports(2)
        self.link_port = link_port or free
        self.log_path = directory / f"{name}.log"
        self._options = options
        self.start(waits=waits)

    def start(self, *, waits=True):
        command = [
            sys.executable, "-m", "leveret.mgmt.cli.entry", "serve", "--node", self.name,
            "--data-dir", self.data_dir, "--bind", "127.0.0.1", "--port", self.port,
            "--cluster-port", self.link_port, "--management-port", 0, "--prometheus-port", 0,
            *self._options,
        ]  # fmt: skip
        self._log = self.log_path.open("w")
        self.process = subprocess.Popen(
            list(map(str, command)), stdout=self._log, stderr=subprocess.STDOUT, env=ENVIRONMENT
        )
        if waits:
            self.wait_for_log("ready in")

    @property
    def address(self):
        """As `join_cluster` takes it."""
        return f"{self.name}:{self.link_port}"

    @property
    def log(self):
        return self.log_path.read_text()

    def wait_for_log(self, text):
        self.wait_until(lambda: text in self.log, f"the log has {text!r}")

    def wait_until(self, condition, what):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"waited until {what}\n{self.log[-3000:]}"
            time.sleep(0.02)

    def wait_for_end(self):
        """Wait until the process has ended by itself; its exit code."""
        return self.process.wait(PATIENCE_SECONDS)

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE_SECONDS)
        self._log.close()

    def ctl(self, *words, succeeds=True):
        """Run leveretctl on this node; what it printed."""
        done = subprocess.run(
            [sys.executable, "-c", RUN_CTL, "--quiet", *words], capture_output=True, text=True,
            check=False, timeout=PATIENCE_SECONDS,
            env={**ENVIRONMENT, "LEVERET_DATA_DIR": str(self.data_dir)},
        )  # fmt: skip
        assert (done.returncode == 0) is succeeds, done
        return done.stdout + done.stderr

    def join(self, other, *options):
        self.ctl("stop_app")
        self.ctl("join_cluster", *options, other.address)
        self.ctl("start_app")

    def connect(self):
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.port, heartbeat=0)
        )


def form(directory, *names):
    """Start nodes, and have all join the first one."""
    nodes = [ClusteredNode(directory, name) for name in names]
    for node in nodes[1:]:
        node.join(nodes[0])
    return nodes
