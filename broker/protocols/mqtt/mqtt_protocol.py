"""MQTT as one of the protocols that a node serves."""

from functools import partial

from leveret.broker.net.client_listeners import ServedProtocol
from leveret.broker.protocols.mqtt.connection import MqttConnection, MqttNode
from leveret.broker.protocols.mqtt.keep_alives import KeepAlives
from leveret.broker.protocols.mqtt.login import PROTOCOL
from leveret.broker.protocols.mqtt.lost_clients import LostClients
from leveret.broker.protocols.mqtt.topics import Topics
from leveret.broker.protocols.mqtt.wills import Wills
from leveret.broker.services.services import Services
from leveret.broker.sessions.served_connection import ServedConnection


def mqtt_protocol(services: Services, connections: set[ServedConnection]) -> ServedProtocol:
    """The protocol. connections: those of the whole node."""
    settings = services.config.mqtt
    turns = services.turns
    node = MqttNode(
        KeepAlives(services.clock, turns), Topics(settings.sparkplug), Wills(turns),
        LostClients(turns),
    )  # fmt: skip
    return ServedProtocol(
        PROTOCOL, settings.listeners, settings.tls_listeners, "mqtt.listeners",
        "mqtt.tls_listeners", partial(MqttConnection, services, connections, node),
    )  # fmt: skip
