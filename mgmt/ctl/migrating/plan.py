"""The plan of a migration: what it will do, and what it cannot carry over. Nothing is changed.

If this node is the target, it checks the definitions, and what it refuses is taken out; RabbitMQ
cannot say beforehand what it refuses. They are checked in slices, since there may be more than one
request can have: each slice with the objects that its items refer to.
"""

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from leveret.broker.plugins.known_plugins import PLUGINS
from leveret.broker.runtime.names import EXCHANGE, QUEUE
from leveret.mgmt.ctl.errors import DATA_ERROR, failure
from leveret.mgmt.ctl.migrating.brokers import MigrationBroker
from leveret.mgmt.ctl.migrating.carrying_over import (
    LISTS,
    Definitions,
    Held,
    NotCarriedOver,
    select,
    take_out,
)
from leveret.mgmt.ctl.migrating.links import QueueAtBoth
from leveret.mgmt.ctl.migrating.other_broker import OtherBroker

SLICE: Final = 10_000
"""Items of definitions that are checked by one request."""
CHECKS_MAX: Final = 50
LOOKS_MAX: Final = 3


class Plan(NamedTuple):
    """What a migration will do. definitions: to be imported. changed: lines about objects of the
    target that the import changes, or leaves although they differ. kinds: the numbers of queues to
    be linked, by type. unlinked: the other queues, by the reason. messages, connections: how many
    the source has, and programs have there.
    """

    source: str
    target: str
    definitions: Definitions
    left_out: list[NotCarriedOver]
    held: list[Held]
    changed: list[str]
    kinds: Counter[str]
    unlinked: Counter[str]
    messages: int
    connections: int


def make_plan(source: MigrationBroker, target: MigrationBroker, other: OtherBroker) -> Plan:
    """Make the plan. other: that of the two which is not this node. Raises CtlError."""
    other.require_rights()
    other.require_connections()
    if source is other:
        _require_no_other_links(other)
    # A list that may be long comes after what is found at once.
    chosen = select(source.get("definitions"))
    left_out = [*chosen.left_out, *_missing_plugins(source, target, other)]
    changed: list[str] = []
    if target is other:
        definitions = chosen.definitions
    else:
        other.require_access(one["vhost"] for one in chosen.definitions["queues"])
        definitions, refused, changed = _accepted(target, chosen.definitions)
        left_out += refused
    queues = source.queues()
    kinds: Counter[str] = Counter()
    unlinked: Counter[str] = Counter()
    imported = {(one["vhost"], one["name"]) for one in definitions["queues"]}
    for place, queue in queues.items():
        obstacle = QueueAtBoth(place, queue, queue if place in imported else None).obstacle
        if obstacle:
            unlinked[obstacle] += 1
        else:
            kinds[queue.kind] += 1
    return Plan(
        f"{source.version()} at {source.place}", f"{target.version()} at {target.place}",
        definitions, left_out, chosen.held, changed, kinds, unlinked,
        sum(one.messages or 0 for one in queues.values()), len(source.connections()),
    )  # fmt: skip


def _require_no_other_links(other: OtherBroker) -> None:
    """Raise CtlError if links of another migration take messages from the other broker, which shows
    connections for a while after they were closed.
    """
    for _ in range(LOOKS_MAX):
        found = other.other_links()
        if not found:
            return
        time.sleep(other.late_s())
    raise failure(
        f"links of another migration use {other.place}, {len(found)} connections such as "
        f"{found[0]}: two migrations would divide the messages between them. End the other one at "
        "its node, with 'leveretctl finish_migration' or 'leveretctl roll_back_migration'",
        DATA_ERROR,
    )


def _missing_plugins(
    source: MigrationBroker, target: MigrationBroker, other: OtherBroker
) -> list[NotCarriedOver]:
    found = []
    for name in sorted(source.plugins() - target.plugins()):
        reason, nearest = "it is not enabled at the target", f"leveret-plugins enable {name}"
        if target is other:
            reason, nearest = "it does not run at the target", f"rabbitmq-plugins enable {name}"
        elif PLUGINS.get(name) is None:
            reason = "Leveret does not know it, and what it declares may be refused"
            nearest = ""
        found.append(NotCarriedOver(f"plugin {name}", reason, nearest))
    return found


def _accepted(
    node: MigrationBroker, definitions: Definitions
) -> tuple[Definitions, list[NotCarriedOver], list[str]]:
    """The definitions without what this node refuses, and why; and what an import changes here."""
    accepted: Definitions = {**definitions, **{name: [] for name in LISTS}}
    left_out: list[NotCarriedOver] = []
    changed: list[str] = []
    for name in LISTS:
        items = definitions[name]
        for start in range(0, len(items), SLICE):
            some = items[start : start + SLICE]
            part = {**_referred_to(accepted, name, some), name: some}
            refused, changes = _checked(node, part)
            left_out += refused
            kind = LISTS[name].replace(" ", "_")
            changed += _changed_lines(one for one in changes if one["kind"] == kind)
            accepted[name] += part[name]
    return accepted, left_out, changed


def _referred_to(accepted: Definitions, name: str, items: list[dict[str, Any]]) -> Definitions:
    """What items of a list refer to, from the lists before it."""
    found = {key: value for key, value in accepted.items() if key not in LISTS}
    found["vhosts"] = accepted["vhosts"]
    if name.endswith("permissions"):
        names = {one["user"] for one in items}
        found["users"] = [one for one in accepted["users"] if one["name"] in names]
    if name == "bindings":
        ends = {(EXCHANGE, one["vhost"], one["source"]) for one in items}
        ends |= {
            (one.get("destination_type", QUEUE), one["vhost"], one["destination"]) for one in items
        }
        for kind, listed in ((EXCHANGE, "exchanges"), (QUEUE, "queues")):
            found[listed] = [
                one for one in accepted[listed] if (kind, one["vhost"], one["name"]) in ends
            ]
    return found


def _checked(
    node: MigrationBroker, part: Definitions
) -> tuple[list[NotCarriedOver], list[dict[str, Any]]]:
    """Take out what the node refuses; also returns what the import changes there."""
    left_out: list[NotCarriedOver] = []
    for _ in range(CHECKS_MAX):
        found = node.ask("POST", "definitions", body=part, query={"dry_run": "true"})
        if not found["problems"]:
            return left_out, found["changes"]
        try:
            left_out += take_out(part, found["problems"])
        except ValueError as error:
            raise failure(f"the definitions cannot be imported: {error}", DATA_ERROR) from None
    raise failure("the definitions have new problems after each correction", DATA_ERROR)


def _changed_lines(changes: Iterable[dict[str, Any]]) -> Iterable[str]:
    for change in changes:
        if change["action"] == "add":
            continue
        where = f" in vhost '{change['vhost']}'" if change.get("vhost") else ""
        what = f"{change['kind']} '{change['name']}'{where}"
        reason = change.get("reason") or f"gets {', '.join(change['to'])} of the source"
        yield f"{what}: {reason}"
