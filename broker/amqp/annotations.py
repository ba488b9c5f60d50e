"""Annotations: what the broker, and interceptors, say about a message that its publisher did not.

Clients of AMQP 0-9-1, and queues, see an annotation as a header. In AMQP 1.0 it is a message
annotation. Clients of MQTT do not see it. Names and meanings are those of RabbitMQ 4.2.
"""

from typing import Final

RECEIVED_AT: Final = "timestamp_in_ms"
"""When the broker received the message: milliseconds since 1970. In AMQP 1.0 it is
`RECEIVED_AT_IN_1_0`."""
RECEIVED_AT_IN_1_0: Final = "x-opt-rabbitmq-received-time"
SENT_AT: Final = "x-opt-rabbitmq-sent-time"
"""When the broker sent it to the client: milliseconds since 1970."""
ROUTED_BY: Final = "x-routed-by"
"""The node that routed it."""
MQTT_CLIENT_ID: Final = "x-opt-mqtt-client-id"
"""The identifier of the client of MQTT that published it."""
_OPTIONAL: Final = "x-opt-"
"""Names with this beginning may be ignored by who does not know them (AMQP 1.0, 3.2.10)."""


def is_annotation(name: str) -> bool:
    """Whether a header is an annotation."""
    return name.startswith(_OPTIONAL) or name in (RECEIVED_AT, ROUTED_BY)
