"""MQTT 3.1.1 beside RabbitMQ and mosquitto.

    python -m tests.bench.mqtt_figures [NAME ...] [--rounds 1] [--tree TREE] [--without-rabbitmq]

The generator is mqtt_load.c, one thread for all clients. Messages have 256 bytes; with QoS 1 a
publisher has 200 that are not acknowledged. Each row is measured with QoS 0 and with QoS 1:

    one        one publisher, one subscriber
    fan-out    one publisher, 1,000 subscribers
    fan-in     1,000 publishers, one subscriber

Mosquitto, which is written in C and stores nothing, runs if it is installed.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .brokers import HOST, Broker, BrokerFailed
from .protocol_figures import Listening, Row, main

MOSQUITTO = """
listener {port} 127.0.0.1
allow_anonymous true
max_queued_messages 1000000
"""
PAYLOAD_BYTES = 256
WINDOW = 200


def _rows(publishers: int, subscribers: int, messages: int) -> list[Row]:
    """messages: of each publisher."""
    return [
        Row(
            f"QoS {qos}",
            (publishers, subscribers, messages, PAYLOAD_BYTES, qos, WINDOW),
            publishers * subscribers * messages,
        )
        for qos in (0, 1)
    ]


ROWS = {
    "one": _rows(1, 1, 200_000),
    "fan-out": _rows(1, 1_000, 500),
    "fan-in": _rows(1_000, 1, 200),
}


def _accepts(port: int) -> bool:
    try:
        socket.create_connection((HOST, port)).close()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def mosquitto(port: int) -> Iterator[Broker]:
    """Run mosquitto."""
    with tempfile.TemporaryDirectory(prefix="bench-mosquitto-") as directory:
        config = Path(directory) / "mosquitto.conf"
        config.write_text(MOSQUITTO.format(port=port))
        command = ["mosquitto", "-c", str(config)]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:
            while not _accepts(port):
                if process.poll() is not None:
                    raise BrokerFailed("mosquitto did not start")
                time.sleep(0.05)
            yield Broker("mosquitto", port, process.pid)
            process.terminate()


MQTT = Listening(
    "rabbitmq_mqtt", "mqtt", 1883, Path(__file__).with_name("mqtt_load.c"),
    mosquitto if shutil.which("mosquitto") else None,
)  # fmt: skip

if __name__ == "__main__":
    main("mqtt_figures", MQTT, ROWS)
