"""The IPv4 address of a network interface of this host."""

import fcntl
import socket
import struct

SIOCGIFADDR = 0x8915
"""The request of Linux for the address of an interface; netdevice(7)."""
NAME_BYTES_MAX = 15


def ipv4_of(interface: str) -> str:
    """The address. Raises OSError if there is no such interface or it has no IPv4 address."""
    request = struct.pack("16s24x", interface.encode()[:NAME_BYTES_MAX])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        answer = fcntl.ioctl(asked, SIOCGIFADDR, request)
    return socket.inet_ntoa(answer[20:24])
