"""The plugins that are a part of Leveret, with RabbitMQ's names.

Those in `BUILT_IN` are always available; enabling them changes nothing. Their contributions are in
the tables of every node (`contributed`), as places that are imported where they are used. Protocols
other than AMQP 0-9-1 have to be enabled.
"""

from dataclasses import replace
from typing import Final

from leveret import __version__
from leveret.broker.plugins.plugin import INTERFACE, NONE, Contributions, Plugin

DELAYED: Final = "rabbitmq_delayed_message_exchange"
AMQP_1_0: Final = "rabbitmq_amqp1_0"
STOMP: Final = "rabbitmq_stomp"
STREAM: Final = "rabbitmq_stream"
MQTT: Final = "rabbitmq_mqtt"
WEB_MQTT: Final = "rabbitmq_web_mqtt"
WEB_STOMP: Final = "rabbitmq_web_stomp"
_SHARED_PORTS: Final = "leveret.broker.protocols.shared_ports"
_WEB_PROTOCOLS: Final = "leveret.broker.protocols.websockets.web_protocols"


def _own(
    name: str,
    description: str,
    *requires: str,
    protocols: Contributions = NONE,
    exchange_types: Contributions = NONE,
    auth_backends: Contributions = NONE,
    peer_discovery: Contributions = NONE,
) -> Plugin:
    return Plugin(
        name=name, description=description, version=__version__, interface=INTERFACE,
        requires=requires, protocols=protocols, exchange_types=exchange_types,
        auth_backends=auth_backends, peer_discovery=peer_discovery,
    )  # fmt: skip


def _exchange_type(name: str, place: str) -> Contributions:
    return {name: f"leveret.broker.exchanges.{place}"}


def _backend(name: str) -> Contributions:
    return {name: f"leveret.broker.auth.backends.{name}:{name}_backend"}


def _discovery(name: str) -> Contributions:
    return {name: f"leveret.cluster.discovery.{name}:{name}_discovery"}


BUILT_IN: Final = {
    one.name: one
    for one in (
        _own("rabbitmq_auth_backend_cache", "Keeps the answers of authentication backends"),
        _own(
            "rabbitmq_auth_backend_http", "Logs in and authorizes by requests to a web server",
            auth_backends=_backend("http"),
        ),
        _own(
            "rabbitmq_auth_backend_ldap", "Logs in and authorizes by an LDAP server",
            auth_backends=_backend("ldap"),
        ),
        _own(
            "rabbitmq_auth_backend_oauth2", "Logs in and authorizes by OAuth 2.0 tokens",
            auth_backends=_backend("oauth2"),
        ),
        _own("rabbitmq_auth_mechanism_ssl", "Logs in by a certificate (EXTERNAL)"),
        _own(
            "rabbitmq_consistent_hash_exchange", "Exchange type x-consistent-hash",
            exchange_types=_exchange_type("x-consistent-hash", "consistent_hash:ConsistentHash"),
        ),
        _own(
            DELAYED, "Exchange type x-delayed-message",
            exchange_types=_exchange_type("x-delayed-message", "delayed:DelayedMessage"),
        ),
        _own("rabbitmq_event_exchange", "Events as messages at amq.rabbitmq.event"),
        _own(
            "rabbitmq_federation", "Federated exchanges and queues",
            exchange_types=_exchange_type(
                "x-federation-upstream", "federation_upstream:FederationUpstream"
            ),
        ),
        _own(
            "rabbitmq_federation_management", "Management of federation",
            "rabbitmq_management", "rabbitmq_federation",
        ),
        _own(
            "rabbitmq_management", "HTTP API and web pages",
            "rabbitmq_web_dispatch", "rabbitmq_management_agent",
        ),
        _own("rabbitmq_management_agent", "Statistics for management"),
        _own("rabbitmq_peer_discovery_common", "Finds the nodes of a cluster"),
        _own(
            "rabbitmq_message_deduplication", "Exchange type x-message-deduplication",
            exchange_types=_exchange_type(
                "x-message-deduplication", "message_deduplication:MessageDeduplication"
            ),
        ),
        _own(
            "rabbitmq_peer_discovery_consul", "Finds the nodes of a cluster with Consul",
            peer_discovery=_discovery("consul"),
        ),
        _own(
            "rabbitmq_peer_discovery_etcd", "Finds the nodes of a cluster with etcd",
            peer_discovery=_discovery("etcd"),
        ),
        _own(
            "rabbitmq_peer_discovery_k8s", "Finds the nodes of a cluster with Kubernetes",
            peer_discovery=_discovery("kubernetes"),
        ),
        _own(
            "rabbitmq_prometheus", "Metrics for Prometheus",
            "rabbitmq_management_agent", "rabbitmq_web_dispatch",
        ),
        _own(
            "rabbitmq_random_exchange", "Exchange type x-random",
            exchange_types=_exchange_type("x-random", "random_choice:RandomChoice"),
        ),
        _own(
            "rabbitmq_recent_history_exchange", "Exchange type x-recent-history",
            exchange_types=_exchange_type("x-recent-history", "recent_history:RecentHistory"),
        ),
        _own(
            "rabbitmq_sharding", "Sharded exchanges, and exchange type x-modulus-hash",
            exchange_types=_exchange_type("x-modulus-hash", "modulus_hash:ModulusHash"),
        ),
        _own("rabbitmq_shovel", "Shovels"),
        _own(
            "rabbitmq_shovel_management", "Management of shovels",
            "rabbitmq_management", "rabbitmq_shovel",
        ),
        _own("rabbitmq_stream_management", "Management of streams", "rabbitmq_management"),
        _own("rabbitmq_tracing", "Traces to files"),
        _own("rabbitmq_web_dispatch", "The web server of management"),
    )
}  # fmt: skip

OF_VERSION_4: Final = _own(
    "rabbit", "Contributions of nodes with `compat` 4.0 or 4.x",
    exchange_types=_exchange_type("x-local-random", "local_random:LocalRandom"),
)  # fmt: skip
"""Not listed among the plugins, as in RabbitMQ, where it is a part of the broker itself."""

OPTIONAL: Final = {
    one.name: one
    for one in (
        replace(
            _own(AMQP_1_0, "AMQP 1.0"),
            start=f"{_SHARED_PORTS}:serve_amqp10", stop=f"{_SHARED_PORTS}:refuse_amqp10",
        ),
        _own(
            STOMP, "STOMP 1.0, 1.1 and 1.2",
            protocols={"stomp": "leveret.broker.protocols.stomp.stomp_protocol:stomp_protocol"},
        ),
        _own(
            STREAM, "RabbitMQ's stream protocol",
            protocols={"stream": "leveret.broker.protocols.stream.stream_protocol:stream_protocol"},
        ),
        _own(
            MQTT, "MQTT 3.1, 3.1.1 and 5.0",
            protocols={"mqtt": "leveret.broker.protocols.mqtt.mqtt_protocol:mqtt_protocol"},
        ),
        _own(
            WEB_MQTT, "MQTT over WebSockets", MQTT,
            protocols={"web_mqtt": f"{_WEB_PROTOCOLS}:web_mqtt_protocol"},
        ),
        _own(
            WEB_STOMP, "STOMP over WebSockets", STOMP,
            protocols={"web_stomp": f"{_WEB_PROTOCOLS}:web_stomp_protocol"},
        ),
    )
}  # fmt: skip

OWN: Final = {**BUILT_IN, **OPTIONAL}


def contributed(field: str, *, but: str = "") -> dict[str, str]:
    """The places of the contributions of built-in plugins, by name.

    field: of `Plugin`. but: the name of a plugin whose contributions are omitted.
    """
    return {
        name: place
        for plugin in BUILT_IN.values()
        if plugin.name != but
        for name, place in getattr(plugin, field).items()
    }
