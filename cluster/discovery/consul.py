"""The healthy instances of a service in Consul: cluster_formation.consul.

    GET /v1/health/service/SVC?passing=1&tag=CLUSTER   the nodes
    PUT /v1/agent/service/register                      this node registers, with a TTL check
    PUT /v1/agent/check/pass/service:ID                 a sign of life, at half of svc_ttl
    PUT /v1/agent/service/deregister/ID                 this node stops

A new node registers when it has joined or formed a cluster, and under the startup lock
(consul_lock.py): the node that holds the lock and finds no other node forms the cluster.

An agent that was restarted without its data knows neither the service nor the check, and answers a
sign of life with 404 (before Consul 1.11 with 500): the node registers again.
"""

import logging
import socket

import msgspec

from leveret.broker.config.formation_settings import CONSUL, DISC, ConsulSettings
from leveret.broker.config.setting_error import SettingError
from leveret.broker.config.settings import Config
from leveret.broker.runtime.node_address import NodeAddress
from leveret.cluster.discovery.consul_api import ConsulApi
from leveret.cluster.discovery.consul_lock import ConsulLock
from leveret.cluster.discovery.discovery import Discovered
from leveret.cluster.discovery.interfaces import ipv4_of
from leveret.cluster.discovery.json_api import StatusError
from leveret.cluster.discovery.node_names import NodeNames

NO_TAG = "default"
"""The cluster name for which RabbitMQ makes no tag."""
PORT_KEY = "cluster_port"
"""The port of the node's links in the service's metadata, if it is not the default one."""
CHECK_NOTES = "Leveret peer discovery: the node renews this check while it runs"
HEALTHY = ("passing", "warning")
UNKNOWN_CHECK, UNKNOWN_CHECK_BEFORE_1_11 = 404, 500

logger = logging.getLogger("leveret.peer_discovery")


class ConsulService(msgspec.Struct, rename="pascal"):
    """An instance of the service."""

    address: str = ""
    meta: dict[str, str] | None = None


class AgentNode(msgspec.Struct, rename="pascal"):
    """The host of an instance."""

    node: str


class Check(msgspec.Struct, rename="pascal"):
    """The state of a check: passing, warning or critical."""

    status: str


class Instance(msgspec.Struct, rename="pascal"):
    """An entry of /v1/health/service."""

    service: ConsulService
    node: AgentNode
    checks: list[Check] = []


class Consul:
    """The backend; discovery.py has the contract. own: this node.

    Raises SettingError for an interface or TLS files that cannot be used.
    """

    def __init__(self, settings: ConsulSettings, own: NodeAddress, names: NodeNames) -> None:
        self.name = CONSUL
        self._settings = settings
        self._names = names
        self._api = ConsulApi(settings)
        self.registration = ConsulRegistration(settings, own, names, self._api)
        self.lock = ConsulLock(settings, own.name, self._api)

    async def list_nodes(self) -> Discovered:
        """Ask for the healthy instances."""
        settings, query = self._settings, {}
        if not settings.include_nodes_with_warnings:
            query["passing"] = "1"
        if settings.cluster_name != NO_TAG:
            query["tag"] = settings.cluster_name
        path = f"/health/service/{settings.svc}"
        instances = await self._api.ask("GET", path, list[Instance], query=query)
        nodes = {
            self._node_of(instance)
            for instance in instances
            if all(check.status in HEALTHY for check in instance.checks)
        }
        return Discovered(tuple(sorted(nodes)), DISC)

    def _node_of(self, instance: Instance) -> NodeAddress:
        port_text = (instance.service.meta or {}).get(PORT_KEY, "")
        port = int(port_text) if port_text.isdecimal() else None
        if instance.service.address:
            return NodeAddress(self._names.of_host(instance.service.address), port)
        name = self._names.of_host(instance.node.node)
        if self._settings.use_longname:
            name = f"{name}.node.{self._settings.domain_suffix}"
        return NodeAddress(name, port)

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()


class ConsulRegistration:
    """The service of this node."""

    def __init__(
        self, settings: ConsulSettings, own: NodeAddress, names: NodeNames, api: ConsulApi
    ) -> None:
        self._settings = settings
        self._own = own
        self._api = api
        self._address = _address(settings, names)
        self._id = f"{settings.svc}:{self._address}" if self._address else settings.svc
        self.renewal_interval_s = settings.svc_ttl_s / 2

    async def register(self) -> None:
        """Register the service, and give the first sign of life."""
        await self._api.tell("/agent/service/register", body=self._service())
        await self._pass()

    async def renew(self) -> None:
        """Give a sign of life; register again if the agent does not know the check."""
        try:
            await self._pass()
        except StatusError as error:
            if error.status not in (UNKNOWN_CHECK, UNKNOWN_CHECK_BEFORE_1_11):
                raise
            logger.warning("Consul does not know this node; registering again: %s", error)
            await self.register()

    async def unregister(self) -> None:
        """Remove the service."""
        await self._api.tell(f"/agent/service/deregister/{self._id}")

    async def _pass(self) -> None:
        await self._api.tell(f"/agent/check/pass/service:{self._id}")

    def _service(self) -> dict[str, object]:
        settings = self._settings
        check = {"Notes": CHECK_NOTES, "TTL": f"{settings.svc_ttl_s}s", "Status": "passing"}
        if settings.deregister_after_s is not None:
            check["DeregisterCriticalServiceAfter"] = f"{settings.deregister_after_s}s"
        service: dict[str, object] = {
            "ID": self._id,
            "Name": settings.svc,
            "Port": settings.svc_port,
            "Check": check,
        }
        if self._address:
            service["Address"] = self._address
        if tags := self._tags():
            service["Tags"] = tags
        if meta := self._meta():
            service["Meta"] = meta
        return service

    def _tags(self) -> list[str]:
        cluster = self._settings.cluster_name
        return [*([] if cluster == NO_TAG else [cluster]), *self._settings.svc_tags]

    def _meta(self) -> dict[str, str]:
        meta = dict(self._settings.svc_meta)
        if meta and self._settings.cluster_name != NO_TAG:
            meta = {"cluster": self._settings.cluster_name, **meta}
        return meta if self._own.port is None else {PORT_KEY: str(self._own.port), **meta}


def _address(settings: ConsulSettings, names: NodeNames) -> str:
    """The address of the service, by the settings; empty: the address of the agent's host."""
    if settings.svc_addr_nic:
        try:
            return ipv4_of(settings.svc_addr_nic)
        except OSError as error:
            raise SettingError(
                "cluster_formation.consul.svc_addr_nic",
                f"the interface {settings.svc_addr_nic} has no IPv4 address: {error.strerror}",
            ) from None
    if settings.svc_addr_auto:
        return names.own_host if settings.svc_addr_use_nodename else socket.gethostname()
    return settings.svc_addr


def consul_discovery(config: Config, own: NodeAddress) -> Consul:
    """The backend that the settings describe. own: this node."""
    return Consul(config.cluster_formation.consul, own, NodeNames(own.name))
