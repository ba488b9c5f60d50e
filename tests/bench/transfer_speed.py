"""How fast shovels and federation links move messages from one node to another.

    python -m tests.bench.transfer_speed --messages 200000 --octets 1024 --rounds 3

Each row has two nodes of this machine, and messages with an id and a header each, which wait in the
source when the shovel or link begins. All are moved with confirms. It prints the messages a second
until all have come, and the processor time for a message of each node; the median of the rounds.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from contextlib import ExitStack
from fnmatch import fnmatch
from pathlib import Path

import pika
import uvloop

from leveret.broker.amqp.properties import encode_properties
from leveret.broker.moving.client.address import ServerAddress
from leveret.broker.moving.client.connection import ClientConnection
from leveret.compiled import build
from tests.bench.measure import cpu_seconds
from tests.mgmt.served_node import ServedNode

WINDOW = 2000
POLL_SECONDS = 0.005
DEFAULTS = "collect_statistics_interval = 5000"


class Pair:
    """Two nodes. near: has the shovel or link, and the source of the shovel."""

    def __init__(self, stack, directory, options):
        self.options = options
        self.near, self.far = (self._started(stack, directory, name) for name in ("near", "far"))

    def _started(self, stack, directory, name):
        (directory / name).mkdir()
        node = ServedNode(directory / name, DEFAULTS, name=f"{name}@localhost")
        stack.callback(node.stop)
        return node

    def fill(self, node, exchange, key, *, is_persistent):
        """Publish the messages, and wait until they are confirmed."""
        uvloop.run(_publish(node, exchange, key, self.options, is_persistent))


async def _publish(node, exchange, key, options, is_persistent):
    connection = await ClientConnection.open(ServerAddress("127.0.0.1", node.port), {})
    channel = await connection.open_channel()
    await channel.confirm()
    progress, confirmed = asyncio.Event(), 0

    def on_confirmed(tag, _multiple, _is_ack):
        nonlocal confirmed
        confirmed = max(confirmed, tag)
        progress.set()

    channel.on_confirmed = on_confirmed
    body = bytes(options.octets)
    for number in range(1, options.messages + 1):
        properties = {
            "message_id": f"message {number}", "headers": {"number": ("l", number)},
            "delivery_mode": 2 if is_persistent else 1,
        }  # fmt: skip
        channel.publish(exchange, key, encode_properties(properties), body)
        while number - confirmed > (WINDOW if number < options.messages else 0):
            progress.clear()
            await progress.wait()
    await connection.close()


async def _consume(node, queue, count):
    """Take and acknowledge `count` messages."""
    connection = await ClientConnection.open(ServerAddress("127.0.0.1", node.port), {})
    channel = await connection.open_channel()
    done, taken = asyncio.Event(), 0

    def take(deliveries):
        nonlocal taken
        taken += len(deliveries)
        channel.ack(deliveries[-1].tag, multiple=True)
        if taken >= count:
            done.set()

    await channel.consume(queue, take)
    await done.wait()
    await connection.close()


def channel_of(node):
    address = pika.ConnectionParameters("127.0.0.1", node.port, heartbeat=0)
    return pika.BlockingConnection(address).channel()


def uri(node):
    return f"amqp://guest:guest@127.0.0.1:{node.port}"


def wait_for(channel, queue, count):
    """Wait until a queue has `count` messages."""
    while channel.queue_declare(queue, passive=True).method.message_count < count:
        time.sleep(POLL_SECONDS)


def shovel(pair, source_uri, *, is_persistent):
    """Prepare a shovel; returns what sets it and waits, and what cleans up."""
    near, far = channel_of(pair.near), channel_of(pair.far)
    near.queue_declare("from", durable=True)
    far.queue_declare("to", durable=True)
    pair.fill(pair.near, "", "from", is_persistent=is_persistent)
    value = {"src-uri": source_uri(pair), "src-queue": "from", "dest-uri": uri(pair.far)}

    def move():
        pair.near.put("parameters/shovel/%2F/s", {"value": {**value, "dest-queue": "to"}})
        wait_for(far, "to", pair.options.messages)

    def clean():
        pair.near.delete("parameters/shovel/%2F/s")
        near.queue_delete("from")
        far.queue_delete("to")

    return move, clean


def federate(pair, kind):
    value = {"uri": uri(pair.far), "resource-cleanup-mode": "never"}
    pair.near.put("parameters/federation-upstream/%2F/u", {"value": value})
    policy = {"pattern": "^federated$", "definition": {"federation-upstream": "u"}}
    pair.near.put("policies/%2F/p", {**policy, "apply-to": kind})


def federated_exchange(pair, *, is_persistent):
    """The link's queue at the upstream is filled while there is no link."""
    near, far = channel_of(pair.near), channel_of(pair.far)
    for channel in (near, far):
        channel.exchange_declare("federated", "topic", durable=True)
    near.queue_declare("to", durable=True)
    near.queue_bind("to", "federated", "#")
    federate(pair, "exchanges")
    links = "exchanges/%2F/federated/bindings/source"
    pair.near.wait_until(lambda: len(pair.far.get(links)) == 1, "the link is there")
    pair.near.delete("policies/%2F/p")
    pair.near.wait_until(lambda: not pair.near.get("federation-links"), "the link is gone")
    pair.fill(pair.far, "federated", "key", is_persistent=is_persistent)

    def move():
        federate(pair, "exchanges")
        wait_for(near, "to", pair.options.messages)

    def clean():
        pair.near.delete("policies/%2F/p")
        near.queue_delete("to")
        for channel in (near, far):
            channel.exchange_delete("federated")

    return move, clean


def federated_queue(pair, *, is_persistent):
    """A client consumes at this end, and has no limit."""
    near, far = channel_of(pair.near), channel_of(pair.far)
    for channel in (near, far):
        channel.queue_declare("federated", durable=True)
    pair.fill(pair.far, "", "federated", is_persistent=is_persistent)
    federate(pair, "queues")

    def move():
        uvloop.run(_consume(pair.near, "federated", pair.options.messages))

    def clean():
        pair.near.delete("policies/%2F/p")
        for channel in (near, far):
            channel.queue_delete("federated")

    return move, clean


def from_this_node(pair):
    return "amqp://"


def by_socket(pair):
    return uri(pair.near)


ROWS = {
    "shovel, transient, amqp://": lambda pair: shovel(pair, from_this_node, is_persistent=False),
    "shovel, transient, TCP": lambda pair: shovel(pair, by_socket, is_persistent=False),
    "shovel, persistent, amqp://": lambda pair: shovel(pair, from_this_node, is_persistent=True),
    "shovel, persistent, TCP": lambda pair: shovel(pair, by_socket, is_persistent=True),
    "exchange, transient": lambda pair: federated_exchange(pair, is_persistent=False),
    "exchange, persistent": lambda pair: federated_exchange(pair, is_persistent=True),
    "queue, transient": lambda pair: federated_queue(pair, is_persistent=False),
    "queue, persistent": lambda pair: federated_queue(pair, is_persistent=True),
}


def measured(pair, prepare):
    """Messages a second, and microseconds of processor time a message of both nodes."""
    move, clean = prepare(pair)
    nodes = pair.near, pair.far
    used = [cpu_seconds([node.process.pid]) for node in nodes]
    began = time.perf_counter()
    move()
    count = pair.options.messages
    rate = count / (time.perf_counter() - began)
    costs = [
        (cpu_seconds([node.process.pid]) - before) / count * 1e6
        for node, before in zip(nodes, used, strict=True)
    ]
    clean()
    return rate, *costs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--octets", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="*", help="rows whose names match, as 'shovel*'")
    options = parser.parse_args()
    print(f"{build()} build, {options.messages} messages of {options.octets} octets")
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="transfer-speed-"))
        pair = Pair(stack, Path(directory), options)
        for name, prepare in ROWS.items():
            if not fnmatch(name, options.only):
                continue
            rounds = [measured(pair, prepare) for _ in range(options.rounds)]
            rate, near, far = (statistics.median(column) for column in zip(*rounds, strict=True))
            print(f"{name:28}{rate:10,.0f}/s{near:8.1f} us near{far:8.1f} us far", flush=True)


if __name__ == "__main__":
    main()
