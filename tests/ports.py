"""Ports of the loopback interface that nothing uses now, for processes that cannot choose one.

They are none of those that the system gives to outgoing connections: a node that is started again
on its port could find it taken by a client's.
"""

import random
import socket
from pathlib import Path

CHANCE = random.SystemRandom()
"""What a test makes of `random` does not matter."""
RANGE_OF_CLIENTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST, LOWEST_OF_CLIENTS = 10_000, 32_768


def free_port():
    return free_ports(1)[0]


def free_ports(count):
    """Different ports: all are taken at once before they are given back."""
    sockets = []
    while len(sockets) < count:
        one = socket.socket()
        try:
            one.bind(("127.0.0.1", CHANCE.randrange(LOWEST, _lowest_of_clients())))
        except OSError:
            one.close()
        else:
            sockets.append(one)
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _lowest_of_clients():
    """The first port that the system may give to an outgoing connection."""
    try:
        lowest = int(RANGE_OF_CLIENTS.read_text().split()[0])
    except OSError:
        return LOWEST_OF_CLIENTS
    return lowest if lowest > 2 * LOWEST else LOWEST_OF_CLIENTS
