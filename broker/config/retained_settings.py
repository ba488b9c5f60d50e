"""The settings of retained messages of MQTT."""

from dataclasses import dataclass

from leveret.broker.config.declaration import setting
from leveret.broker.config.value_kinds import BOOLEAN, size, whole_number


@dataclass(frozen=True)
class RetainedSettings:
    """`config.retained`."""

    finds_wildcards: bool = setting(
        "mqtt.retained.wildcards",
        BOOLEAN,
        False,
        "Whether a subscription with wildcards gets the retained messages of all topics that it "
        "matches. RabbitMQ gives retained messages for exact topics only.",
    )
    messages_max: int = setting(
        "mqtt.retained.max_messages",
        whole_number("messages"),
        0,
        "How many retained messages a vhost may have; 0 is no limit.",
    )
    bytes_max: int = setting(
        "mqtt.retained.max_bytes",
        size(),
        0,
        "How many bytes the retained messages of a vhost may have, with their topics; 0 is no "
        "limit.",
    )
