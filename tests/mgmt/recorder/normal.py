"""Normalises answers: values that are always the same are kept, others are replaced by their type.

A type is written `<number>`, `<text>`, `<boolean>`, `<null>`; a list of which only the type of its
items is known is `{"<each>": item}`. Two recordings are merged: a value that differs is replaced by
its type, and a key that only one has is not required.
"""

import re
from typing import Any

from tests.mgmt.recorder.requests import PREFIX

EACH = "<each>"
TYPES = {"<any>", "<boolean>", "<list>", "<null>", "<number>", "<object>", "<text>"}

VOLATILE = re.compile(
    r"""
    rate | .*_(rate|avg_rate|time|timestamp|version|limit|oct|cnt|pend|avg_time|capacity)
    | (mem|fd|sockets|disk|proc|io|mnesia|msg_store|queue_index|gc|context)_.* | .*memory.*
    | uptime | run_queue | processors | reductions | connected_at | timestamp | idle_since
    | garbage_collection | backing_queue_status | messages_ram | .*_ram | .*_paged_out
    | consumer_utilisation | head_message_timestamp | effective_policy_definition_order
    | ports? | protocols | peer_port | host | peer_host | os_pid | pid | version | platform
    | information | product(_version)? | password_hash | ip_address | cluster_name | internal_id
    | applications | auth_mechanisms | config_files | contexts | listeners | log_files? | db_dir
    | enabled_plugins | exchange_types | erlang_.* | sample_retention_policies | samples
    | churn_rates | object_totals | queue_totals | cluster_links | metrics_gc_queue_length
    | local_connection | statistics_db_event_queue | ra_open_file_metrics | net_ticktime
    | rates_mode
    """,
    re.VERBOSE,
)
"""Names of values that differ between brokers or runs."""
_WRAPPED = re.compile(r"\n +")
"""Where Erlang begins a new line within a term. A new line of a text is not indented."""
OURS = (PREFIX, "{v}")
"""Prefixes of the recorder's names: in a broker, and after replacing the scenario's vhost."""
_LISTS_OF_NAMED = {
    "vhosts",
    "users",
    "global_parameters",
    "global-parameters",
    "without-permissions",
}


def only_ours(body: Any, name: str = "") -> Any:
    """Remove items of lists that the recorder did not create. name: the key of the body."""
    if isinstance(body, dict):
        return {key: only_ours(value, key) for key, value in body.items()}
    if isinstance(body, list):
        return [only_ours(item) for item in body if _is_ours(item, name)]
    return body


def normalised(body: Any, name: str = "") -> Any:
    """Replace volatile values by their types, and write Erlang terms in reasons on one line."""
    if name == "reason" and isinstance(body, str):
        return _WRAPPED.sub("", body)
    if VOLATILE.fullmatch(name):
        return typed(body)
    if isinstance(body, dict):
        return {key: normalised(value, key) for key, value in body.items()}
    return [normalised(item) for item in body] if isinstance(body, list) else body


def _is_ours(item: Any, list_name: str) -> bool:
    if not isinstance(item, dict):
        return True
    if isinstance(item.get("vhost"), str):
        return item["vhost"].startswith(OURS)
    if list_name in _LISTS_OF_NAMED or "value" in item:
        return str(item.get("name", item.get("user", ""))).startswith(OURS)
    return True


def typed(value: Any) -> Any:
    """Return the type of a value; for an object or list, the types of its values or items."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return {EACH: typed(value[0]) if value else "<any>"}
    return type_name(value)


def type_name(value: Any) -> str:
    """Return the written form of a plain value's type."""
    if value is None:
        return "<null>"
    if isinstance(value, bool):
        return "<boolean>"
    if is_type(value):
        return str(value)
    return "<number>" if isinstance(value, int | float) else "<text>"


def is_type(value: Any) -> bool:
    """Tell whether a value is the name of a type."""
    return isinstance(value, str) and value in TYPES


def merged(one: Any, other: Any) -> Any:
    """Return the common part of two recordings of the same request."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: merged(one[key], other[key]) for key in one if key in other}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [merged(*pair) for pair in zip(one, other, strict=True)]
    if one == other:
        return one
    kinds = {item if is_type(item) else _kind(item) for item in (one, other)}
    return kinds.pop() if len(kinds) == 1 else "<any>"


def _kind(value: Any) -> str:
    if isinstance(value, dict | list):
        return "<object>" if isinstance(value, dict) else "<list>"
    return type_name(value)
