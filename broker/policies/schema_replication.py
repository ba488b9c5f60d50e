"""The setting and the state of a standby, which follows the definitions of an upstream.

They are two runtime parameters of the component `schema-replication`, which have no vhost and are
in no export of definitions: `upstream` has the upstream's address and the followed objects, and
`state` the standby's state. Each change of either gives `state` a higher number. Each declaration
on behalf of the upstream requires the state under which the difference was found
(`RequireParameter`), so:

SR1. A difference found before a change of the setting or the state, in particular before a
     promotion, is not declared after that change, on any node of the cluster.

RabbitMQ's commercial edition names the keys `endpoints`, `username` and `password`.
"""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from leveret.broker.amqp.uri import VERIFY_NONE, VERIFY_PEER
from leveret.broker.policies.parameter_validation import ParameterError
from leveret.broker.policies.parameters import NO_VHOST, Parameters

COMPONENT: Final = "schema-replication"
UPSTREAM, STATE = "upstream", "state"
"""The names of the two parameters."""
FOLLOWING, DISABLED, PROMOTED = "following", "disabled", "promoted"

INTERVAL_S: Final = 30.0
INTERVAL_S_MIN, INTERVAL_S_MAX = 0.1, 86_400.0
KINDS: Final = (
    "vhosts", "users", "permissions", "topic_permissions", "global_parameters", "parameters",
    "policies", "exchanges", "queues", "bindings",
)  # fmt: skip
"""The lists of definitions that can be followed, in the order of their dependencies."""
PORT, TLS_PORT = 15672, 15671
"""The ports of management, for an endpoint without a port."""


class ReplicationState(NamedTuple):
    """The state of the standby. number: the number of changes so far. accepted: the digest of
    definitions that an operator has accepted although they delete many objects.
    """

    state: str
    number: int
    accepted: str = ""

    def to_json(self) -> dict[str, Any]:
        """The value of the parameter."""
        return self._asdict()

    def next(self, state: str, accepted: str = "") -> "ReplicationState":
        """The state after one more change."""
        return ReplicationState(state, self.number + 1, accepted)


NO_STATE: Final = ReplicationState("", 0)


@dataclass(frozen=True)
class UpstreamSetting:
    """The upstream's address, and the followed objects.

    endpoints: the addresses of its management, tried in this order. interval_s: between two syncs.
    vhosts: those that are followed; None for all. kinds: the lists of definitions that are
    followed. local_users: users that belong to the standby; they and their permissions are not
    changed. cacertfile: the authorities that certificates of the upstream are checked against;
    empty for those of the system. verify: VERIFY_PEER or VERIFY_NONE.
    """

    endpoints: tuple[str, ...]
    username: str
    password: str = field(repr=False)
    interval_s: float = INTERVAL_S
    vhosts: frozenset[str] | None = None
    kinds: frozenset[str] = frozenset(KINDS)
    local_users: frozenset[str] = frozenset()
    cacertfile: str = ""
    verify: str = VERIFY_PEER

    def has_vhost(self, name: str) -> bool:
        """Whether a vhost is followed."""
        return self.vhosts is None or name in self.vhosts

    def shown(self) -> dict[str, Any]:
        """The setting as JSON, without the password."""
        return {
            "endpoints": list(self.endpoints),
            "username": self.username,
            "interval": self.interval_s,
            "vhosts": None if self.vhosts is None else sorted(self.vhosts),
            "kinds": [kind for kind in KINDS if kind in self.kinds],
            "local_users": sorted(self.local_users),
            "cacertfile": self.cacertfile,
            "verify": self.verify,
        }


def state_of(parameters: Parameters) -> ReplicationState:
    """The state; NO_STATE in a cluster that is not and never was a standby."""
    value = parameters.get(COMPONENT, NO_VHOST, STATE)
    return NO_STATE if value is None else ReplicationState(**value)


def upstream_of(parameters: Parameters) -> UpstreamSetting | None:
    """The setting; None if there is none."""
    value = parameters.get(COMPONENT, NO_VHOST, UPSTREAM)
    return None if value is None else parse_upstream(value)


def is_standby(parameters: Parameters) -> bool:
    """Whether the cluster is a standby: it follows an upstream, or will when that is enabled."""
    return state_of(parameters).state in (FOLLOWING, DISABLED)


def is_held_back(parameters: Parameters, vhost: str) -> bool:
    """Whether shovels and federation links of a vhost must not run: the upstream runs them."""
    if not is_standby(parameters):
        return False
    upstream = upstream_of(parameters)
    return upstream is not None and upstream.has_vhost(vhost) and "parameters" in upstream.kinds


# Reading the setting


def parse_upstream(value: Any) -> UpstreamSetting:
    """Read the setting from its JSON. Raises ParameterError, whose text contains no password."""
    if not isinstance(value, dict):
        raise ParameterError("the setting must be an object with endpoints, username and password")
    unknown = set(value) - _KEYS
    if unknown:
        raise ParameterError(
            f"{', '.join(sorted(unknown))}: no such key; there are {', '.join(sorted(_KEYS))}"
        )
    kinds = _names(value, "kinds")
    wrong = frozenset() if kinds is None else kinds.difference(KINDS)
    if wrong:
        raise ParameterError(
            f"kinds: {', '.join(sorted(wrong))} cannot be followed; there are {', '.join(KINDS)}"
        )
    return UpstreamSetting(
        endpoints=_endpoints(value.get("endpoints")),
        username=_text(value, "username"),
        password=_text(value, "password"),
        interval_s=_interval(value.get("interval", INTERVAL_S)),
        vhosts=_names(value, "vhosts"),
        kinds=frozenset(KINDS) if kinds is None else kinds,
        local_users=_names(value, "local_users") or frozenset(),
        cacertfile=_text(value, "cacertfile", ""),
        verify=_verify(value.get("verify", VERIFY_PEER)),
    )


_KEYS: Final = frozenset(
    (
        "endpoints",
        "username",
        "password",
        "interval",
        "vhosts",
        "kinds",
        "local_users",
        "cacertfile",
        "verify",
    )
)


def _text(value: dict[str, Any], key: str, default: str | None = None) -> str:
    found = value.get(key, default)
    if not isinstance(found, str) or not (found or found == default):
        raise ParameterError(f"{key} must be a text that is not empty")
    return found


def _verify(value: Any) -> str:
    if value not in (VERIFY_PEER, VERIFY_NONE):
        raise ParameterError(f"verify must be {VERIFY_PEER} or {VERIFY_NONE}")
    return str(value)


def _names(value: dict[str, Any], key: str) -> frozenset[str] | None:
    found = value.get(key)
    if found is None:
        return None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ParameterError(f"{key} must be a list of texts")
    return frozenset(found)


def _interval(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not INTERVAL_S_MIN <= value <= INTERVAL_S_MAX:
        raise ParameterError(
            f"interval must be a number of seconds from {INTERVAL_S_MIN} to {INTERVAL_S_MAX:.0f}"
        )
    return float(value)


def _endpoints(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
        raise ParameterError("endpoints must be a list of addresses, such as host:15672")
    return tuple(map(endpoint_url, value))


def endpoint_url(text: str) -> str:
    """The URL of an upstream's management, such as `http://host:15672`. Raises ParameterError.

    text: a URL with http or https, or a host with or without a port.
    """
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError:
        raise ParameterError(_not_an_endpoint(text)) from None
    if parts.username is not None or parts.password is not None:
        raise ParameterError(
            "an endpoint may not contain a user: give username and password beside endpoints"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ParameterError(_not_an_endpoint(text))
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    default_port = TLS_PORT if parts.scheme == "https" else PORT
    return f"{parts.scheme}://{host}:{port or default_port}{parts.path.rstrip('/')}"


def _not_an_endpoint(text: str) -> str:
    return (
        f"'{text}' is not an endpoint: it must be the address of the upstream's management, such "
        f"as host:{PORT} or https://host:{TLS_PORT}"
    )
