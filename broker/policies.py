"""Policies: what operators ask of queues and exchanges whose names match a pattern.

Of the policies that match, the one with the highest priority counts, and of the operator policies
likewise; the two are merged, the lower of two limits winning. What the merged definition asks for
is then merged with the arguments that a queue was declared with (`effective_options`): of limits
and times again the lower one counts, of all else the argument. Facts: RabbitMQ's `rabbit_policy`
and `rabbit_policies`, and its documentation on parameters and policies.

A change is applied to running queues and exchanges at once; where there are very many, in slices
between which the node does its other work (`Applier`).
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from broker.amqp.erlang_terms import format_json
from broker.parameters import OPERATOR_POLICY, POLICY, Parameters
from broker.patterns import compile_pattern
from broker.policy_keys import LOWER_WINS, OPERATOR_WINS, PolicyError, check_definition
from broker.queues.arguments import TTL_MS_MAX, QueueOptions

APPLY_TO = (
    "all", "queues", "exchanges", "classic_queues", "quorum_queues", "streams"
)  # fmt: skip
QUEUE_KINDS = ("all", "queues", "classic_queues")
EXCHANGE_KINDS = ("all", "exchanges")

logger = logging.getLogger("leveret.broker")

Definition = Mapping[str, Any]
NOTHING: Definition = {}


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy or operator policy."""

    vhost: str
    name: str
    pattern: str
    apply_to: str
    definition: Definition
    priority: float

    def matches(self, name: str, kinds: tuple[str, ...]) -> bool:
        """Whether it is for a queue or exchange of this name."""
        return self.apply_to in kinds and compile_pattern(self.pattern).matches(name)

    def to_json(self) -> dict[str, Any]:
        """As the HTTP API and definitions files have it."""
        return {
            "vhost": self.vhost, "name": self.name, "pattern": self.pattern,
            "apply-to": self.apply_to, "definition": dict(self.definition),
            "priority": self.priority,
        }  # fmt: skip


class PolicyTable:
    """The policies of a node, of both kinds, kept as runtime parameters."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._by_vhost: dict[tuple[str, str], list[Policy]] = {}
        for component in (POLICY, OPERATOR_POLICY):
            parameters.listen(component, partial(self._changed, component))

    def restore(self) -> None:
        """Take in what the parameters hold."""
        for component in (POLICY, OPERATOR_POLICY):
            for vhost in {vhost for vhost, _, _ in self._parameters.of(component)}:
                self._load(component, vhost)

    def _changed(self, component: str, vhost: str, _name: str) -> None:
        self._load(component, vhost)

    def _load(self, component: str, vhost: str) -> None:
        found = [
            Policy(
                vhost, name, value["pattern"], value["apply-to"], value["definition"],
                value["priority"],
            )
            for _, name, value in self._parameters.of(component, vhost)
        ]  # fmt: skip
        found.sort(key=lambda policy: -policy.priority)
        self._by_vhost[component, vhost] = found

    def all(self, component: str, vhost: str | None = None) -> Iterator[Policy]:
        """All policies of a kind, in all vhosts or in one."""
        for (kind, place), policies in self._by_vhost.items():
            if kind == component and vhost in (None, place):
                yield from policies

    def get(self, component: str, vhost: str, name: str) -> Policy | None:
        """The policy of this name."""
        found = self._by_vhost.get((component, vhost), [])
        return next((policy for policy in found if policy.name == name), None)

    def set(self, component: str, policy: Policy) -> None:
        """Add or replace a policy. Raises PolicyError with RabbitMQ's words."""
        check_policy(policy, component == OPERATOR_POLICY)
        value = policy.to_json()
        del value["vhost"], value["name"]
        self._parameters.set(component, policy.vhost, policy.name, value)

    def clear(self, component: str, vhost: str, name: str) -> bool:
        """Take a policy away; whether there was one."""
        return self._parameters.clear(component, vhost, name)

    def forget_vhost(self, vhost: str) -> None:
        """The vhost is deleted."""
        for component in (POLICY, OPERATOR_POLICY):
            self._by_vhost.pop((component, vhost), None)

    def match(self, component: str, vhost: str, name: str, kinds: tuple[str, ...]) -> Policy | None:
        """The policy that counts for a queue or exchange."""
        for policy in self._by_vhost.get((component, vhost), ()):
            if policy.matches(name, kinds):
                return policy
        return None


def check_policy(policy: Policy, is_operator: bool) -> None:
    """Raise PolicyError with RabbitMQ's words for a policy that makes no sense."""
    if not isinstance(policy.pattern, str):
        actual = format_json(policy.pattern)
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
            f"priority should be a number, actually was {format_json(policy.priority)}", "priority"
        )
    if policy.apply_to not in APPLY_TO:
        raise PolicyError(
            f"apply-to '{policy.apply_to}' unrecognised; should be one of: "
            + ", ".join(f"'{name}'" for name in ("queues", *APPLY_TO[3:], "exchanges", "all")),
            "apply-to",
        )
    check_definition(policy.name, policy.definition, is_operator)


def merged(policy: Policy | None, operator_policy: Policy | None) -> Definition:
    """What both ask for together."""
    if operator_policy is None:
        return NOTHING if policy is None else policy.definition
    merged_definition = dict(operator_policy.definition)
    for key, value in (NOTHING if policy is None else policy.definition).items():
        if key not in merged_definition:
            merged_definition[key] = value
        elif key in LOWER_WINS:
            merged_definition[key] = min(value, merged_definition[key])
        elif key not in OPERATOR_WINS:
            merged_definition[key] = value
    return merged_definition


def effective_options(declared: QueueOptions, definition: Definition) -> QueueOptions:
    """The options of a queue that was declared with some, and has policies."""
    if not definition:
        return declared

    def lower(argument: int | None, key: str) -> int | None:
        return min((n for n in (argument, definition.get(key)) if n is not None), default=None)

    def lower_time(argument: int | None, key: str) -> int | None:
        # A policy may ask for any, as in RabbitMQ; neither clocks nor the store count for ever.
        time_ms = lower(argument, key)
        return None if time_ms is None else min(time_ms, TTL_MS_MAX)

    return declared._replace(
        message_ttl_ms=lower_time(declared.message_ttl_ms, "message-ttl"),
        expires_ms=lower_time(declared.expires_ms, "expires"),
        max_length=lower(declared.max_length, "max-length"),
        max_length_bytes=lower(declared.max_length_bytes, "max-length-bytes"),
        overflow=declared.overflow or definition.get("overflow", ""),
        dead_letter_exchange=_first(
            declared.dead_letter_exchange, definition.get("dead-letter-exchange")
        ),
        dead_letter_routing_key=_first(
            declared.dead_letter_routing_key, definition.get("dead-letter-routing-key")
        ),
        queue_mode=declared.queue_mode or definition.get("queue-mode", ""),
        consumer_timeout_ms=definition.get("consumer-timeout"),
    )


def _first(argument: str | None, value: str | None) -> str | None:
    return argument if argument is not None else value


class Applier:
    """Does something to very many objects in slices, the rest of the node's work in between."""

    def __init__(
        self, call_soon: Callable[[Callable[[], object]], object], slice_size: int
    ) -> None:
        self._call_soon = call_soon
        self._slice_size = slice_size
        self._work: list[Iterator[None]] = []

    @property
    def is_busy(self) -> bool:
        """Something is left to do."""
        return bool(self._work)

    def start(self, work: Iterator[None]) -> None:
        """Do this work: its first slice at once, if nothing else is under way."""
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
