"""The addresses of one host name, and the names of these addresses: cluster_formation.dns.hostname.

The name has an A or AAAA record for each node. Reverse look-ups of the addresses give the nodes'
hosts, so each address needs a PTR record, too. The system's resolver does the look-ups and honours
/etc/hosts as well.

A name without addresses lists no nodes, as in RabbitMQ: its first node forms the cluster. It is an
error if the name server does not answer, or if none of the addresses has a name: nodes exist then,
and a node that formed a cluster of its own would stay separate from them.
"""

import asyncio
import logging
import socket
from typing import Protocol

from leveret.broker.config.formation_settings import DNS, FormationSettings
from leveret.broker.runtime.node_address import NodeAddress
from leveret.cluster.discovery.discovery import Discovered, DiscoveryError
from leveret.cluster.discovery.node_names import NodeNames

LOOKUP_SECONDS = 15.0
"""The system's resolver tries a name server twice for five seconds."""
NO_ADDRESSES = (socket.EAI_NONAME, socket.EAI_NODATA)
SETTING = "cluster_formation.dns.hostname"

logger = logging.getLogger("leveret.peer_discovery")


class Resolver(Protocol):
    """Raises OSError for a failed look-up; the number of a gaierror says why."""

    async def addresses_of(self, host: str) -> list[str]:
        """The addresses of a host."""

    async def name_of(self, address: str) -> str:
        """The name of an address."""


class SystemResolver:
    """The resolver of the operating system, in the threads of the event loop."""

    async def addresses_of(self, host: str) -> list[str]:
        """The addresses, each once."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    async def name_of(self, address: str) -> str:
        """The name, of the PTR record."""
        loop = asyncio.get_running_loop()
        name, _ = await loop.getnameinfo((address, 0), socket.NI_NAMEREQD)
        return name


class Dns:
    """A backend without registration and lock; discovery.py has the contract."""

    def __init__(
        self, settings: FormationSettings, names: NodeNames, resolver: Resolver | None = None
    ) -> None:
        self.name = DNS
        self.registration = None
        self.lock = None
        self._host = settings.dns_hostname
        self._node_type = settings.node_type
        self._names = names
        self._resolver = SystemResolver() if resolver is None else resolver

    async def list_nodes(self) -> Discovered:
        """Look up the name, and the names of its addresses."""
        addresses = await self._addresses()
        names = await asyncio.gather(*map(self._name_of, addresses))
        hosts = [name for name in names if name is not None]
        if addresses and not hosts:
            raise DiscoveryError(
                f"none of the addresses {', '.join(addresses)} of {self._host} has a name: add PTR "
                "records that name the hosts of the nodes"
            )
        nodes = sorted({NodeAddress(self._names.at(host)) for host in hosts})
        return Discovered(tuple(nodes), self._node_type)

    async def _addresses(self) -> list[str]:
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                addresses = await self._resolver.addresses_of(self._host)
        except TimeoutError:
            reason = f"no answer within {LOOKUP_SECONDS:g} seconds"
        except socket.gaierror as error:
            if error.errno in NO_ADDRESSES:
                logger.warning(
                    "the name %s (%s) has no addresses: a node that starts now forms a cluster of "
                    "its own",
                    self._host,
                    SETTING,
                )
                return []
            reason = error.strerror or str(error)
        except (OSError, UnicodeError) as error:
            reason = str(error)
        else:
            logger.info("addresses of %s: %s", self._host, ", ".join(addresses))
            return addresses
        raise DiscoveryError(
            f"the addresses of {self._host} cannot be looked up: {reason}: check {SETTING} and the "
            "name servers in /etc/resolv.conf"
        )

    async def _name_of(self, address: str) -> str | None:
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                return await self._resolver.name_of(address)
        except (OSError, TimeoutError) as error:
            reason = getattr(error, "strerror", None) or "no answer in time"
            logger.error(
                "ignoring the address %s of %s: its name cannot be looked up: %s: add a PTR record",
                address,
                self._host,
                reason,
            )
            return None

    async def close(self) -> None:
        """Nothing is open."""
