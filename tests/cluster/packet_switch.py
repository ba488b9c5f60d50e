"""A process that passes IP packets between hosts, and loses or delays them on command.

Each host is a network namespace with a tun device, whose other end this process has. So the
loss and the delay of a packet are decided here, for each pair of hosts and each direction, with any
kernel that has namespaces and tun devices. When the process ends, the devices are gone.

It reads a command from each line of its standard input, and answers each with a line:

    attach ADDRESS NAMESPACE DEVICE      a host; NAMESPACE is a file such as /proc/1/ns/net
    set FROM TO LOSS SECONDS             the share of packets that are lost, and the delay of others
    heal                                 nothing is lost or delayed
"""

import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import selectors
import socket
import struct
import sys
import time

PACKET_BYTES_MAX = 65_535
CLONE_NEWNET = 0x4000_0000
TUNSETIFF = 0x4004_54CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
DESTINATION = slice(16, 20)
"""Of the header of an IPv4 packet."""

libc = ctypes.CDLL(None, use_errno=True)


def enter(namespace):
    """Move this process into a network namespace."""
    with open(namespace) as file:
        if libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


def make_device(name):
    """Make a tun device in the present namespace; return its descriptor."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    return descriptor


class Switch:
    """The hosts by their addresses, and what happens between them."""

    def __init__(self):
        self._hosts = {}
        self._rules = {}
        self._delayed = []
        self._count = 0
        self._random = random.Random(1)
        self._selector = selectors.DefaultSelector()
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ, None)
        self._home = os.open(f"/proc/{os.getpid()}/ns/net", os.O_RDONLY)

    def run(self):
        """Pass packets and obey commands until the standard input is closed."""
        while True:
            for key, _ in self._selector.select(self._pause()):
                if key.data is not None:
                    self._pass_on(key.fd, key.data)
                elif not self._obey():
                    return
            self._send_delayed()

    def _pause(self):
        return max(0.0, self._delayed[0][0] - time.monotonic()) if self._delayed else None

    def _obey(self):
        lines = os.read(sys.stdin.fileno(), PACKET_BYTES_MAX).decode().splitlines()
        for line in lines:
            command, *words = line.split()
            getattr(self, command)(*words)
            print("done", flush=True)
        return bool(lines)

    def attach(self, address, namespace, device):
        """Add a host."""
        enter(namespace)
        descriptor = make_device(device)
        if libc.setns(self._home, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "cannot return to the namespace of this process")
        source = socket.inet_aton(address)
        self._hosts[source] = descriptor
        self._selector.register(descriptor, selectors.EVENT_READ, source)

    def set(self, sender, receiver, loss, seconds):
        """Set the share of packets that are lost, and the delay of the others."""
        pair = socket.inet_aton(sender), socket.inet_aton(receiver)
        self._rules[pair] = float(loss), float(seconds)

    def heal(self):
        """Lose and delay no packets."""
        self._rules.clear()

    def _pass_on(self, descriptor, source):
        """Pass on what one host has sent."""
        while True:
            try:
                packet = os.read(descriptor, PACKET_BYTES_MAX)
            except BlockingIOError:
                return
            target = packet[DESTINATION]
            loss, seconds = self._rules.get((source, target), (0.0, 0.0))
            if loss and self._random.random() < loss:
                continue
            if seconds:
                self._count += 1
                due = time.monotonic() + seconds
                heapq.heappush(self._delayed, (due, self._count, target, packet))
            else:
                self._send(target, packet)

    def _send_delayed(self):
        while self._delayed and self._delayed[0][0] <= time.monotonic():
            _, _, target, packet = heapq.heappop(self._delayed)
            self._send(target, packet)

    def _send(self, target, packet):
        descriptor = self._hosts.get(target)
        if descriptor is not None:
            # A device whose queue is full loses the packet, as a network card does.
            with contextlib.suppress(BlockingIOError):
                os.write(descriptor, packet)


if __name__ == "__main__":
    Switch().run()
