"""Addresses of clients: the ones that count as one client, and the loopback addresses."""

import ipaddress
from functools import lru_cache

IPV6_HOST_BITS = 64
ADDRESSES_KEPT = 4096
"""A login asks several times, and reading an address is a quarter of the work of a login."""


@lru_cache(maxsize=ADDRESSES_KEPT)
def source_of(address: str) -> str:
    """The key under which an address is counted: itself, or its IPv6 network of 64 bits.

    A single host is assigned a whole network.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    if found.is_loopback or found.is_link_local:
        return str(found)
    return str(ipaddress.ip_network((found, IPV6_HOST_BITS), strict=False))


@lru_cache(maxsize=ADDRESSES_KEPT)
def is_loopback(host: str) -> bool:
    """Whether the address is a loopback address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
