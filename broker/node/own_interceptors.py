"""The node's own interceptors of messages, which settings enable: RabbitMQ 4.2's.

They annotate messages as interceptors of plugins do (sessions/interceptors.py).
"""

from collections.abc import Callable
from functools import partial

from leveret.broker.amqp.annotations import MQTT_CLIENT_ID, RECEIVED_AT, ROUTED_BY, SENT_AT
from leveret.broker.config import Config
from leveret.broker.runtime.clock import Clock
from leveret.broker.sessions.interceptors import InterceptedMessage, Interceptor

_NUMBER, _TEXT, _TIMESTAMP = "l", "S", "timestamp"


def incoming(config: Config, clock: Clock) -> tuple[Interceptor, ...]:
    """The interceptors of messages that clients publish."""
    settings = config.interceptors
    now_s = clock.wall_time_s
    found: list[Interceptor] = []
    if settings.overwrites_timestamp is not None:
        found.append(partial(_set_received_at, now_s, settings.overwrites_timestamp))
    if settings.overwrites_routing_node is not None:
        overwrite = settings.overwrites_routing_node
        found.append(partial(_set_routed_by, config.node_name, overwrite))
    if settings.sets_mqtt_client_id:
        found.append(_set_client_id)
    return tuple(found)


def outgoing(config: Config, clock: Clock) -> tuple[Interceptor, ...]:
    """The interceptors of messages that clients receive."""
    return (partial(_set_sent_at, clock.wall_time_s),) if config.interceptors.sets_sent_time else ()


def _set_received_at(
    now_s: Callable[[], float], overwrite: bool, message: InterceptedMessage
) -> None:
    now_ms = int(now_s() * 1000)
    message.annotate(RECEIVED_AT, _NUMBER, now_ms, overwrite=overwrite)
    if overwrite or _TIMESTAMP not in message.properties:
        message.properties[_TIMESTAMP] = now_ms // 1000


def _set_routed_by(node: str, overwrite: bool, message: InterceptedMessage) -> None:
    message.annotate(ROUTED_BY, _TEXT, node, overwrite=overwrite)


def _set_client_id(message: InterceptedMessage) -> None:
    if message.client_id:
        message.annotate(MQTT_CLIENT_ID, _TEXT, message.client_id)


def _set_sent_at(now_s: Callable[[], float], message: InterceptedMessage) -> None:
    message.annotate(SENT_AT, _NUMBER, int(now_s() * 1000))
