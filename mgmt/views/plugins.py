"""The plugins that run in a node: those that it has enabled, and those that it always has.

The functions of most of RabbitMQ's plugins are built in. Scripts and libraries ask a node for a
plugin before they use it, so the node names the plugins that it replaces; those that depend on
settings are named only if the settings enable them.
"""

from collections.abc import Iterable

from leveret.broker.config import Config
from leveret.mgmt.running_node import RunningNode

BUILT_IN = (
    "rabbitmq_consistent_hash_exchange", "rabbitmq_delayed_message_exchange",
    "rabbitmq_federation", "rabbitmq_message_deduplication", "rabbitmq_random_exchange",
    "rabbitmq_recent_history_exchange", "rabbitmq_sharding", "rabbitmq_shovel", "rabbitmq_tracing",
)  # fmt: skip
MANAGEMENT = (
    "rabbitmq_federation_management", "rabbitmq_management", "rabbitmq_management_agent",
    "rabbitmq_shovel_management", "rabbitmq_web_dispatch",
)  # fmt: skip
BACKENDS = ("http", "ldap", "oauth2", "cache")


def running_plugins(node: RunningNode) -> list[str]:
    """The names of a node's plugins, sorted; without a running broker those that it always has."""
    return plugins(node.config, () if node.facade is None else node.facade.plugins.running)


def is_running(plugin: str, node: RunningNode) -> bool:
    """Whether a plugin runs that the node has enabled."""
    return node.facade is not None and plugin in node.facade.plugins.running


def plugins(config: Config, enabled: Iterable[str] = ()) -> list[str]:
    """The names, sorted. enabled: those that run beside the ones that a node always has."""
    found = [*BUILT_IN, *enabled]
    if config.management.port or config.management.tls_port:
        found += MANAGEMENT
    if config.prometheus.port:
        found.append("rabbitmq_prometheus")
    if config.event_exchange_vhost is not None:
        found.append("rabbitmq_event_exchange")
    if "EXTERNAL" in config.authentication.mechanisms:
        found.append("rabbitmq_auth_mechanism_ssl")
    used = _backends(config)
    found += [f"rabbitmq_auth_backend_{name}" for name in BACKENDS if name in used]
    return sorted(found)


def _backends(config: Config) -> set[str]:
    """The backends in use, by the words of the configuration or the ends of RabbitMQ's modules."""
    settings = config.authentication
    listed = (
        *settings.backends, *settings.backends_authentication, *settings.backends_authorization
    )  # fmt: skip
    used = {name.removeprefix("rabbit_auth_backend_") for _, name in listed}
    if "cache" in used:
        cache = config.auth_cache
        cached = (cache.backend, cache.authentication or "", cache.authorization or "")
        used.update(name.removeprefix("rabbit_auth_backend_") for name in cached)
    return used
