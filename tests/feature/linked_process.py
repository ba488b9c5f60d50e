"""A node of tests in a process of its own: links only, and a service that sends everything back.

    python -m tests.feature.linked_process NAME PORT DATA_DIRECTORY TICK_TIME

It prints a line when it listens, and stops at the end of its standard input.
"""

import asyncio
import sys
from pathlib import Path

import uvloop

from leveret.broker.config import ClusterSettings, Config
from leveret.cluster.links.configured_links import make_links
from tests.unit.cluster.links.fakes import SERVICE, system_clock


class Echo:
    """A service that sends each payload back."""

    def peer_up(self, peer):
        pass

    def peer_down(self, peer, reason):
        pass

    def drained(self, peer):
        pass

    def received(self, peer, payload):
        peer.send(SERVICE, payload)


async def run(name, port, directory, tick_time):
    settings = ClusterSettings(
        port=port, cookie_file=directory / "the.cookie", tick_time_s=tick_time
    )
    links = make_links(Config(node_name=name, cluster=settings), directory, system_clock())
    links.register(SERVICE, Echo())
    await links.start()
    print("listening", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await links.stop()


if __name__ == "__main__":
    node, its_port, its_directory, its_tick_time = sys.argv[1:]
    uvloop.run(run(node, int(its_port), Path(its_directory), float(its_tick_time)))
