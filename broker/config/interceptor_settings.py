"""The settings of the node's own interceptors of messages, which annotate them. All are off."""

from dataclasses import dataclass

from leveret.broker.config.declaration import setting
from leveret.broker.config.value_kinds import BOOLEAN


@dataclass(frozen=True)
class InterceptorSettings:
    """`config.interceptors`. None: the interceptor is off."""

    overwrites_timestamp: bool | None = setting(
        "message_interceptors.incoming.set_header_timestamp.overwrite",
        BOOLEAN,
        None,
        "Give each message that a client publishes the property `timestamp`, in seconds, and the "
        "header `timestamp_in_ms`, for clients of AMQP 1.0 the annotation "
        "`x-opt-rabbitmq-received-time`; whether to overwrite those that it has.",
        default_text="not set: off",
    )
    overwrites_routing_node: bool | None = setting(
        "message_interceptors.incoming.set_header_routing_node.overwrite",
        BOOLEAN,
        None,
        "Give each message that a client publishes the header `x-routed-by` with this node's name; "
        "whether to overwrite one that it has.",
        default_text="not set: off",
    )
    sets_sent_time: bool = setting(
        "message_interceptors.outgoing.timestamp.enabled",
        BOOLEAN,
        False,
        "Give each message that a client gets the header `x-opt-rabbitmq-sent-time`, in "
        "milliseconds.",
    )
    sets_mqtt_client_id: bool = setting(
        "mqtt.message_interceptors.incoming.set_client_id_annotation.enabled",
        BOOLEAN,
        False,
        "Give each message that a client of MQTT publishes the header `x-opt-mqtt-client-id`.",
    )
