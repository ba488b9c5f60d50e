"""A real node in a process of its own, for tests of management."""

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.forked_programs import start_program
from tests.mgmt.http_api import HttpApi
from tests.patience import LOOK_SECONDS, PATIENCE_SECONDS
from tests.ports import free_ports


class ServedNode(HttpApi):
    """`leveret serve` with management and metrics, ended with `stop`."""

    def __init__(self, directory: Path, configuration: str = "", name: str = "test@localhost"):
        self.data_dir = directory / "data"
        self.port, self.http_port, self.metrics_port = free_ports(3)
        self.name = name
        self.log_path = directory / "log"
        self._configuration = directory / "leveret.conf"
        self._configuration.write_text(f"collect_statistics_interval = 200\n{configuration}\n")
        self.start()

    def start(self):
        self._log = self.log_path.open("w")
        self.process = start_program(
            "leveret", "serve", "--config", self._configuration,
            "--data-dir", self.data_dir, "--node", self.name, "--bind", "127.0.0.1",
            "--port", self.port, "--management-port", self.http_port,
            "--prometheus-port", self.metrics_port, output=self._log,
        )  # fmt: skip
        self.wait_until(lambda: " ready in" in self.log, "it is ready")

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def wait_until(self, condition, what="it happens", seconds=PATIENCE_SECONDS):
        """Wait for a condition; the error names it."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {seconds} s until {what}\n{self.log[-3000:]}")
            time.sleep(LOOK_SECONDS)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(PATIENCE_SECONDS)
        self._log.close()

    def processor_seconds(self):
        """The processor time of the process, which does not depend on the machine's load."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    # Requests

    def metrics(self, path="/metrics"):
        """Get a page of metrics."""
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.metrics_port}{path}", timeout=PATIENCE_SECONDS
        ) as response:
            return response.read().decode()
