"""The endpoints of a Kubernetes service: cluster_formation.k8s.

    GET /api/v1/namespaces/NAMESPACE/endpoints/SERVICE

lists the pods behind the service. Pods that are not ready count as well: a node is not ready before
it has joined. The node is registered by Kubernetes; its registration here is an event,

    POST /api/v1/namespaces/NAMESPACE/events

that `kubectl get events` shows, as RabbitMQ's does. An event that cannot be posted is logged only.

The service account of the pod needs the permissions `get` for endpoints and `create` for events.
Its token is read for each request, since Kubernetes replaces it.
"""

import logging
import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec
from yarl import URL

from leveret.broker.auth.backends.client_tls import client_context
from leveret.broker.config.formation_settings import DISC, KUBERNETES, KubernetesSettings
from leveret.broker.config.setting_error import SettingError
from leveret.broker.config.settings import Config
from leveret.broker.config.tls_settings import ClientTlsOptions
from leveret.broker.runtime.node_address import NodeAddress
from leveret.cluster.discovery.discovery import Discovered, DiscoveryError
from leveret.cluster.discovery.json_api import Advice, JsonApi
from leveret.cluster.discovery.node_names import NodeNames

FILE_BYTES_MAX = 65_536
"""A token has less than two kilobytes."""
COMPONENT = "leveret_peer_discovery"
ADVICE = Advice(
    "check cluster_formation.k8s.host, port, scheme and cert_path",
    "the service account of the pod needs a role with the verb get for endpoints and create for "
    "events, and cluster_formation.k8s.token_path must be its token",
    "check cluster_formation.k8s.service_name: a headless service of this name must be in the "
    "namespace of the pod",
    "the API server of Kubernetes",
)

Answer = TypeVar("Answer")

logger = logging.getLogger("leveret.peer_discovery")


class EndpointAddress(msgspec.Struct):
    """An address of a pod; core/v1 EndpointAddress."""

    ip: str
    hostname: str | None = None


class EndpointSubset(msgspec.Struct, rename="camel"):
    """Pods with the same ports; core/v1 EndpointSubset."""

    addresses: list[EndpointAddress] | None = None
    not_ready_addresses: list[EndpointAddress] | None = None


class Endpoints(msgspec.Struct):
    """core/v1 Endpoints."""

    subsets: list[EndpointSubset] | None = None


class _Account:
    """The API server, as the service account of this pod sees it."""

    def __init__(self, settings: KubernetesSettings) -> None:
        self._settings = settings
        context = None
        if settings.scheme == "https":
            try:
                context = client_context(ClientTlsOptions(cacertfile=settings.cert_path))
            except ValueError as error:
                raise SettingError("cluster_formation.kubernetes.cert_path", str(error)) from None
        server = URL.build(scheme=settings.scheme, host=settings.host, port=settings.port)
        self._api = JsonApi((server,), ADVICE, context)

    def namespace(self) -> str:
        """The namespace of the pod. Raises DiscoveryError."""
        return _read_line(self._settings.namespace_path, "namespace_path")

    async def ask(self, path: str, answer: type[Answer]) -> Answer:
        """An answer about the namespace. Raises DiscoveryError."""
        return await self._api.ask("GET", self._path(path), answer, headers=self._headers())

    async def post(self, path: str, body: object) -> None:
        """Make an object in the namespace. Raises DiscoveryError."""
        await self._api.tell("POST", self._path(path), headers=self._headers(), body=body)

    def _path(self, path: str) -> str:
        return f"/api/v1/namespaces/{self.namespace()}{path}"

    def _headers(self) -> dict[str, str]:
        token = _read_line(self._settings.token_path, "token_path")
        self._api.hide(token)
        return {"Authorization": f"Bearer {token}"}

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()


class Kubernetes:
    """The backend; discovery.py has the contract.

    An address type that the endpoints do not have, and a list without this node, are errors: all
    nodes would form clusters of their own.
    """

    def __init__(self, settings: KubernetesSettings, names: NodeNames) -> None:
        self.name = KUBERNETES
        self.lock = None
        self._settings = settings
        self._names = names
        self._account = _Account(settings)
        self.registration = KubernetesEvents(self._account, names)

    async def list_nodes(self) -> Discovered:
        """Ask for the endpoints of the service."""
        path = f"/endpoints/{self._settings.service_name}"
        endpoints = await self._account.ask(path, Endpoints)
        hosts = {
            self._host_of(address)
            for subset in endpoints.subsets or ()
            for address in (*(subset.not_ready_addresses or ()), *(subset.addresses or ()))
        }
        nodes = tuple(NodeAddress(self._names.of_host(host)) for host in sorted(hosts))
        if self._names.own not in {node.name for node in nodes}:
            listed = ", ".join(node.name for node in nodes) or "no nodes"
            raise DiscoveryError(
                f"the service {self._settings.service_name} lists {listed} and not this node, "
                f"{self._names.own}: compare the node's name with cluster_formation.k8s."
                "address_type and hostname_suffix, and have the service publish addresses that "
                "are not ready"
            )
        return Discovered(nodes, DISC)

    def _host_of(self, address: EndpointAddress) -> str:
        host = address.ip if self._settings.address_type == "ip" else address.hostname
        if not host:
            raise DiscoveryError(
                f"the endpoint {address.ip} of {self._settings.service_name} has no hostname: make "
                "the service headless and the pods those of a StatefulSet with its serviceName, "
                "or set cluster_formation.k8s.address_type = ip"
            )
        return host + self._settings.hostname_suffix

    async def close(self) -> None:
        """Close the connections."""
        await self._account.close()


class KubernetesEvents:
    """The registration: an event for the operator."""

    renewal_interval_s = None

    def __init__(self, account: _Account, names: NodeNames) -> None:
        self._account = account
        self._names = names

    async def register(self) -> None:
        """Post an event."""
        text = f"Node {self._names.own} is registered"
        try:
            await self._account.post("/events", self._event("Normal", "Created", text))
        except DiscoveryError as error:
            logger.warning("failed to post an event of the start to Kubernetes: %s", error)

    async def renew(self) -> None:
        """Nothing expires."""

    async def unregister(self) -> None:
        """Do nothing: Kubernetes removes the pod when it ends."""

    def _event(self, kind: str, reason: str, text: str) -> dict[str, object]:
        host, namespace = socket.gethostname(), self._account.namespace()
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": namespace, "name": f"{host}.{time.time_ns() // 1_000_000}"},
            "type": kind,
            "reason": reason,
            "message": text,
            "count": 1,
            "lastTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": host,
                "namespace": namespace,
            },
            "source": {"component": f"{host}/{COMPONENT}", "host": host},
        }


def _read_line(path: Path, key: str) -> str:
    try:
        with path.open(encoding="ascii") as file:
            text = file.read(FILE_BYTES_MAX).strip()
        if not text or not text.isprintable():
            raise ValueError("it is not one line of text")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DiscoveryError(
            f"{path} cannot be read: {reason}: check cluster_formation.k8s.{key}, and that the pod "
            "has automountServiceAccountToken"
        ) from None
    return text


def kubernetes_discovery(config: Config, own: NodeAddress) -> Kubernetes:
    """The backend that the settings describe. own: this node."""
    return Kubernetes(config.cluster_formation.kubernetes, NodeNames(own.name))
