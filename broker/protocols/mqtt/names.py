"""The names of the queues of MQTT sessions, and the arguments of their bindings (pure).

They are RabbitMQ's names, except those of the queues for QoS 2.
"""

from typing import Final

from leveret.broker.runtime.names import HIDDEN_ARGUMENT

QUEUE_PREFIX: Final = "mqtt-subscription-"
WILL_PREFIX: Final = "mqtt-will-"
QOS_0_TYPE: Final = "rabbit_mqtt_qos0_queue"
"""RabbitMQ's type of the queue for QoS 0 of a session that ends with its connection."""
BINDING_KEY_ARGUMENT: Final = "x-binding-key"
OPTIONS_ARGUMENT: Final = HIDDEN_ARGUMENT
"""The argument with the identifier and the options of a subscription."""


def queue_names(client_id: str) -> tuple[str, str]:
    """The queues of a session: for its filters of QoS 0, and for those of QoS 1."""
    return f"{QUEUE_PREFIX}{client_id}qos0", f"{QUEUE_PREFIX}{client_id}qos1"


def exactly_once_queue(client_id: str) -> str:
    """The queue of a session for its filters of QoS 2."""
    return f"{QUEUE_PREFIX}{client_id}qos2"


def record_queues(client_id: str) -> tuple[str, str]:
    """The queues with the records of QoS 2: for published and for delivered messages."""
    return f"{QUEUE_PREFIX}{client_id}received", f"{QUEUE_PREFIX}{client_id}sent"


def session_queues(client_id: str) -> tuple[str, ...]:
    """All queues that a session may have."""
    return (*queue_names(client_id), exactly_once_queue(client_id), *record_queues(client_id))


def will_queue(client_id: str) -> str:
    """The queue with the delayed will of a client."""
    return f"{WILL_PREFIX}{client_id}"
