"""The parameters of the components `federation-upstream` and `federation-upstream-set`.

An upstream is a server from which exchanges and queues are federated; a set is a list of upstreams,
each with options that replace those of the upstream. The keys, their defaults and the texts of
errors are those of RabbitMQ 3.10 (`rabbit_federation_parameters`, `rabbit_federation_upstream`).
Values that RabbitMQ accepts although the link then fails are refused: a missing URI, and names that
do not fit into their fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from leveret.broker.policies.ack_modes import NO_ACK, ON_CONFIRM, ON_PUBLISH
from leveret.broker.policies.parameter_validation import (
    ParameterKey,
    boolean,
    bounded,
    keys_of,
    number,
    one_of,
    raise_any,
    seconds,
    short_text,
    shown_term,
    text,
    uri_list,
    uris,
)

DEFAULT, NEVER = "default", "never"
MULTIPLE, SINGLE = "multiple", "single"
ALL = "all"
"""The name of the set of all upstreams of a vhost, which is always there."""
PREFETCH_COUNT: Final = 1000
PREFETCH_COUNT_MAX: Final = 65535
RECONNECT_DELAY_S: Final = 5.0
NUMBER_MAX: Final = 2**31 - 1
"""The most hops, and the longest time in milliseconds: what an argument of a queue takes."""
NO_OPTIONS: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True)
class Upstream:
    """A server, and how exchanges and queues are federated from it.

    uris: they contain passwords. exchange, queue: the names on the upstream; None for the same as
    here. reconnect_delay_s: 0 for a link that is not started again when it fails. expires_ms,
    message_ttl_ms: options of the queue of an exchange's link; None for no limit. ha_policy: the
    policy of that queue; RabbitMQ 3 ignores it. resource_cleanup_mode: `default` or `never`.
    channel_use_mode: `multiple` or `single`.
    """

    name: str
    uris: tuple[str, ...] = field(repr=False)
    exchange: str | None
    queue: str | None
    consumer_tag: str
    prefetch_count: int = PREFETCH_COUNT
    reconnect_delay_s: float = RECONNECT_DELAY_S
    max_hops: int = 1
    expires_ms: int | None = None
    message_ttl_ms: int | None = None
    trusts_user_id: bool = False
    ack_mode: str = ON_CONFIRM
    ha_policy: str | None = None
    binds_without_waiting: bool = False
    resource_cleanup_mode: str = DEFAULT
    channel_use_mode: str = MULTIPLE


@dataclass(frozen=True)
class UpstreamSetMember:
    """An upstream of a set. options: as JSON has them; they replace those of the upstream."""

    upstream: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class UpstreamSet:
    """A set of upstreams. Those that do not exist are left out when the set is used."""

    name: str
    members: tuple[UpstreamSetMember, ...]


_OPTIONS = (
    ParameterKey("exchange", short_text),
    ParameterKey("queue", short_text),
    ParameterKey("consumer-tag", short_text),
    ParameterKey("prefetch-count", number),
    ParameterKey("reconnect-delay", number),
    ParameterKey("max-hops", number),
    ParameterKey("expires", number),
    ParameterKey("message-ttl", number),
    ParameterKey("trust-user-id", boolean),
    ParameterKey("ack-mode", one_of(NO_ACK, ON_PUBLISH, ON_CONFIRM)),
    ParameterKey("resource-cleanup-mode", one_of(DEFAULT, NEVER)),
    ParameterKey("ha-policy", text),
    ParameterKey("bind-nowait", boolean),
    ParameterKey("channel-use-mode", one_of(MULTIPLE, SINGLE)),
)
UPSTREAM_KEYS = (ParameterKey("uri", uris, is_mandatory=True), *_OPTIONS)
MEMBER_KEYS = (ParameterKey("upstream", text, is_mandatory=True), *_OPTIONS)


def check_upstream(name: str, value: Any) -> None:
    """Check the value of an upstream. Raises ParameterError."""
    raise_any(keys_of(name, UPSTREAM_KEYS, value))


def check_upstream_set(name: str, value: Any) -> None:
    """Check the value of a set. Raises ParameterError."""
    if value == {}:
        return
    if not isinstance(value, list):
        raise_any([f"{name} not a list {shown_term(value)}"])
    raise_any([error for member in value for error in keys_of(name, MEMBER_KEYS, member)])


def parse_upstream(name: str, value: Any, options: Mapping[str, Any] = NO_OPTIONS) -> Upstream:
    """The upstream that a value of JSON defines. Raises ParameterError.

    options: those of the member of a set through which it is used.
    """
    check_upstream(name, value)
    given = {**dict(value), **options}
    return Upstream(
        name=name,
        uris=uri_list(given["uri"]),
        exchange=given.get("exchange"),
        queue=given.get("queue"),
        consumer_tag=given.get("consumer-tag", f"federation-link-{name}"),
        prefetch_count=bounded(given.get("prefetch-count", PREFETCH_COUNT), PREFETCH_COUNT_MAX),
        reconnect_delay_s=seconds(given.get("reconnect-delay", RECONNECT_DELAY_S)),
        max_hops=bounded(given.get("max-hops", 1), NUMBER_MAX),
        expires_ms=_whole(given.get("expires")),
        message_ttl_ms=_whole(given.get("message-ttl")),
        trusts_user_id=given.get("trust-user-id", False),
        ack_mode=given.get("ack-mode", ON_CONFIRM),
        ha_policy=given.get("ha-policy"),
        binds_without_waiting=given.get("bind-nowait", False),
        resource_cleanup_mode=given.get("resource-cleanup-mode", DEFAULT),
        channel_use_mode=given.get("channel-use-mode", MULTIPLE),
    )


def parse_upstream_set(name: str, value: Any) -> UpstreamSet:
    """The set that a value of JSON defines. Raises ParameterError."""
    check_upstream_set(name, value)
    return UpstreamSet(name, tuple(map(_member, value)))


def _member(value: Mapping[str, Any]) -> UpstreamSetMember:
    options = {key: option for key, option in value.items() if key != "upstream"}
    return UpstreamSetMember(value["upstream"], options)


def _whole(number_of_ms: float | None) -> int | None:
    return None if number_of_ms is None else bounded(number_of_ms, NUMBER_MAX)
