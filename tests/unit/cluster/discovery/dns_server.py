"""A small DNS server on 127.0.0.1:53, and a program that lists nodes with it.

Run in a network namespace of its own, with the resolver's files replaced: see test_dns.py.
"""

import asyncio
import ipaddress
import struct

from leveret.broker.config.formation_settings import FormationSettings
from leveret.cluster.discovery.dns import Dns
from leveret.cluster.discovery.node_names import NodeNames

A, PTR, AAAA = 1, 12, 28
NAME = "nodes.example.org"
HOSTS = {
    "10.0.0.1": "one.example.org",
    "10.0.0.2": "two.example.org",
    "fd00::3": "three.example.org",
}
HEAD = struct.Struct(">HHHHHH")
ANSWER_FLAGS, NO_SUCH_NAME = 0x8580, 0x8583
POINTER_TO_THE_QUESTION = b"\xc0\x0c"


def labels(name):
    parts = (bytes([len(part)]) + part.encode() for part in name.split("."))
    return b"".join(parts) + b"\0"


def records():
    """The content of all records, by name and type."""
    found = {(NAME, A): [], (NAME, AAAA): []}
    for text, host in HOSTS.items():
        address = ipaddress.ip_address(text)
        found[NAME, A if address.version == 4 else AAAA].append(address.packed)
        found[address.reverse_pointer, PTR] = [labels(host)]
    return found


class DnsServer(asyncio.DatagramProtocol):
    """Answers questions of one name each."""

    def __init__(self):
        self.records = records()

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        number = HEAD.unpack_from(data)[0]
        parts, place = [], HEAD.size
        while data[place]:
            parts.append(data[place + 1 : place + 1 + data[place]].decode())
            place += 1 + data[place]
        question = data[HEAD.size : place + 5]
        kind = struct.unpack_from(">H", data, place + 1)[0]
        found = self.records.get((".".join(parts).lower(), kind))
        flags = NO_SUCH_NAME if found is None else ANSWER_FLAGS
        answer = HEAD.pack(number, flags, 1, len(found or ()), 0, 0) + question
        for content in found or ():
            answer += POINTER_TO_THE_QUESTION
            answer += struct.pack(">HHIH", kind, 1, 60, len(content)) + content
        self.transport.sendto(answer, address)


async def main():
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(DnsServer, ("127.0.0.1", 53))
    discovery = Dns(FormationSettings(dns_hostname=NAME), NodeNames("rabbit@one"))
    for node in (await discovery.list_nodes()).nodes:
        print(node)


if __name__ == "__main__":
    asyncio.run(main())
