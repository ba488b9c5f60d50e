"""The keys of policies and the values they take, with RabbitMQ's error texts.

The texts contain values as Erlang prints them (`rabbit_policies`, `rabbit_mirror_queue_misc`).
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from leveret.broker.erlang.terms import format_term
from leveret.broker.plugins.extensions import Extensions
from leveret.broker.queues.contract.deduplication_arguments import (
    CACHE_PERSISTENCE,
    CACHE_SIZE,
    CACHE_SIZE_MAX,
    CACHE_TTL,
    CACHE_TTL_MAX_MS,
    DEDUPLICATION,
    PERSISTENCES,
)
from leveret.broker.queues.contract.retry_arguments import is_multiplier
from leveret.broker.queues.contract.stream_arguments import (
    FILTER_BYTES_MAX,
    FILTER_BYTES_MIN,
    SEGMENT_BYTES_MAX,
    age_ms,
)
from leveret.broker.runtime.patterns import compile_pattern

LOWER_WINS = frozenset(
    [
        "message-ttl",
        "max-length",
        "max-length-bytes",
        "max-in-memory-length",
        "max-in-memory-bytes",
        "expires",
        "delivery-limit",
        "delayed-retry-max",
    ]
)
"""Keys for which the lowest value of policy, operator policy and argument is in force. A negative
delivery limit is none.
"""
HIGHER_WINS = frozenset(["delayed-retry-min"])
"""Keys for which the higher value of policy and operator policy is in force."""
OPERATOR_WINS = frozenset(
    [
        "queue-version",
        "overflow",
        "delayed-retry-type",
        "delayed-retry-multiplier",
        "expire-on-time",
        DEDUPLICATION,
        CACHE_SIZE,
        CACHE_TTL,
    ]
)
OPERATOR_KEYS = (
    LOWER_WINS
    | HIGHER_WINS
    | OPERATOR_WINS
    | frozenset(
        ["ha-mode", "ha-params", "ha-sync-mode", "ha-promote-on-shutdown", "ha-promote-on-failure"]
    )
)
"""The keys of operator policies."""

SHARDS_PER_NODE = "shards-per-node"
SHARD_ROUTING_KEY = "routing-key"
"""The keys of sharding (broker/vhost/sharding.py)."""
SHARDS_PER_NODE_MAX = 1000
"""RabbitMQ has no limit: a typo makes it declare queues until its memory is full."""
UPSTREAM_KEY, UPSTREAM_SET_KEY, UPSTREAM_PATTERN_KEY = (
    "federation-upstream", "federation-upstream-set", "federation-upstream-pattern"
)  # fmt: skip
"""The keys of federation (broker/moving/federation)."""
UPSTREAM_KEYS = frozenset([UPSTREAM_KEY, UPSTREAM_SET_KEY, UPSTREAM_PATTERN_KEY])

Check = Callable[[Any], bool]


class PolicyError(ValueError):
    """A policy is invalid; the text says why. field: the invalid part, by its name in JSON."""

    def __init__(self, text: str, field: str = "definition") -> None:
        super().__init__(text)
        self.field = field


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _boolean(value: Any) -> bool:
    return isinstance(value, bool)


def _at_least(minimum: int, maximum: int | None = None) -> Check:
    def check(value: Any) -> bool:
        return _integer(value) and value >= minimum and (maximum is None or value <= maximum)

    return check


def _one_of(*values: object) -> Check:
    return lambda value: value in values and not isinstance(value, bool)


def _age(value: Any) -> bool:
    return isinstance(value, str) and age_ms(value) is not None


def _anything(_value: Any) -> bool:
    return True


KEYS: dict[str, tuple[Check, str]] = {
    "alternate-exchange": (_text, "valid alternate exchange name"),
    "consumer-timeout": (_at_least(0), "valid consumer timeout"),
    "dead-letter-exchange": (_text, "valid dead letter exchange name"),
    "dead-letter-routing-key": (_text, "valid dead letter routing key"),
    "dead-letter-strategy": (
        _one_of("at-most-once", "at-least-once"), "valid dead letter strategy"
    ),
    "message-ttl": (_at_least(0), "valid message TTL"),
    "expires": (_at_least(1), "valid queue expiry"),
    "expire-on-time": (_boolean, "valid choice whether messages expire on time"),
    "max-length": (_at_least(0), "valid maximum length"),
    "max-length-bytes": (_at_least(0), "valid maximum length in bytes"),
    "max-in-memory-length": (_at_least(0), "valid maximum memory in bytes"),
    "max-in-memory-bytes": (_at_least(0), "valid maximum memory in bytes"),
    "queue-mode": (_one_of("default", "lazy"), "valid queue-mode value"),
    "queue-version": (_one_of(1, 2), "valid queue-version value"),
    "overflow": (
        _one_of("drop-head", "reject-publish", "reject-publish-dlx"), "valid overflow value"
    ),
    "delivery-limit": (_integer, "valid delivery limit"),
    "delayed-retry-type": (
        _one_of("all", "failed", "returned", "disabled"),
        "valid delayed retry type. Must be one of: all, failed, returned, disabled",
    ),
    "delayed-retry-min": (
        _at_least(1), "valid delayed retry minimum delay. Must be a positive integer"
    ),
    "delayed-retry-max": (
        _at_least(1), "valid delayed retry maximum delay. Must be a positive integer"
    ),
    "delayed-retry-multiplier": (
        is_multiplier, "valid delayed retry multiplier. Must be a number from 1 to 1000"
    ),
    "max-age": (_age, "valid max age"),
    "queue-leader-locator": (
        _one_of("client-local", "balanced", "random", "least-leaders"),
        "valid queue leader locator value",
    ),
    "target-group-size": (_at_least(1), "valid qq target count value"),
    "initial-cluster-size": (_at_least(0), "valid cluster size"),
    "stream-max-segment-size-bytes": (_at_least(0, SEGMENT_BYTES_MAX), "valid segment size"),
    "stream-filter-size-bytes": (
        _at_least(FILTER_BYTES_MIN, FILTER_BYTES_MAX),
        "valid filter size. Valid range is 16-255",
    ),
    "queue-master-locator": (
        _one_of("min-masters", "client-local", "random"), "valid queue master locator value"
    ),
    "ha-mode": (_one_of("all", "exactly", "nodes"), "valid ha-mode value"),
    "ha-params": (_anything, "valid ha-params value"),
    "ha-sync-mode": (_one_of("manual", "automatic"), "valid ha-sync-mode value"),
    "ha-sync-batch-size": (_at_least(1), "valid ha-sync-batch-size value"),
    "ha-promote-on-shutdown": (
        _one_of("always", "when-synced"), "valid ha-promote-on-shutdown value"
    ),
    "ha-promote-on-failure": (
        _one_of("always", "when-synced"), "valid ha-promote-on-failure value"
    ),
    DEDUPLICATION: (lambda value: isinstance(value, bool), "boolean"),
    CACHE_SIZE: (
        _at_least(1, CACHE_SIZE_MAX), f"valid cache size: a number from 1 to {CACHE_SIZE_MAX}"
    ),
    CACHE_TTL: (
        _at_least(1, CACHE_TTL_MAX_MS),
        f"valid cache time: a number of milliseconds from 1 to {CACHE_TTL_MAX_MS}",
    ),
    CACHE_PERSISTENCE: (
        _one_of(*PERSISTENCES), f"valid cache persistence: {' or '.join(PERSISTENCES)}"
    ),
    SHARDS_PER_NODE: (_anything, "valid number of shards"),
    SHARD_ROUTING_KEY: (_anything, "valid routing key"),
    UPSTREAM_KEY: (_text, "valid federation upstream name"),
    UPSTREAM_SET_KEY: (_text, "valid federation upstream set name"),
    UPSTREAM_PATTERN_KEY: (_text, "valid federation upstream pattern name"),
}  # fmt: skip


POLICY_KEYS: Extensions[tuple[Check, str]] = Extensions("leveret.policy_keys", KEYS)
"""The keys, with those of plugins. Each has a check of its value, and what a right one is."""


def check_definition(
    name: str, definition: object, is_operator: bool, *, may_lift_limits: bool
) -> None:
    """Check keys and values of a definition. Raises PolicyError.

    may_lift_limits: a delivery limit below 0 is none, as in RabbitMQ 4, which has one by default.
    """
    if not isinstance(definition, Mapping):
        raise PolicyError(f"parse error while reading policy {name}: {format_term(definition)}")
    if not definition:
        raise PolicyError("no policy provided")
    known = OPERATOR_KEYS if is_operator else POLICY_KEYS
    unknown = [(key, value) for key, value in definition.items() if key not in known]
    if unknown:
        listed = ",".join(f"{{{format_term(key)},{format_term(value)}}}" for key, value in unknown)
        raise PolicyError(f"[{listed}] are not recognised policy settings")
    for key, value in definition.items():
        check, what = POLICY_KEYS[key]
        if not check(value):
            raise PolicyError(f"{format_term(value)} is not a {what}", f"definition.{key}")
    _check_delivery_limit(definition, may_lift_limits)
    _check_delayed_retry(definition)
    _check_mirrors(definition)
    _check_sharding(definition)
    _check_federation(definition)


def _check_delivery_limit(definition: Mapping[str, Any], may_lift_limits: bool) -> None:
    limit = definition.get("delivery-limit", 0)
    if limit < 0 and not may_lift_limits:
        raise PolicyError(f"{limit} is not a valid delivery limit", "definition.delivery-limit")


def _check_delayed_retry(definition: Mapping[str, Any]) -> None:
    """Check what the keys of delayed retries require of each other. Raises PolicyError."""
    kind = definition.get("delayed-retry-type", "disabled")
    least, most = definition.get("delayed-retry-min"), definition.get("delayed-retry-max")
    if least is None:
        if kind != "disabled":
            raise PolicyError(f"delayed-retry-min is required when delayed-retry-type is {kind}")
    elif most is not None and most < least:
        raise PolicyError(
            f"delayed-retry-max ({most}) must not be smaller than delayed-retry-min ({least})"
        )


def _check_federation(definition: Mapping[str, Any]) -> None:
    """Check the keys of federation. Raises PolicyError (`rabbit_federation_parameters`)."""
    if len(UPSTREAM_KEYS.intersection(definition)) > 1:
        raise PolicyError(
            "cannot specify federation-upstream, federation-upstream-set or "
            "federation-upstream-pattern together"
        )
    pattern = definition.get(UPSTREAM_PATTERN_KEY)
    if pattern is None:
        return
    try:
        compile_pattern(pattern)
    except re.error as error:
        reason = f'{{"{error.msg}",{-1 if error.pos is None else error.pos}}}'
        raise PolicyError(
            f"could not compile pattern {pattern} to a regular expression. Error: {reason}",
            f"definition.{UPSTREAM_PATTERN_KEY}",
        ) from None


def _check_sharding(definition: Mapping[str, Any]) -> None:
    """Check the keys of sharding. Raises PolicyError with the texts of RabbitMQ's plugin.

    The plugin lets a number with a fraction pass, and fails when it makes the queues.
    """
    if SHARDS_PER_NODE not in definition:
        if SHARD_ROUTING_KEY in definition:
            raise PolicyError("shards-per-node must be specified")
        return
    count = definition[SHARDS_PER_NODE]
    field = f"definition.{SHARDS_PER_NODE}"
    if isinstance(count, bool) or not isinstance(count, int):
        text = f"shards-per-node should be a number, actually was {format_term(count)}"
        raise PolicyError(text, field)
    if count < 0:
        raise PolicyError(f"shards-per-node should be greater than 0, actually was {count}", field)
    if count > SHARDS_PER_NODE_MAX:
        text = f"shards-per-node should be at most {SHARDS_PER_NODE_MAX}, actually was {count}"
        raise PolicyError(text, field)
    key = definition.get(SHARD_ROUTING_KEY, "")
    if not isinstance(key, str):
        text = f"routing-key should be binary, actually was {format_term(key)}"
        raise PolicyError(text, f"definition.{SHARD_ROUTING_KEY}")


def _check_mirrors(definition: Mapping[str, Any]) -> None:
    """Check that ha-params fits ha-mode. Raises PolicyError."""
    mode, params = definition.get("ha-mode"), definition.get("ha-params")
    if mode is None and any(key.startswith("ha-") for key in definition):
        raise PolicyError("ha-mode must be specified to specify ha-params, ha-sync-mode or "
                          "ha-promote-on-shutdown")  # fmt: skip
    if mode == "all" and params is not None:
        raise PolicyError('ha-mode="all" does not take parameters')
    if mode == "exactly" and not _at_least(1)(params):
        raise PolicyError(f'ha-mode="exactly" takes an integer, {format_term(params)} given')
    if mode == "nodes" and not (
        isinstance(params, list) and params and all(isinstance(node, str) for node in params)
    ):
        raise PolicyError(f'ha-mode="nodes" takes a list of strings, {format_term(params)} given')
