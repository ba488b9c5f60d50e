"""A data directory that an earlier version has left: what is in it, and how it is recorded.

`python -m tests.feature.earlier_data` records `earlier_data.json` again, after a release, with the
version of tests/earlier_version.py: the files by their paths, compressed. The node was stopped
once, so that some messages are in segments, and killed at the end, so that the others are in the
log.
"""

import base64
import json
import os
import signal
import sys
import tempfile
import time
import urllib.request
import zlib
from pathlib import Path

import paho.mqtt.client as paho
import pika

from tests.earlier_version import earlier_sources, earlier_version
from tests.forked_programs import start_program
from tests.patience import PATIENCE_SECONDS, POLL_SECONDS
from tests.ports import free_ports

RECORDED = Path(__file__).with_name("earlier_data.json")
NODE = "recorded@localhost"
COUNT = 20
DELAY_MS = 30_000
TOPIC, RETAINED = "house/door", b"open"
ANN = pika.PlainCredentials("ann", "secret")
ARGUMENTS = {
    "classic": {},
    "lazy": {"x-queue-mode": "lazy"},
    "priorities": {"x-max-priority": 5},
    "quorum": {"x-queue-type": "quorum"},
    "stream": {"x-queue-type": "stream"},
}
"""The queues, each with the messages of `bodies`. Two classic messages were acknowledged."""
NOT_CONTENT = {"leveret.lock", "log/next", "reserve", "reserve-for-start"}


def bodies(life):
    """The messages that each queue got in a life of the node, 0 or 1. One is long."""
    return [b"%d of life %d" % (number, life) for number in range(COUNT)] + [b"." * 10_000]


class EarlierNode:
    """A node of the earlier version, in a process of its own."""

    def __init__(self, sources, data_dir):
        self.port, self.mqtt_port, self.management_port = free_ports(3)
        variables = {"LEVERET_MQTT_LISTENERS_TCP": f"127.0.0.1:{self.mqtt_port}"}
        log = sources.with_suffix(".log")
        with log.open("wb") as output:
            self._process = start_program(
                "leveret", "serve", "--node", NODE, "--data-dir", data_dir, "--bind", "127.0.0.1",
                "--port", self.port, "--cluster-port", 0, "--prometheus-port", 0,
                "--management-port", self.management_port,
                output=output, environment={**os.environ, **variables}, sources=sources,
            )  # fmt: skip
        while b" ready in" not in log.read_bytes():
            assert self._process.poll() is None, log.read_text()
            time.sleep(POLL_SECONDS)

    def end(self, number):
        self._process.send_signal(number)
        self._process.wait(PATIENCE_SECONDS)

    def connect(self, vhost="/", credentials=None):
        credentials = credentials or pika.PlainCredentials("guest", "guest")
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.port, vhost, credentials)
        )

    def put(self, path, content):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.management_port}/api/{path}",
            json.dumps(content).encode(), method="PUT",
            headers={"authorization": "Basic " + base64.b64encode(b"guest:guest").decode()},
        )  # fmt: skip
        urllib.request.urlopen(request, timeout=PATIENCE_SECONDS).close()


def declare(node):
    node.put("vhosts/shop", {})
    node.put("users/ann", {"password": ANN.password, "tags": "management"})
    node.put("permissions/shop/ann", {"configure": ".*", "write": ".*", "read": ".*"})
    node.put("policies/%2F/limit", {"pattern": "^classic$", "definition": {"max-length": 1000}})
    with node.connect("shop", ANN) as connection:
        connection.channel().queue_declare("orders", durable=True)
    with node.connect() as connection:
        channel = connection.channel()
        for queue, arguments in ARGUMENTS.items():
            channel.queue_declare(queue, durable=True, arguments=arguments)
        channel.queue_declare("reminders", durable=True)
        delayed = {"x-delayed-type": "topic"}
        channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=delayed)
        channel.queue_bind("reminders", "later", "reminder.#")


def fill(node, life):
    with node.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in ARGUMENTS:
            for body in bodies(life):
                properties = pika.BasicProperties(delivery_mode=2, headers={"life": life})
                channel.basic_publish("", queue, body, properties, mandatory=True)
        for number in range(COUNT):
            properties = pika.BasicProperties(delivery_mode=2, headers={"x-delay": DELAY_MS})
            channel.basic_publish("later", "reminder.x", b"%d" % number, properties)
        method, _, _ = channel.basic_get("classic")
        channel.basic_ack(method.delivery_tag)
        method, _, _ = channel.basic_get("quorum")
        channel.basic_nack(method.delivery_tag)
        connection.process_data_events()
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, "recorder")
    client.username_pw_set("guest", "guest")
    client.connect("127.0.0.1", node.mqtt_port)
    client.loop_start()
    client.publish(TOPIC, RETAINED, qos=1, retain=True).wait_for_publish(PATIENCE_SECONDS)
    client.disconnect()
    client.loop_stop()


def record(directory):
    version, data_dir = earlier_version(), directory / "data"
    sources = earlier_sources(version, directory / "sources")
    assert sources is not None, f"Git has no {version}"
    for life, number in enumerate((signal.SIGTERM, signal.SIGKILL)):
        node = EarlierNode(sources, data_dir)
        if life == 0:
            declare(node)
        fill(node, life)
        time.sleep(POLL_SECONDS * 20)  # The acks are in the log after 20 ms.
        node.end(number)
    files = {str(path.relative_to(data_dir)): path for path in data_dir.rglob("*")}
    packed = {
        name: base64.b64encode(zlib.compress(path.read_bytes(), 9)).decode()
        for name, path in sorted(files.items()) if path.is_file() and name not in NOT_CONTENT
    }  # fmt: skip
    RECORDED.write_text(json.dumps({"version": version, "files": packed}, indent=1) + "\n")


def unpack(directory):
    """Write the recorded files to a directory."""
    for name, data in json.loads(RECORDED.read_text())["files"].items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(zlib.decompress(base64.b64decode(data)))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        record(Path(place))
    sys.stdout.write(f"{RECORDED.name}: {RECORDED.stat().st_size} bytes\n")
