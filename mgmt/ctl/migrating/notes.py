"""What a plan says of each kind of object that it finds, beside how many it imports.

A setting may be an argument of queues, or a key of policies and operator policies. Pure.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from leveret.broker.policies.parameters import OPERATOR_POLICY, VHOST_LIMITS

Definitions = dict[str, Any]
MAX_CONNECTIONS: Final = "max-connections"
NO_LIMIT: Final = math.inf


class SettingNote(NamedTuple):
    """A setting of queues. keys: of policies; their arguments begin with x-. what: the queues that
    have it. text: what happens to them.
    """

    keys: tuple[str, ...]
    what: str
    text: str


SETTINGS: Final = (
    SettingNote(
        ("message-ttl",), "a time to live",
        "messages have their whole time again at the target, as those with an expiration do",
    ),
    SettingNote(
        ("expires",), "x-expires",
        "the target deletes a queue, with its messages, that no program there uses for this time: "
        "move its consumers first, or set a longer time",
    ),
    SettingNote(
        ("max-length", "max-length-bytes"), "a limit of their length",
        "it holds at each broker. A link that the target refuses messages waits, and those that an "
        "overflow drops are lost or dead-lettered as ever",
    ),
    SettingNote(("max-priority",), "priorities", "messages keep theirs"),
    SettingNote(
        ("dead-letter-exchange",), "a dead letter exchange",
        "messages are dead-lettered at the broker where they are, with their header x-death, and "
        "the queues for dead letters are linked as others are",
    ),
    SettingNote(
        ("delivery-limit",), "a delivery limit",
        "the target counts deliveries from zero. A link that fails counts as one at the source",
    ),
    SettingNote(
        ("single-active-consumer",), "a single active consumer",
        "while their programs move, each broker has an active one of its own",
    ),
)  # fmt: skip


def notes(definitions: Definitions, links_max: int, user: str) -> Iterator[str]:
    """A line for each kind of object that is found. links_max: connections to the other broker, at
    which they belong to `user`.
    """
    policies = [one["definition"] for one in definitions["policies"]]
    parameters = definitions["parameters"]
    policies += [
        one["value"].get("definition", {})
        for one in parameters
        if one["component"] == OPERATOR_POLICY and isinstance(one["value"], dict)
    ]
    for setting in SETTINGS:
        found = _having(setting, definitions["queues"], policies)
        if found:
            yield f"{found} with {setting.what}: {setting.text}"
    if policies:
        yield (
            "Policies and operator policies: imported before queues, with their priorities and "
            "patterns"
        )
    if definitions["topic_permissions"]:
        yield "Topic permissions: imported with the permissions of their users"
    yield from _limits(definitions, links_max, user)


def _having(setting: SettingNote, queues: Iterable[Any], policies: Iterable[Any]) -> str:
    """How many queues, or which policies, have a setting, in words; empty for none."""
    arguments = {f"x-{key}" for key in setting.keys}
    queue_count = sum(not arguments.isdisjoint(one.get("arguments") or {}) for one in queues)
    policy_count = sum(not set(setting.keys).isdisjoint(one) for one in policies)
    counts = ((queue_count, "queue", "queues"), (policy_count, "policy", "policies"))
    return " and ".join(
        f"{count:,} {one if count == 1 else more}" for count, one, more in counts if count
    )


def _limits(definitions: Definitions, links_max: int, user: str) -> Iterator[str]:
    vhosts = {
        one["vhost"]: _max_connections(one["value"])
        for one in definitions["parameters"]
        if one["component"] == VHOST_LIMITS
    }
    users = {
        one["name"]: _max_connections(one["limits"])
        for one in definitions["users"]
        if one.get("limits")
    }
    if vhosts or users:
        yield "Limits of virtual hosts and users: imported. Links to this node do not count in them"
    queues = Counter(one["vhost"] for one in definitions["queues"])
    narrow = [
        f"virtual host '{vhost}' allows {most:,.0f}"
        for vhost, most in vhosts.items()
        if most < min(links_max, queues[vhost])
    ]
    most_of_user = users.get(user, NO_LIMIT)
    if most_of_user < min(links_max, queues.total()):
        narrow.append(f"user '{user}' may have {most_of_user:,.0f}")
    if narrow:
        yield (
            f"Links are up to {min(links_max, queues.total()):,} connections to the other broker, "
            f"but {', '.join(narrow)}: raise the limit there, or give --links a smaller number"
        )


def _max_connections(limits: Any) -> float:
    """The limit of connections. Older definitions have an empty list for no limits."""
    found = limits.get(MAX_CONNECTIONS, -1) if isinstance(limits, dict) else -1
    return found if found >= 0 else NO_LIMIT
