"""How error texts name resources: ``queue 'orders' in vhost '/'`` (`rabbit_misc:rs/1`)."""

QUEUE, EXCHANGE = "queue", "exchange"
RESERVED_PREFIX = "amq."
HIDDEN_ARGUMENT = "x-leveret-mqtt-options"
"""The argument of a binding that management does not show: the options of an MQTT subscription."""
SUCCESSOR_PREFIX = "amq.conversion-"
"""Begins the names of queues that are to take the place of others. No policy applies to them."""
DELAYING_PREFIX = "amq.delayed-"
"""Begins the names of queues in which the messages of an exchange wait, before the exchange's name.
Clients do not see them, and no policy applies to them (broker/vhost/replicated_delays.py)."""
NODE_ITSELF = "rmq-internal"
"""RabbitMQ's name for the user of an operation that no user requested."""


def resource(kind: str, name: str, vhost: str) -> str:
    """`queue 'q' in vhost '/'`."""
    return f"{kind} '{name}' in vhost '{vhost}'"


def is_delaying(queue: str) -> bool:
    """Whether this is the name of a queue in which the messages of an exchange wait."""
    return queue.startswith(DELAYING_PREFIX)


def without_line_breaks(name: str) -> str:
    """RabbitMQ strips carriage returns and line feeds from declared names."""
    return name.replace("\n", "").replace("\r", "")
