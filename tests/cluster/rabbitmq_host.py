"""A real RabbitMQ on a host of its own, with federation, which a test kills, blocks and starts
again.
"""

import os
import signal
import subprocess
import time

import pika
from pika import exceptions

from tests.bench.brokers import (
    OUTPUT,
    find_rabbitmq,
    rabbitmq_environment,
    spawn,
)
from tests.bench.measure import tree
from tests.cluster.clustered_nodes import LOOPBACK
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

AMQP_PORT = 5672
PLUGINS = "[rabbitmq_federation, rabbitmq_shovel].\n"
PLUGINS_OF_A_HOST = "[rabbitmq_federation, rabbitmq_shovel, rabbitmq_federation_management].\n"
"""The HTTP API answers at once; rabbitmqctl takes a second of processor time."""


class RabbitMqHost:
    """A node of Debian's package, with a database of its own. It is ended with `close`.

    host: where it runs, with AMQP's port; on this host, with a free one.
    """

    def __init__(self, directory, host=LOOPBACK):
        self.host = host
        local_port = free_port()
        self.port = AMQP_PORT if host.prefix else local_port
        self._directory = directory
        directory.mkdir()
        settings = "loopback_users = none\n"
        if host.prefix:
            settings += f"listeners.tcp.2 = {host.address}:{AMQP_PORT}\n"
            settings += f"management.tcp.ip = {host.address}\n"
        self._environment = rabbitmq_environment(
            directory, local_port, settings, choose_port=lambda preferred: free_port()
        )
        (directory / "enabled_plugins").write_text(PLUGINS_OF_A_HOST if host.prefix else PLUGINS)
        self.start()

    def start(self):
        command = [*self.host.prefix, str(find_rabbitmq())]
        self.process = spawn(command, self._directory, self._directory, self._environment)
        self.wait_until(self._accepts, "RabbitMQ accepts clients")

    def _accepts(self):
        assert self.process.poll() is None, f"RabbitMQ did not start\n{self.log}"
        try:
            self.connect().close()
        except exceptions.AMQPError:
            return False
        return True

    @property
    def log(self):
        return (self._directory / OUTPUT).read_text(errors="replace")

    def stop(self, number=signal.SIGTERM):
        """End all its processes, by this signal."""
        for process in tree(self.process.pid):
            try:
                os.kill(process, number)
            except ProcessLookupError:
                continue
        self.process.wait(PATIENCE_SECONDS)

    def close(self):
        self.stop(signal.SIGKILL)
        subprocess.run(
            [*self.host.prefix, "epmd", "-kill"], env=self._environment, check=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def ctl(self, *words):
        """Run rabbitmqctl on it."""
        program = find_rabbitmq().with_name("rabbitmqctl")
        done = subprocess.run(
            [*self.host.prefix, program, "--quiet", *words], env=self._environment,
            capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, f"{words}: {done.stderr}{done.stdout}"
        return done.stdout

    def connect(self):
        address = pika.ConnectionParameters(self.host.address, self.port, heartbeat=0)
        return pika.BlockingConnection(address)

    def wait_until(self, condition, what):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"waited until {what}\n{self.log[-3000:]}"
            time.sleep(0.02)
