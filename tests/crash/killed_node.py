"""A broker in a process of its own that can be killed and restarted on the same data."""

import os
import signal
import time

import pika

from tests.forked_programs import start_program
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port
from tests.store_problems import assert_intact


class Node:
    """A node. environment: additional variables. ready_seconds: duration of the last start."""

    def __init__(self, directory, **environment):
        self.directory = directory
        self.port = free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/?heartbeat=0"
        self.environment = environment
        self.process = None
        self.ready_seconds = 0.0

    def start(self, **environment):
        """Start it and wait until it is ready; False if it ended before."""
        started_at = time.monotonic()
        self.log = open(f"{self.directory}.log", "a+")  # noqa: SIM115
        start = self.log.seek(0, os.SEEK_END)
        self.process = start_program(
            "leveret", "serve", "--bind", "127.0.0.1", "--port", self.port,
            "--management-port", 0, "--prometheus-port", 0, "--data-dir", self.directory,
            output=self.log, environment={**os.environ, **self.environment, **environment},
        )  # fmt: skip
        while time.monotonic() < started_at + PATIENCE_SECONDS:
            self.log.seek(start)
            if " ready in" in self.log.read():
                self.ready_seconds = time.monotonic() - started_at
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.01)
        raise AssertionError(f"the node was not ready in time, see {self.log.name}")

    def connect(self):
        """Return a connection of a client."""
        return pika.BlockingConnection(pika.URLParameters(self.url))

    def channel(self):
        """Return a channel with confirms, of a connection of its own."""
        channel = self.connect().channel()
        channel.confirm_delivery()
        return channel

    def kill(self):
        """Kill it with `kill -9`."""
        self._end(signal.SIGKILL)

    def stop(self):
        """Stop it in order."""
        self._end(signal.SIGTERM)

    def _end(self, number):
        self.process.send_signal(number)
        self.process.wait(PATIENCE_SECONDS)
        self.log.close()
        assert_intact(self.directory)

    @property
    def text(self):
        """Return its log."""
        with open(f"{self.directory}.log") as log:
            return log.read()
