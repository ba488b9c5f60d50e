"""Keys of nodes in etcd: cluster_formation.etcd.

    /rabbitmq/discovery/KEY_PREFIX/clusters/CLUSTER_NAME/nodes/NODE

Each node has a key with a lease, whose value names the node in JSON: the key of a node that does
not keep its lease alive is removed after `node_ttl`. The keys are RabbitMQ's. The node's port is in
the value if it is not the default one.

A new node registers when it has joined or formed a cluster, and under the startup lock
(etcd_lock.py): the node that holds the lock and finds no other node forms the cluster.
"""

import base64
import binascii
import logging

import msgspec

from leveret.broker.config.formation_settings import DISC, ETCD, EtcdSettings
from leveret.broker.config.settings import Config
from leveret.broker.runtime.node_address import NodeAddress, read_node_address
from leveret.cluster.discovery.discovery import Discovered
from leveret.cluster.discovery.etcd_api import EtcdApi, after_prefix, encoded
from leveret.cluster.discovery.etcd_lock import EtcdLock

NODE_TTL_MIN_S = 15
"""RabbitMQ's: shorter leases expire while a busy server answers."""
RENEWALS_PER_TTL = 3

logger = logging.getLogger("leveret.peer_discovery")


class EtcdEntry(msgspec.Struct):
    """A key with its value, in Base64."""

    value: str = ""


class Range(msgspec.Struct):
    """The answer to kv/range; the gateway leaves an empty list out."""

    kvs: list[EtcdEntry] = []


class Registered(msgspec.Struct):
    """The value of a node's key."""

    node: str
    port: int | None = None


class Etcd:
    """The backend; discovery.py has the contract. own: this node.

    Raises SettingError for invalid settings.
    """

    def __init__(self, settings: EtcdSettings, own: NodeAddress) -> None:
        self.name = ETCD
        self._api = EtcdApi(settings)
        self._prefix = (
            f"/rabbitmq/discovery/{settings.key_prefix}/clusters/{settings.cluster_name}/nodes/"
        )
        self.registration = EtcdRegistration(settings, own, self._prefix + own.name, self._api)
        self.lock = EtcdLock(settings, self._api)

    async def list_nodes(self) -> Discovered:
        """Read the keys of all nodes."""
        body = {"key": encoded(self._prefix), "range_end": after_prefix(self._prefix)}
        entries = (await self._api.ask("/kv/range", body, Range)).kvs
        nodes = {node for entry in entries if (node := _node_of(entry.value)) is not None}
        return Discovered(tuple(sorted(nodes)), DISC)

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()


class EtcdRegistration:
    """The key of this node, and its lease."""

    def __init__(self, settings: EtcdSettings, own: NodeAddress, key: str, api: EtcdApi) -> None:
        self._own = own
        self._key = key
        self._api = api
        self._ttl_s = max(settings.node_ttl_s, NODE_TTL_MIN_S)
        self._lease = ""
        self.renewal_interval_s = self._ttl_s / RENEWALS_PER_TTL

    async def register(self) -> None:
        """Put the key, with a new lease."""
        self._lease = await self._api.grant_lease(self._ttl_s)
        value = {"node": self._own.name, "lease_id": int(self._lease), "ttl": self._ttl_s}
        if self._own.port is not None:
            value["port"] = self._own.port
        body = {
            "key": encoded(self._key),
            "value": encoded(msgspec.json.encode(value).decode()),
            "lease": self._lease,
        }
        await self._api.ask("/kv/put", body, msgspec.Raw)

    async def renew(self) -> None:
        """Keep the lease alive; register again if it is gone."""
        if not self._lease or not await self._api.keep_alive(self._lease):
            logger.warning("etcd does not know the lease of this node; registering again")
            await self.register()

    async def unregister(self) -> None:
        """Delete the key, and revoke the lease."""
        await self._api.ask("/kv/deleterange", {"key": encoded(self._key)}, msgspec.Raw)
        if self._lease:
            lease, self._lease = self._lease, ""
            await self._api.revoke_lease(lease)


def _node_of(value: str) -> NodeAddress | None:
    """The node that a value names; None, with a line in the log, if it names none."""
    try:
        registered = msgspec.json.decode(base64.b64decode(value), type=Registered)
        node = read_node_address(registered.node)
        return NodeAddress(node.name, registered.port)
    except (msgspec.MsgspecError, UnicodeDecodeError, binascii.Error, ValueError) as error:
        logger.error("ignoring a key in etcd that does not name a node: %s", error)
        return None


def etcd_discovery(config: Config, own: NodeAddress) -> Etcd:
    """The backend that the settings describe. own: this node."""
    return Etcd(config.cluster_formation.etcd, own)
