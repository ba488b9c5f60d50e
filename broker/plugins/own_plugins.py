"""The plugins that are a part of Leveret, with RabbitMQ's names.

Those in `BUILT_IN` are always there; enabling them changes nothing. The protocols beside AMQP 0-9-1
are off unless they are enabled.
"""

from dataclasses import replace
from typing import Final

from leveret import __version__
from leveret.broker.plugins.plugin import INTERFACE, NONE, Contributions, Plugin

AMQP_1_0: Final = "rabbitmq_amqp1_0"
STOMP: Final = "rabbitmq_stomp"
STREAM: Final = "rabbitmq_stream"
MQTT: Final = "rabbitmq_mqtt"
WEB_MQTT: Final = "rabbitmq_web_mqtt"
WEB_STOMP: Final = "rabbitmq_web_stomp"
_SHARED_PORTS: Final = "leveret.broker.protocols.shared_ports"
_WEB_PROTOCOLS: Final = "leveret.broker.protocols.websockets.web_protocols"


def _own(name: str, description: str, *requires: str, protocols: Contributions = NONE) -> Plugin:
    return Plugin(
        name=name, description=description, version=__version__, interface=INTERFACE,
        requires=requires, protocols=protocols,
    )  # fmt: skip


BUILT_IN: Final = {
    one.name: one
    for one in (
        _own("rabbitmq_auth_backend_cache", "Keeps the answers of authentication backends"),
        _own("rabbitmq_auth_backend_http", "Logs in and authorizes by requests to a web server"),
        _own("rabbitmq_auth_backend_ldap", "Logs in and authorizes by an LDAP server"),
        _own("rabbitmq_auth_backend_oauth2", "Logs in and authorizes by OAuth 2.0 tokens"),
        _own("rabbitmq_auth_mechanism_ssl", "Logs in by a certificate (EXTERNAL)"),
        _own("rabbitmq_consistent_hash_exchange", "Exchange type x-consistent-hash"),
        _own("rabbitmq_delayed_message_exchange", "Exchange type x-delayed-message"),
        _own("rabbitmq_event_exchange", "Events as messages at amq.rabbitmq.event"),
        _own("rabbitmq_federation", "Federated exchanges and queues"),
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
        _own("rabbitmq_peer_discovery_consul", "Finds the nodes of a cluster with Consul"),
        _own("rabbitmq_peer_discovery_etcd", "Finds the nodes of a cluster with etcd"),
        _own("rabbitmq_peer_discovery_k8s", "Finds the nodes of a cluster with Kubernetes"),
        _own(
            "rabbitmq_prometheus", "Metrics for Prometheus",
            "rabbitmq_management_agent", "rabbitmq_web_dispatch",
        ),
        _own("rabbitmq_random_exchange", "Exchange type x-random"),
        _own("rabbitmq_recent_history_exchange", "Exchange type x-recent-history"),
        _own("rabbitmq_sharding", "Sharded exchanges, and exchange type x-modulus-hash"),
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
