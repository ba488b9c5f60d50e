"""Ports of the loopback interface that nothing uses now, for processes that cannot choose one."""

import socket


def free_port():
    return free_ports(1)[0]


def free_ports(count):
    """Different ports: all are taken at once before they are given back."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
