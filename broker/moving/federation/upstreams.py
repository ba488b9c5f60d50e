"""The upstreams that a policy asks for, as `rabbit_federation_upstream` finds them.

A policy names an upstream, a set of them, or a regular expression that their names contain. Missing
upstreams and sets are left out. The set `all` has all upstreams of the vhost. No function here
waits.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from leveret.broker.policies.federation_parameters import (
    ALL,
    Upstream,
    UpstreamSetMember,
    parse_upstream,
    parse_upstream_set,
)
from leveret.broker.policies.parameter_validation import ParameterError
from leveret.broker.policies.parameters import (
    FEDERATION_UPSTREAM,
    FEDERATION_UPSTREAM_SET,
    Parameters,
)
from leveret.broker.policies.policy_keys import (
    UPSTREAM_KEY,
    UPSTREAM_KEYS,
    UPSTREAM_PATTERN_KEY,
    UPSTREAM_SET_KEY,
)
from leveret.broker.runtime.patterns import compile_pattern

NOTHING: Final[Mapping[str, Any]] = {}


def is_federated(definition: Mapping[str, Any]) -> bool:
    """Whether a policy with this definition federates queues and exchanges."""
    return not UPSTREAM_KEYS.isdisjoint(definition)


def upstreams_of(
    definition: Mapping[str, Any], vhost: str, parameters: Parameters
) -> tuple[list[Upstream], list[str]]:
    """The upstreams that the definition of a policy asks for, and why others cannot be used.

    Unusable ones can be from an earlier release, which did not check them.
    """
    found: list[Upstream] = []
    problems: list[str] = []
    try:
        for member in _members(definition, vhost, parameters):
            value = parameters.get(FEDERATION_UPSTREAM, vhost, member.upstream)
            if value is None:
                continue
            try:
                found.append(parse_upstream(member.upstream, value, member.options))
            except ParameterError as error:
                problems.append(f"upstream '{member.upstream}': {error}")
    except ParameterError as error:
        problems.append(f"the set of upstreams: {error}")
    return found, problems


def _members(
    definition: Mapping[str, Any], vhost: str, parameters: Parameters
) -> Iterator[UpstreamSetMember]:
    """The upstreams by name, with the options that replace theirs. Raises ParameterError."""
    pattern = definition.get(UPSTREAM_PATTERN_KEY)
    set_name = definition.get(UPSTREAM_SET_KEY)
    if UPSTREAM_KEY in definition:
        yield UpstreamSetMember(definition[UPSTREAM_KEY])
    elif set_name == ALL:
        yield from map(UpstreamSetMember, _names(vhost, parameters))
    elif set_name is not None:
        value = parameters.get(FEDERATION_UPSTREAM_SET, vhost, set_name)
        yield from () if value is None else parse_upstream_set(set_name, value).members
    elif pattern is not None:
        matches = compile_pattern(pattern).matches
        yield from (UpstreamSetMember(one) for one in _names(vhost, parameters) if matches(one))


def _names(vhost: str, parameters: Parameters) -> list[str]:
    return [name for _, name, _ in parameters.of(FEDERATION_UPSTREAM, vhost)]
