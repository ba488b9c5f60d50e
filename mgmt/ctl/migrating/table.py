"""The texts of a migration: its plan, and the table of what is left where."""

import sys
from collections.abc import Iterator
from typing import Any, Final

from leveret.mgmt.ctl.migrating.carrying_over import LISTS
from leveret.mgmt.ctl.migrating.links import QueueAtBoth
from leveret.mgmt.ctl.migrating.look import FAILED, Look
from leveret.mgmt.ctl.migrating.notes import notes
from leveret.mgmt.ctl.migrating.other_broker import checked_uri
from leveret.mgmt.ctl.migrating.plan import Plan
from leveret.mgmt.ctl.migrating.state import MigrationState

COLUMNS: Final = (
    "vhost", "queue", "type", "at_source", "at_target", "source_consumers", "target_consumers",
    "link", "moved", "state",
)  # fmt: skip
NUMBERS: Final = ("at_source", "at_target", "source_consumers", "target_consumers", "moved")
SHOWN_MAX: Final = 50


def plan_lines(plan: Plan, state: MigrationState, *, is_all: bool) -> Iterator[str]:
    """What a migration will do, and what it cannot carry over. is_all: without limits."""
    yield from _steps(plan)
    yield from _warnings(plan, state)
    shown_max = sys.maxsize if is_all else SHOWN_MAX
    found = list(notes(plan.definitions, state.links_max, checked_uri(state.uri)))
    if found:
        yield from _listed("What happens to what it has found:", found, shown_max)
    yield from _exceptions(plan, shown_max)


def _steps(plan: Plan) -> Iterator[str]:
    yield f"Migration from {plan.source} to {plan.target}"
    yield ""
    counts = {LISTS[name]: len(plan.definitions[name]) for name in LISTS}
    listed = ", ".join(_counted(count, kind) for kind, count in counts.items() if count)
    yield f"It imports {listed or 'nothing'}."
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(plan.kinds.items()))
    links = _counted(plan.kinds.total(), "queue")
    yield f"It links {links} by shovels" + (f" ({kinds})." if kinds else ".")
    yield (
        f"The source has {_counted(plan.messages, 'message')} and "
        f"{_counted(plan.connections, 'connection')} of programs. Move the programs while this "
        "command runs, in any order: messages reach consumers at both brokers meanwhile."
    )


def _warnings(plan: Plan, state: MigrationState) -> Iterator[str]:
    """What differs while messages move."""
    if plan.kinds.total() > state.links_max:
        yield (
            f"At most {state.links_max} links run at a time, those of queues with messages first. "
            "--links sets another number."
        )
    if plan.kinds["stream"]:
        yield (
            "Streams are copied: stored offsets of consumers are not valid at the target. A "
            "roll-back does not copy streams back, so move their producers last."
        )
    yield (
        "The time to live of a message starts again when it moves, and length limits hold at each "
        "broker. Messages that a link moves again after a failure have the header "
        "x-source-redelivered; those of streams have x-source-offset."
    )


def _exceptions(plan: Plan, shown_max: int) -> Iterator[str]:
    """What is changed at the target, left out, or moved at the end: lists of objects."""
    if plan.changed:
        title = "These objects of the target are changed, or stay different:"
        yield from _listed(title, plan.changed, shown_max)
    left_out = [str(one) for one in plan.left_out]
    left_out += [f"{_counted(count, 'queue')}: {reason}" for reason, count in plan.unlinked.items()]
    if left_out:
        yield from _listed("Not carried over:", left_out, shown_max)
    if plan.held:
        named = [f"{one.component} '{one.name}' in vhost '{one.vhost}'" for one in plan.held]
        title = "Moved from the source to the target by finish_migration, not before:"
        yield from _listed(title, named, shown_max)


def _counted(count: int, kind: str) -> str:
    if count == 1:
        return f"1 {kind}"
    return f"{count:,} {kind[:-1]}ies" if kind.endswith("y") else f"{count:,} {kind}s"


def _listed(title: str, lines: list[str], shown_max: int) -> Iterator[str]:
    yield ""
    yield title
    for line in lines[:shown_max]:
        yield f"  {line}"
    if len(lines) > shown_max:
        yield f"  and {len(lines) - shown_max:,} more, which --dry-run shows"


def rows(look: Look, *, is_all: bool) -> list[list[Any]]:
    """The table; without `is_all` the queues with messages, consumers, or a link that fails."""
    found = []
    for queue in look.queues:
        status = look.links.shovels.get(queue.place, {})
        if is_all or _is_of_interest(queue, status):
            found.append(_row(look, queue, status))
    if is_all:
        return found
    found.sort(key=lambda row: -(row[3] or 0))
    return found[:SHOWN_MAX]


def _is_of_interest(queue: QueueAtBoth, status: dict[str, Any]) -> bool:
    target = queue.target
    return bool(
        queue.source.messages or queue.source.consumers or status.get("state") == FAILED
        or (target is not None and (target.messages or target.consumers))
    )  # fmt: skip


def _row(look: Look, queue: QueueAtBoth, status: dict[str, Any]) -> list[Any]:
    vhost, name = queue.place
    source, target = queue.source, queue.target
    state = queue.obstacle or status.get("state", "")
    if status.get("reason"):
        state = f"{state}: {status['reason']}"
    return [
        vhost, name, source.kind, source.messages, None if target is None else target.messages,
        source.consumers, None if target is None else target.consumers,
        look.links.directions.get(queue.place, ""), status.get("forwarded"), state,
    ]  # fmt: skip


def summary(look: Look, *, is_returning: bool) -> str:
    """The line below the table."""
    left = look.left(is_returning=is_returning)
    place = "target" if is_returning else "source"
    messages = "an unknown number of messages" if left is None else _counted(left, "message")
    consumers = _counted(_consumers(look, is_returning=is_returning), "consumer")
    connections = "" if is_returning else f", {_counted(len(look.connections), 'connection')}"
    failed = len(look.links.failing)
    delayed = f" and {look.delayed:,} that are delayed" if look.delayed else ""
    return (
        f"Left at the {place}: {messages}{delayed}. Programs at the {place}: {consumers}"
        f"{connections}. Links: {len(look.links.directions):,}, of which {failed:,} fail"
    )


def _consumers(look: Look, *, is_returning: bool) -> int:
    """The consumers of programs at the broker that is emptied."""
    emptied = [one.target if is_returning else one.source for one in look.queues]
    return sum(one.consumers for one in emptied if one is not None)
