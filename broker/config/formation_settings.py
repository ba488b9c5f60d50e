"""The settings of cluster formation: how a new node finds the nodes of its cluster.

The part that uses them is cluster/discovery. Keys and defaults are RabbitMQ's. A node may be given
with the port of its link to other nodes, `rabbit@host:25673`, which RabbitMQ asks epmd for.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from leveret.broker.config.declaration import listed_setting, named_setting, section, setting
from leveret.broker.config.tls_settings import ClientTlsOptions
from leveret.broker.config.value_kinds import (
    BOOLEAN,
    MILLISECONDS,
    NAME,
    PATH,
    PORT,
    TEXT,
    Kind,
    one_of,
    or_unlimited,
    whole_number,
)
from leveret.broker.plugins.extensions import Extensions
from leveret.broker.runtime.node_address import NodeAddress, read_node_address, read_port

CLASSIC_CONFIG, DNS, CONSUL, ETCD, KUBERNETES = (
    "classic_config", "dns", "consul", "etcd", "kubernetes"
)  # fmt: skip
BACKENDS = {
    CLASSIC_CONFIG: CLASSIC_CONFIG,
    "classic": CLASSIC_CONFIG,
    "config": CLASSIC_CONFIG,
    "rabbit_peer_discovery_classic_config": CLASSIC_CONFIG,
    DNS: DNS,
    "rabbit_peer_discovery_dns": DNS,
    CONSUL: CONSUL,
    "rabbit_peer_discovery_consul": CONSUL,
    ETCD: ETCD,
    "rabbit_peer_discovery_etcd": ETCD,
    KUBERNETES: KUBERNETES,
    "k8s": KUBERNETES,
    "rabbit_peer_discovery_k8s": KUBERNETES,
}
"""Backends by the names that RabbitMQ accepts, among them those of its modules."""
PEER_DISCOVERY = "leveret.peer_discovery"
INSTALLED_BACKENDS: Extensions[object] = Extensions(PEER_DISCOVERY, {})
"""Backends of other packages."""
DISC, RAM = "disc", "ram"
NODE_TYPES = {DISC: DISC, "disk": DISC, RAM: RAM}
ENDPOINT = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")
CONSUL_PORT, ETCD_PORT = 8500, 2379
SECRETS_OF_A_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes mounts the files that a pod needs to use its API."""


def _read_endpoint(text: str) -> str:
    if not ENDPOINT.fullmatch(text):
        raise ValueError
    read_port(text.rpartition(":")[2])
    return text


def _one_name_of(names: dict[str, str]) -> Kind[str]:
    def read(text: str) -> str:
        if text not in names:
            raise ValueError
        return names[text]

    return Kind(f"one of {', '.join(dict.fromkeys(names.values()))}", read)


def _read_backend(text: str) -> str:
    return text if text not in BACKENDS and text in INSTALLED_BACKENDS else BACKEND.read(text)


BACKEND = _one_name_of(BACKENDS)

SECONDS = whole_number("seconds")
NODE = Kind("a node such as rabbit@host or rabbit@host:25673", read_node_address)
SCHEME = one_of("http", "https")


@dataclass(frozen=True)
class ConsulSettings:
    """`config.cluster_formation.consul`."""

    scheme: str = setting("scheme", SCHEME, "http", "How the Consul agent is connected to.")
    host: str = setting("host", NAME, "localhost", "The host of the Consul agent.")
    port: int = setting("port", PORT, CONSUL_PORT, "The port of the Consul agent.")
    acl_token: str = setting(
        "acl_token",
        TEXT,
        "",
        "The token that is sent with each request.",
        default_text="none",
        is_secret=True,
    )
    cluster_name: str = setting(
        "cluster_name",
        NAME,
        "default",
        "The cluster that nodes register for, as a tag of the service; `default` adds no tag.",
    )
    svc: str = setting("svc", NAME, "rabbitmq", "The name of the service in Consul.")
    svc_addr: str = setting(
        "svc_addr",
        TEXT,
        "",
        "The address of the node's service.",
        default_text="that of the agent's host",
    )
    svc_addr_auto: bool = setting(
        "svc_addr_auto", BOOLEAN, False, "Whether the address is the name of this host."
    )
    svc_addr_use_nodename: bool = setting(
        "svc_addr_use_nodename",
        BOOLEAN,
        False,
        "With svc_addr_auto: whether the address is the host of the node's name instead.",
    )
    svc_addr_nic: str = setting(
        "svc_addr_nic",
        TEXT,
        "",
        "The network interface whose IPv4 address is the address of the service.",
        default_text="none",
    )
    svc_port: int = setting("svc_port", PORT, 5672, "The port of the node's service.")
    svc_ttl_s: int = setting(
        "svc_ttl",
        whole_number("seconds", minimum=1),
        30,
        "How long the service may give no sign of life before Consul marks it critical.",
    )
    svc_tags: tuple[str, ...] = listed_setting(
        "svc_tags.$name", NAME, (), "Tags of the node's service.", default_text="none"
    )
    svc_meta: tuple[tuple[str, str], ...] = named_setting(
        "svc_meta.$name", TEXT, "Metadata of the node's service."
    )
    deregister_after_s: int | None = setting(
        "deregister_after",
        SECONDS,
        None,
        "How long the service may be critical before Consul removes it.",
    )
    domain_suffix: str = setting(
        "domain_suffix", NAME, "consul", "The domain of Consul's DNS, for use_longname."
    )
    use_longname: bool = setting(
        "use_longname",
        BOOLEAN,
        False,
        "Whether the host of a service without an address is `NODE.node.DOMAIN` of Consul's DNS.",
    )
    include_nodes_with_warnings: bool = setting(
        "include_nodes_with_warnings",
        BOOLEAN,
        False,
        "Whether nodes whose health checks have the state warning are included.",
    )
    lock_prefix: str = setting(
        "lock_prefix", NAME, "rabbitmq", "The first word of the key of the startup lock."
    )
    lock_timeout_s: int = setting(
        "lock_timeout lock_wait_time", SECONDS, 300, "How long a node waits for the startup lock."
    )
    tls: ClientTlsOptions = section(
        ClientTlsOptions,
        "ssl_options",
        described_as="auth_http.ssl_options",
    )


@dataclass(frozen=True)
class EtcdSettings:
    """`config.cluster_formation.etcd`."""

    endpoints: tuple[str, ...] = listed_setting(
        "endpoints.$index",
        Kind("host:port", _read_endpoint),
        (),
        "The etcd servers; the first one that answers is used.",
        default_text="none",
    )
    host: str = setting("host", TEXT, "", "The host of one more etcd server.", default_text="none")
    port: int = setting("port", PORT, ETCD_PORT, "The port of that server.")
    scheme: str = setting(
        "scheme", SCHEME, "http", "How etcd is connected to; any of the ssl_options means https."
    )
    key_prefix: str = setting(
        "key_prefix", NAME, "rabbitmq", "A word of the keys of nodes and of the startup lock."
    )
    cluster_name: str = setting(
        "cluster_name", NAME, "default", "The cluster that nodes register for."
    )
    node_ttl_s: int = setting(
        "node_ttl",
        SECONDS,
        61,
        "How long a node may give no sign of life before etcd removes its key; at least 15.",
    )
    lock_timeout_s: int = setting(
        "lock_timeout lock_wait_time",
        SECONDS,
        70,
        "How long a node waits for the startup lock; at least 30.",
    )
    username: str = setting("username", TEXT, "", "The user of etcd.", default_text="none")
    password: str = setting(
        "password", TEXT, "", "The password of that user.", default_text="none", is_secret=True
    )
    tls: ClientTlsOptions = section(
        ClientTlsOptions, "ssl_options", described_as="auth_http.ssl_options"
    )


@dataclass(frozen=True)
class KubernetesSettings:
    """`config.cluster_formation.kubernetes`."""

    scheme: str = setting("scheme", SCHEME, "https", "How the API server is connected to.")
    host: str = setting(
        "host", NAME, "kubernetes.default.svc.cluster.local", "The host of the API server."
    )
    port: int = setting("port", PORT, 443, "The port of the API server.")
    token_path: Path = setting(
        "token_path", PATH, SECRETS_OF_A_POD / "token", "The file with the token for the API."
    )
    cert_path: Path = setting(
        "cert_path",
        PATH,
        SECRETS_OF_A_POD / "ca.crt",
        "The authorities that the certificate of the API server is checked against.",
    )
    namespace_path: Path = setting(
        "namespace_path", PATH, SECRETS_OF_A_POD / "namespace", "The file with the namespace."
    )
    service_name: str = setting(
        "service_name", NAME, "rabbitmq", "The service whose endpoints are the nodes."
    )
    address_type: str = setting(
        "address_type",
        one_of("ip", "hostname"),
        "ip",
        "Whether hosts in node names are the addresses of pods, or their names.",
    )
    hostname_suffix: str = setting(
        "hostname_suffix",
        TEXT,
        "",
        "What is added to each host, such as `.rabbitmq.default.svc.cluster.local`.",
        default_text="none",
    )


@dataclass(frozen=True)
class FormationSettings:
    """`config.cluster_formation`."""

    backend: str = setting(
        "cluster_formation.peer_discovery_backend",
        replace(BACKEND, read=_read_backend),
        CLASSIC_CONFIG,
        "How a new node finds the others: classic_config, dns, consul, etcd or kubernetes.",
    )
    node_type: str = setting(
        "cluster_formation.node_type",
        _one_name_of(NODE_TYPES),
        DISC,
        "The type of a new node that joins by classic_config or dns: disc or ram.",
    )
    nodes: tuple[NodeAddress, ...] = listed_setting(
        "cluster_formation.classic_config.nodes.$node",
        NODE,
        (),
        "The nodes of the cluster, for the backend classic_config.",
        default_text="none",
    )
    dns_hostname: str = setting(
        "cluster_formation.dns.hostname",
        TEXT,
        "",
        "The name whose addresses are those of the nodes, for the backend dns.",
        default_text="none",
    )
    discovery_retry_limit: int = setting(
        "cluster_formation.discovery_retry_limit",
        or_unlimited(whole_number("attempts", minimum=1)),
        10,
        "How many times a new node looks for other nodes and tries to join them.",
    )
    discovery_retry_interval_ms: int = setting(
        "cluster_formation.discovery_retry_interval",
        MILLISECONDS,
        500,
        "How long it waits between two attempts.",
    )
    lock_retry_limit: int = setting(
        "cluster_formation.lock_retry_limit",
        whole_number("attempts", minimum=1),
        10,
        "How many times a new node tries to get the startup lock of Consul or etcd.",
    )
    lock_retry_timeout_ms: int = setting(
        "cluster_formation.lock_retry_timeout",
        MILLISECONDS,
        30_000,
        "How long it waits between two attempts.",
    )
    startup_delay_min_s: int = setting(
        "cluster_formation.randomized_startup_delay_range.min",
        SECONDS,
        0,
        "The shortest random delay of a new node's start, for backends without a lock.",
    )
    startup_delay_max_s: int = setting(
        "cluster_formation.randomized_startup_delay_range.max",
        SECONDS,
        0,
        "The longest random delay.",
    )
    cleanup_interval_s: int | None = setting(
        "cluster_formation.node_cleanup.interval",
        whole_number("seconds", minimum=1),
        None,
        "How often a node looks for nodes that are down and that the backend does not list.",
        default_text="60 if only_log_warning is set, otherwise never",
    )
    cleanup_only_logs: bool | None = setting(
        "cluster_formation.node_cleanup.only_log_warning",
        BOOLEAN,
        None,
        "Whether such nodes are only logged; otherwise they are removed from the cluster.",
        default_text="true",
    )
    consul: ConsulSettings = section(ConsulSettings, "cluster_formation.consul")
    etcd: EtcdSettings = section(EtcdSettings, "cluster_formation.etcd")
    kubernetes: KubernetesSettings = section(KubernetesSettings, "cluster_formation.k8s")
