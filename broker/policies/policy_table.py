"""Policies: options that operators set for queues and exchanges whose names match a pattern.

The matching policy with the highest priority is in force, and likewise one operator policy; the two
are merged, and the lower of two limits is used. The merged definition is then merged with the
arguments that a queue was declared with (`effective_options`): the lower of two limits or times is
used, and the argument for every other key. Facts: RabbitMQ's `rabbit_policy` and `rabbit_policies`,
and its documentation on parameters and policies.

A change is applied to running queues and exchanges at once; a large number of them in slices,
between which the node does its other work (`Applier`).
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from leveret.broker.amqp.properties import TTL_MS_MAX
from leveret.broker.declarations.values import Policy
from leveret.broker.erlang.terms import format_term
from leveret.broker.policies.parameters import OPERATOR_POLICY, POLICY
from leveret.broker.policies.policy_keys import (
    HIGHER_WINS,
    LOWER_WINS,
    OPERATOR_WINS,
    SHARDS_PER_NODE,
    PolicyError,
    check_definition,
)
from leveret.broker.queues.contract.arguments import NO_LIMIT, QueueOptions
from leveret.broker.queues.contract.deduplication_arguments import (
    CACHE_SIZE,
    CACHE_TTL,
    DEDUPLICATION,
)
from leveret.broker.queues.contract.queue_kind import QueueKind
from leveret.broker.queues.contract.stream_arguments import age_ms
from leveret.broker.runtime.patterns import compile_pattern

APPLY_TO = (
    "all", "queues", "exchanges", "classic_queues", "quorum_queues", "streams"
)  # fmt: skip
EXCHANGE_KINDS = ("all", "exchanges")

logger = logging.getLogger("leveret.broker")

Definition = Mapping[str, Any]
NOTHING: Definition = {}


def matches(policy: Policy, name: str, kinds: tuple[str, ...]) -> bool:
    """Whether a policy is for a queue or exchange of this name."""
    return policy.apply_to in kinds and compile_pattern(policy.pattern).matches(name)


class PolicyTable:
    """The policies of a node, of both kinds (components).

    Of several with the same priority the one that was declared first comes first, and replacing a
    policy does not change its place. So the order is the same after a restart.

    sharded_vhosts: those with a policy that shards exchanges. may_lift_limits: see
    `check_definition`.
    """

    def __init__(self) -> None:
        self._policies: dict[tuple[str, str], dict[str, Policy]] = {}
        self._by_priority: dict[tuple[str, str], list[Policy]] = {}
        self.sharded_vhosts: set[str] = set()
        self.may_lift_limits = False

    def all(self, component: str, vhost: str | None = None) -> Iterator[Policy]:
        """All policies of a kind, in all vhosts or in one: the highest priority first."""
        for (kind, place), policies in tuple(self._by_priority.items()):
            if kind == component and vhost in (None, place):
                yield from policies

    def get(self, component: str, vhost: str, name: str) -> Policy | None:
        """The policy of this name."""
        return self._policies.get((component, vhost), {}).get(name)

    def put(self, component: str, policy: Policy) -> None:
        """Add or replace a policy."""
        self._policies.setdefault((component, policy.vhost), {})[policy.name] = policy
        self._sort(component, policy.vhost)

    def remove(self, component: str, vhost: str, name: str) -> bool:
        """Remove a policy; whether there was one."""
        was_there = self._policies.get((component, vhost), {}).pop(name, None) is not None
        if was_there:
            self._sort(component, vhost)
        return was_there

    def remove_vhost(self, vhost: str) -> None:
        """Remove the policies of a vhost."""
        for component in (POLICY, OPERATOR_POLICY):
            self._policies.pop((component, vhost), None)
            self._by_priority.pop((component, vhost), None)
        self.sharded_vhosts.discard(vhost)

    def _sort(self, component: str, vhost: str) -> None:
        found = self._policies[component, vhost].values()
        self._by_priority[component, vhost] = sorted(found, key=lambda policy: -policy.priority)
        if component == POLICY:
            self.sharded_vhosts.discard(vhost)
            if any(SHARDS_PER_NODE in policy.definition for policy in found):
                self.sharded_vhosts.add(vhost)

    def of_exchange(self, component: str, vhost: str, name: str) -> Policy | None:
        """The policy in force for an exchange."""
        for policy in self._by_priority.get((component, vhost), ()):
            if matches(policy, name, EXCHANGE_KINDS):
                return policy
        return None

    def of_queue(self, component: str, vhost: str, name: str, kind: QueueKind) -> Policy | None:
        """The policy in force for a queue of a kind."""
        targets = kind.policy_targets
        for policy in self._by_priority.get((component, vhost), ()):
            if matches(policy, name, targets) and not kind.refused_keys(policy.definition):
                return policy
        return None


def check_policy(policy: Policy, is_operator: bool, *, may_lift_limits: bool) -> None:
    """Raise PolicyError with RabbitMQ's text for a contradictory policy.

    may_lift_limits: see `check_definition`.
    """
    if not isinstance(policy.pattern, str):
        actual = format_term(policy.pattern)
        raise PolicyError(f"pattern should be a binary but was {actual}", "pattern")
    try:
        compile_pattern(policy.pattern)
    except re.error as error:
        place = -1 if error.pos is None else error.pos
        explained = f'{{"{error.msg}",{place}}}'
        raise PolicyError(
            f"pattern should be regular expression but is invalid: {explained}", "pattern"
        ) from None
    if isinstance(policy.priority, bool) or not isinstance(policy.priority, int | float):
        raise PolicyError(
            f"priority should be a number, actually was {format_term(policy.priority)}", "priority"
        )
    if policy.apply_to not in APPLY_TO:
        raise PolicyError(
            f"apply-to '{policy.apply_to}' unrecognised; should be one of: "
            + ", ".join(f"'{name}'" for name in ("queues", *APPLY_TO[3:], "exchanges", "all")),
            "apply-to",
        )
    check_definition(policy.name, policy.definition, is_operator, may_lift_limits=may_lift_limits)


def merged(policy: Policy | None, operator_policy: Policy | None) -> Definition:
    """The merged definition of both."""
    if operator_policy is None:
        return NOTHING if policy is None else policy.definition
    merged_definition = dict(operator_policy.definition)
    for key, value in (NOTHING if policy is None else policy.definition).items():
        if key not in merged_definition:
            merged_definition[key] = value
        elif key in LOWER_WINS:
            values = value, merged_definition[key]
            merged_definition[key] = max(values) if min(values) < 0 else min(values)
        elif key in HIGHER_WINS:
            merged_definition[key] = max(value, merged_definition[key])
        elif key not in OPERATOR_WINS:
            merged_definition[key] = value
    return merged_definition


def effective_options(
    declared: QueueOptions, definition: Definition, kind: QueueKind
) -> QueueOptions:
    """The options of a queue of a kind that was declared with some, and has policies."""
    if not definition:
        return declared

    def lower(argument: int | None, key: str) -> int | None:
        if key in kind.policy_wins and key in definition:
            argument = None
        value = definition.get(key)
        if value is not None and value < 0:
            value = NO_LIMIT
        return min((n for n in (argument, value) if n is not None), default=None)

    def lower_time(argument: int | None, key: str) -> int | None:
        # A policy may contain any number, as in RabbitMQ; clocks and the store have bounds.
        time_ms = lower(argument, key)
        return None if time_ms is None else min(time_ms, TTL_MS_MAX)

    overflow = declared.overflow or definition.get("overflow", "")
    if "overflow" in kind.policy_wins:
        overflow = definition.get("overflow", declared.overflow)
    return declared._replace(
        message_ttl_ms=lower_time(declared.message_ttl_ms, "message-ttl"),
        expires_ms=lower_time(declared.expires_ms, "expires"),
        max_length=lower(declared.max_length, "max-length"),
        max_length_bytes=lower(declared.max_length_bytes, "max-length-bytes"),
        overflow=overflow,
        dead_letter_exchange=_first(
            declared.dead_letter_exchange, definition.get("dead-letter-exchange")
        ),
        dead_letter_routing_key=_first(
            declared.dead_letter_routing_key, definition.get("dead-letter-routing-key")
        ),
        queue_mode=declared.queue_mode or definition.get("queue-mode", ""),
        consumer_timeout_ms=lower_time(declared.consumer_timeout_ms, "consumer-timeout"),
        delivery_limit=lower(declared.delivery_limit, "delivery-limit"),
        dead_letter_strategy=(
            declared.dead_letter_strategy or definition.get("dead-letter-strategy", "")
        ),
        delayed_retry_type=definition.get("delayed-retry-type", declared.delayed_retry_type),
        delayed_retry_min_ms=lower_time(declared.delayed_retry_min_ms, "delayed-retry-min"),
        delayed_retry_max_ms=lower_time(declared.delayed_retry_max_ms, "delayed-retry-max"),
        delayed_retry_multiplier=definition.get(
            "delayed-retry-multiplier", declared.delayed_retry_multiplier
        ),
        max_age_ms=_first_age(definition.get("max-age"), declared.max_age_ms),
        segment_bytes=definition.get("stream-max-segment-size-bytes", declared.segment_bytes),
        filter_bytes=definition.get("stream-filter-size-bytes", declared.filter_bytes),
        deduplicates=definition.get(DEDUPLICATION, declared.deduplicates),
        cache_size=definition.get(CACHE_SIZE, declared.cache_size),
        cache_ttl_ms=definition.get(CACHE_TTL, declared.cache_ttl_ms),
        expires_on_time=(
            definition.get("expire-on-time")
            if declared.expires_on_time is None
            else declared.expires_on_time
        ),
    )


def _first_age(value: str | None, argument_ms: int | None) -> int | None:
    return argument_ms if value is None else age_ms(value)


def _first(argument: str | None, value: str | None) -> str | None:
    return argument if argument is not None else value


class Applier:
    """Applies a function to a large number of objects in slices, between other work of the node."""

    def __init__(
        self, call_soon: Callable[[Callable[[], object]], object], slice_size: int
    ) -> None:
        self._call_soon = call_soon
        self._slice_size = slice_size
        self._work: list[Iterator[None]] = []

    def start(self, work: Iterator[None]) -> None:
        """Do this work: its first slice immediately, if no other work is in progress."""
        self._work.append(work)
        if len(self._work) == 1:
            self._do_slice()

    def _do_slice(self) -> None:
        for _ in range(self._slice_size):
            try:
                next(self._work[0])
                continue
            except StopIteration:
                pass
            except Exception:
                logger.exception("a change of policies was applied to some objects only")
            del self._work[0]
            if not self._work:
                return
        self._call_soon(self._do_slice)
