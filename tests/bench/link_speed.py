"""How fast frames go from one process to another over a link, and what they cost.

    python -m tests.bench.link_speed --octets 1024 --a-turn 64 --compression none

The sender gives frames of two pieces to its link, a number in each turn of its event loop, as long
as less than 4 MB wait to be sent. Both processes print their frames a second and processor time.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time

import uvloop

from leveret.broker.runtime.node_address import NodeAddress
from leveret.cluster.links.addresses import AddressBook
from leveret.cluster.links.compression import readable_methods
from leveret.cluster.links.hello import NodeIdentity
from leveret.cluster.links.links import LinkOptions, Links
from tests.ports import free_port
from tests.unit.cluster.links.fakes import COOKIE, SERVICE, system_clock, until

SENDER, RECEIVER = "sender@127.0.0.1", "receiver@127.0.0.1"
HEAD = b"sixteen octets ."
WAITING_MAX = 4_000_000


class Counter:
    """A service that counts frames."""

    def __init__(self):
        self.frames = 0

    def peer_up(self, peer):
        pass

    def peer_down(self, peer, reason):
        pass

    def drained(self, peer):
        pass

    def received(self, peer, payload):
        self.frames += 1


class Stopwatch:
    """Time and processor time from now on."""

    def __init__(self):
        self._began, self._used = time.perf_counter(), time.process_time()

    def report(self, who, frames, octets):
        seconds = time.perf_counter() - self._began
        used = time.process_time() - self._used
        print(
            f"{who}: {frames / seconds:,.0f} frames/s, "
            f"{frames * octets / seconds / 1e6:,.0f} MB/s, "
            f"{used / frames * 1e6:.2f} us of processor time a frame",
            flush=True,
        )


async def links_of(name, port, compression):
    own = NodeIdentity(name, 1, compression=compression, compressions=readable_methods())
    links = Links(own, LinkOptions(COOKIE, port=port), AddressBook(None), system_clock())
    counter = Counter()
    links.register(SERVICE, counter)
    await links.start()
    return links, counter


async def receive(options):
    links, counter = await links_of(RECEIVER, options.port, options.compression)
    print("listening", flush=True)
    await until(lambda: counter.frames)
    stopwatch, before = Stopwatch(), counter.frames
    await until(lambda: counter.frames >= options.frames)
    stopwatch.report("receiver", counter.frames - before, options.octets)
    await links.stop()


async def send(options, port):
    links, _ = await links_of(SENDER, 0, options.compression)
    links.dial(NodeAddress(RECEIVER, port))
    await until(lambda: links.peers)
    link, stopwatch, sent = links.peers[RECEIVER], Stopwatch(), 0
    text = b"what people write repeats itself, %d times; " * (options.octets // 40 + 1)
    body = (os.urandom(options.octets) if options.compression == "none" else text)[len(HEAD) :]
    body = body[: options.octets - len(HEAD)]
    while sent < options.frames:
        for _ in range(options.a_turn):
            link.send(SERVICE, HEAD, body)
        sent += options.a_turn
        await asyncio.sleep(0)
        while link.unsent_octets > WAITING_MAX:
            await asyncio.sleep(0.0005)
    await until(lambda: not link.unsent_octets)
    stopwatch.report("sender", sent, options.octets)
    await until(lambda: not links.peers)
    await links.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--octets", type=int, default=1024)
    parser.add_argument("--frames", type=int, default=500_000)
    parser.add_argument("--a-turn", type=int, default=64)
    parser.add_argument("--compression", default="none")
    parser.add_argument("--port", type=int, help="receive there, in the second process")
    options = parser.parse_args()
    if options.port:
        uvloop.run(receive(options))
        return
    port = free_port()
    command = [sys.executable, "-m", "tests.bench.link_speed", *sys.argv[1:], "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
        receiver.stdout.readline()
        uvloop.run(send(options, port))
        print(receiver.stdout.read(), end="")


if __name__ == "__main__":
    main()
