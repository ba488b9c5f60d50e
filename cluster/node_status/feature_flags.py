"""The features of a node that other nodes have to know of: RabbitMQ's feature flags.

The hello of a node lists the features that it has beyond the version of the protocol
(links/hello.py). A feature that all nodes of a cluster have is enabled; while one of them lacks it,
as during an upgrade node by node, it is unavailable. The names are those of RabbitMQ's flags whose
feature this node has.
"""

from collections.abc import Iterable

FEATURE_FLAGS = (
    ("classic_mirrored_queue_version", "Support setting version for classic mirrored queues"),
    ("classic_queue_type_delivery_support", "Bug fix for classic queue deliveries"),
    ("direct_exchange_routing_v2", "v2 direct exchange routing implementation"),
    ("drop_unroutable_metric", "Count unroutable publishes to be dropped in stats"),
    ("empty_basic_get_metric", "Count AMQP `basic.get` on empty queues in stats"),
    ("implicit_default_bindings", "Default bindings are now implicit, instead of being stored"),
    ("listener_records_in_ets", "Store listener records in ETS instead of Mnesia"),
    ("maintenance_mode_status", "Maintenance mode status"),
    ("restart_streams", "Support for restarting streams with optional preferred next leader"),
    ("stream_filtering", "Support for stream filtering"),
    ("tracking_records_in_ets", "Store tracking records in ETS instead of Mnesia"),
    ("user_limits", "Configure connection and channel limits for a user"),
    ("virtual_host_metadata", "Virtual host metadata (description, tags, etc)"),
)
"""The names and RabbitMQ's descriptions."""
NAMES = frozenset(name for name, _ in FEATURE_FLAGS)
ENABLED, UNAVAILABLE = "enabled", "unavailable"


def states(features_of_others: Iterable[frozenset[str]]) -> dict[str, str]:
    """The state of each feature. features_of_others: the features of each of the other nodes."""
    common = NAMES.intersection(*features_of_others)
    return {name: ENABLED if name in common else UNAVAILABLE for name, _ in FEATURE_FLAGS}
