"""The fields of a user's JSON besides its name, in the API and in definitions.

As in RabbitMQ, `permissions` is an object of vhosts, each with `configure`, `write` and `read`; and
`administrator`, of RabbitMQ before 2.2, stands for the tag of that name where there are no `tags`.
"""

import re
from collections.abc import Container, Iterator
from typing import Any

from leveret.broker.auth.identity import ADMINISTRATOR
from leveret.broker.auth.permissions import check_pattern
from leveret.broker.declarations.values import Permission

PATTERNS = ("configure", "write", "read")


class UserError(ValueError):
    """A user cannot be made of its JSON. reason: as the HTTP API gives it."""

    def __init__(self, path: str, reason: Any) -> None:
        super().__init__(str(reason))
        self.path = path
        self.reason = reason


def permissions_of(user: str, value: Any, vhosts: Container[str]) -> Iterator[Permission]:
    """The permissions of a user. Raises UserError for those that are not valid."""
    if value is None:
        return
    if not isinstance(value, dict):
        raise UserError(".permissions", ["not_an_object", "permissions"])
    for vhost, patterns in value.items():
        path = f".permissions.{vhost}"
        if vhost not in vhosts:
            raise UserError(path, ["no_such_vhost", vhost])
        if not isinstance(patterns, dict):
            raise UserError(path, ["not_an_object", vhost])
        for name in PATTERNS:
            _check(f"{path}.{name}", name, patterns.get(name))
        yield Permission(vhost, user, *(patterns[name] for name in PATTERNS))


def _check(path: str, name: str, pattern: Any) -> None:
    if not isinstance(pattern, str):
        raise UserError(path, ["not_string", name])
    try:
        check_pattern(pattern)
    except re.error as error:
        raise UserError(path, ["invalid_regexp", pattern, str(error)]) from None


def tags_of(body: dict[str, Any]) -> list[str] | None:
    """The tags, which may be a text with commas; None without any. Raises UserError."""
    tags = body.get("tags")
    if tags is None:
        return _tags_of_administrator(body)
    listed = tags.split(",") if isinstance(tags, str) else tags
    if not isinstance(listed, list) or not all(isinstance(tag, str) for tag in listed):
        raise UserError(".tags", "tags must be a list of strings, or a string with commas")
    return [tag.strip() for tag in listed if tag.strip()]


def _tags_of_administrator(body: dict[str, Any]) -> list[str] | None:
    if "administrator" not in body:
        return None
    value = body["administrator"]
    if not isinstance(value, bool) and value not in ("true", "false"):
        raise UserError(".administrator", ["not_boolean", value])
    return [ADMINISTRATOR] if value in (True, "true") else []
