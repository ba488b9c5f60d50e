"""Ports of the loopback interface that nothing uses, for processes that cannot choose one.

They are none of those that the system gives to outgoing connections: a node that is started again
on its port could find it taken by a client's. No port is given out twice, not even by another
process of tests on this machine: between choosing a port and using it, and while a node is stopped,
nothing else holds it. Ports come in blocks, and who has a block keeps its first port bound.
"""

import random
import socket
from collections.abc import Iterator
from pathlib import Path

CHANCE = random.SystemRandom()
"""What a test makes of `random` does not matter."""
RANGE_OF_CLIENTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST, LOWEST_OF_CLIENTS = 10_000, 32_768
BLOCK = 50


def free_port():
    return free_ports(1)[0]


def free_ports(count):
    """Different ports."""
    return [next(PORTS) for _ in range(count)]


def _ports() -> Iterator[int]:
    """All ports of all blocks that are free when they are come to."""
    firsts = list(range(LOWEST, _lowest_of_clients() - BLOCK, BLOCK))
    CHANCE.shuffle(firsts)
    for first in firsts:
        held = _bound(first)
        if held is None:
            continue
        BLOCKS_HELD.append(held)
        for port in range(first + 1, first + BLOCK):
            if one := _bound(port):
                one.close()
                yield port


def _bound(port):
    """A socket bound to a port; None if something else is."""
    one = socket.socket()
    try:
        one.bind(("127.0.0.1", port))
    except OSError:
        one.close()
        return None
    return one


def _lowest_of_clients():
    """The first port that the system may give to an outgoing connection."""
    try:
        lowest = int(RANGE_OF_CLIENTS.read_text().split()[0])
    except OSError:
        return LOWEST_OF_CLIENTS
    return lowest if lowest > 2 * LOWEST else LOWEST_OF_CLIENTS


BLOCKS_HELD: list[socket.socket] = []
PORTS = _ports()
