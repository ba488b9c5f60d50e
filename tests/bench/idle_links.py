"""What shovels and federation links cost that move nothing, or whose other broker is gone.

    python -m tests.bench.idle_links --seconds 60

Nodes with none, one and a hundred of them run at the same time, with the default configuration, and
another node to which they lead. Of each node it prints the processor time a second, the memory, and
the lines that it logs a minute. So the rows of one run can be compared, on a busy machine as well.
"""

import argparse
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pika

from tests.bench.measure import cpu_seconds, exact_resident_bytes
from tests.mgmt.served_node import ServedNode
from tests.ports import free_port

SETTLE_SECONDS = 12
DEFAULTS = "collect_statistics_interval = 5000"


def set_shovels(node, count, uri):
    for number in range(count):
        value = {
            "src-uri": "amqp://", "src-queue": f"from-{number}",
            "dest-uri": uri, "dest-queue": f"to-{number}",
        }  # fmt: skip
        node.put(f"parameters/shovel/%2F/s{number}", {"value": value})


def federate(node, uri):
    node.put("parameters/federation-upstream/%2F/u", {"value": {"uri": uri}})
    definition = {"federation-upstream": "u"}
    node.put("policies/%2F/p", {"pattern": "^federated", "definition": definition})
    address = pika.ConnectionParameters("127.0.0.1", node.port)
    return pika.BlockingConnection(address)


def federate_queues(node, count, uri):
    with federate(node, uri) as connection:
        channel = connection.channel()
        for number in range(count):
            channel.queue_declare(f"federated-{number}", durable=True)


def federate_exchanges(node, count, uri):
    with federate(node, uri) as connection:
        channel = connection.channel()
        for number in range(count):
            channel.exchange_declare(f"federated-{number}", "topic", durable=True)


def far_uri(far):
    return f"amqp://guest:guest@127.0.0.1:{far.port}"


def gone_uri(far):
    return f"amqp://guest:guest@127.0.0.1:{free_port()}"


def gone_tls_uri(far):
    return f"amqps://guest:guest@127.0.0.1:{free_port()}"


ROWS = {
    "nothing": (set_shovels, 0, far_uri),
    "1 shovel": (set_shovels, 1, far_uri),
    "100 shovels": (set_shovels, 100, far_uri),
    "100 queues": (federate_queues, 100, far_uri),
    "100 exchanges": (federate_exchanges, 100, far_uri),
    "100 shovels, gone": (set_shovels, 100, gone_uri),
    "100 shovels, gone, TLS": (set_shovels, 100, gone_tls_uri),
    "100 queues, gone": (federate_queues, 100, gone_uri),
}
"""What a node has: how it is set, how often, and to where it leads."""


def started(stack, directory, name):
    home = directory / name
    home.mkdir()
    node = ServedNode(home, DEFAULTS, name=f"{name}@localhost")
    stack.callback(node.stop)
    return node


class Use:
    """What a node has used so far."""

    def __init__(self, node):
        self.at = time.monotonic()
        self.processor_seconds = cpu_seconds([node.process.pid])
        self.lines = node.log.count("\n")

    def report(self, name, node):
        now = Use(node)
        seconds = now.at - self.at
        used_ms = (now.processor_seconds - self.processor_seconds) / seconds * 1000
        memory = exact_resident_bytes([node.process.pid]) / 2**20
        lines = (now.lines - self.lines) / seconds * 60
        print(f"{name:24}{used_ms:8.1f} ms/s{memory:8.1f} MiB{lines:8.0f} lines/min", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="idle-links-")))
        far = started(stack, directory, "far")
        nodes = {}
        for number, (name, (set_up, count, uri)) in enumerate(ROWS.items()):
            nodes[name] = started(stack, directory, f"near{number}")
            set_up(nodes[name], count, uri(far))
        time.sleep(SETTLE_SECONDS)
        before = {name: Use(node) for name, node in nodes.items()}
        time.sleep(options.seconds)
        for name, use in before.items():
            use.report(name, nodes[name])


if __name__ == "__main__":
    main()
