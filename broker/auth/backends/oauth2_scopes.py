"""Permissions from the claims of a token: its scopes. Pure.

Scopes are in the claim `scope`, in other configured claims, in the permissions of Keycloak and in
the authorization details of RFC 9396. Those for this resource server begin with its prefix. The
rest is `read:VHOST/NAME`, `write:` or `configure:`, with `/ROUTING_KEY` for topic exchanges, or
`tag:TAG`. An alias stands for other scopes.

Patterns match as in RabbitMQ: `*` is any text, percent encoding stands for bytes, `+` for a blank.
The text after a `*` is searched from left to right, the first match is final, and the name must end
where the pattern does: `*.log` matches `a.log` and not `a.log.log`.

Facts: RabbitMQ's OAuth 2 guide, `rabbit_oauth2_scope` and `wildcard`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_to_bytes

PERMISSIONS = ("configure", "write", "read")
TAG_PREFIX = "tag:"
DETAIL_TAGS = ("administrator", "monitoring", "management", "policymaker")
LOCATION_WORDS = ("cluster", "vhost", "queue", "exchange", "routing-key")

Claims = Mapping[str, Any]

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_VARIABLE = re.compile(r"\{([^{}]*)\}")


class Scope(NamedTuple):
    """A scope that gives a permission. routing_key: None for a scope without one."""

    permission: str
    vhost: str
    name: str
    routing_key: str | None


@dataclass(frozen=True)
class ScopeRules:
    """Which claims contain scopes, and which scopes are for this resource server."""

    resource_server_id: str
    prefix: str
    claims: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    resource_server_type: str = ""

    def scopes_of(self, claims: Claims) -> tuple[str, ...]:
        """The scopes of a token that are for this resource server, without its prefix."""
        found = [*words(claims.get("scope")), *self._additional(claims), *_of_keycloak(claims)]
        found += [other for one in found for other in self.aliases.get(one, "").split()]
        found += self._of_details(claims)
        own = [scope.removeprefix(self.prefix) for scope in found if scope.startswith(self.prefix)]
        return tuple(dict.fromkeys(own))

    def _additional(self, claims: Claims) -> Iterator[str]:
        for path in self.claims:
            value = _at(claims, path)
            if isinstance(value, dict):
                of_this = words(value.get(self.resource_server_id))
                yield from (f"{self.prefix}{scope}" for scope in of_this)
            else:
                yield from words(value)

    def _of_details(self, claims: Claims) -> Iterator[str]:
        """Scopes from rich authorization requests (RFC 9396)."""
        details = claims.get("authorization_details")
        for detail in details if isinstance(details, list) and self.resource_server_type else ():
            if isinstance(detail, dict) and detail.get("type") == self.resource_server_type:
                places = [*filter(None, map(self._place, listed(detail.get("locations"))))]
                for action in listed(detail.get("actions")) if places else ():
                    yield from (f"{self.prefix}{scope}" for scope in _scopes_for(action, places))

    def _place(self, location: str) -> str | None:
        """`cluster:rabbit/vhost:v/queue:q` as `v/q/*`; None if it is for another server."""
        pairs = (part.partition(":") for part in location.split("/"))
        found = {name: value for name, _, value in pairs if value and name in LOCATION_WORDS}
        if not matches(found.get("cluster", ""), self.resource_server_id):
            return None
        queue, exchange = found.get("queue"), found.get("exchange")
        if queue is not None and exchange is not None and queue != exchange:
            return None
        name = queue or exchange or "*"
        return f"{found.get('vhost', '*')}/{name}/{found.get('routing-key', '*')}"


def _scopes_for(action: str, places: list[str]) -> list[str]:
    if action in DETAIL_TAGS:
        return [f"{TAG_PREFIX}{action}"]
    return [f"{action}:{place}" for place in places] if action in PERMISSIONS else []


def _of_keycloak(claims: Claims) -> Iterator[str]:
    for permission in listed_dicts(_at(claims, "authorization.permissions")):
        yield from listed(permission.get("scopes"))


def _at(claims: Claims, path: str) -> Any:
    """The claim with this whole name, or else the nested one that the dots lead to."""
    if path in claims:
        return claims[path]
    place: Any = claims
    for step in path.split("."):
        place = place.get(step) if isinstance(place, dict) else None
    return place


def words(value: Any) -> list[str]:
    """The words of a string, or a list of strings; empty for anything else."""
    return value.split() if isinstance(value, str) else listed(value)


def listed(value: Any) -> list[str]:
    """A list of one string, or a list of strings; empty for anything else."""
    if isinstance(value, str):
        return [value]
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def listed_dicts(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; empty for anything else."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def tags_of(scopes: tuple[str, ...]) -> tuple[str, ...]:
    """The user tags in scopes, in alphabetical order."""
    return tuple(sorted(scope[4:] for scope in scopes if scope.startswith(TAG_PREFIX)))


def filled_in(scopes: tuple[str, ...], variables: Mapping[str, str]) -> tuple[str, ...]:
    """Replace `{vhost}` and `{name of a claim}` in scopes; a `*` in a value is not a wildcard."""
    return tuple(
        _VARIABLE.sub(lambda found: _quoted(variables.get(found[1], found[1])), scope)
        for scope in scopes
    )


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogateescape"), safe="")


# Matching


def allows_vhost(scopes: tuple[str, ...], vhost: str) -> bool:
    """Whether some scope is for the vhost."""
    return any(matches(scope.vhost, vhost) for scope in parsed(scopes))


def allows(scopes: tuple[str, ...], vhost: str, name: str, permission: str) -> bool:
    """Whether some scope gives the permission for a queue or an exchange."""
    return any(
        scope.permission == permission and matches(scope.vhost, vhost) and matches(scope.name, name)
        for scope in parsed(scopes)
    )


def allows_topic(
    scopes: tuple[str, ...], vhost: str, exchange: str, routing_key: str, permission: str
) -> bool:
    """Whether some scope with a routing key gives the permission for this one."""
    return any(
        scope.routing_key is not None
        and scope.permission == permission
        and matches(scope.vhost, vhost)
        and matches(scope.name, exchange)
        and matches(scope.routing_key, routing_key)
        for scope in parsed(scopes)
    )


@lru_cache(maxsize=1024)
def parsed(scopes: tuple[str, ...]) -> tuple[Scope, ...]:
    """Parse the scopes that give permissions; others are left out."""
    found = []
    for scope in scopes:
        permission, _, pattern = scope.partition(":")
        parts = pattern.split("/")
        if permission in PERMISSIONS and len(parts) in (2, 3):
            routing_key = parts[2] if len(parts) == 3 else None
            found.append(Scope(permission, parts[0], parts[1], routing_key))
    return tuple(found)


def matches(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern."""
    parts = _parts(pattern)
    text = name.encode("utf-8", "surrogateescape")
    if parts is None or not text.startswith(parts[0]):
        return False
    place = len(parts[0])
    for number, part in enumerate(parts[1:], start=2):
        if not part and number == len(parts):
            return True
        place = text.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return place == len(text)


@lru_cache(maxsize=4096)
def _parts(pattern: str) -> tuple[bytes, ...] | None:
    """The texts between the wildcards; None if the percent encoding is invalid."""
    if _BAD_ESCAPE.search(pattern):
        return None
    return tuple(
        unquote_to_bytes(part.replace("+", " ").encode("utf-8", "surrogatepass"))
        for part in pattern.split("*")
    )
