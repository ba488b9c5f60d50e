"""Which node of a stopped cluster may start without waiting for another one.

A node keeps the nodes that it ran with last. They may have run on after it stopped, RAM nodes too,
and let others in, so they know more: the node waits until one of them runs, and joins it. If it
sees all of them, and all wait as it does, then no node ran on: the one that was in the latest view
starts, of several the one with the longest log, of several the one that had been in the view
longest. A node that was alone in its view starts immediately. A RAM node has nothing to start from
and waits for any disc node.

S1. A node that starts without another one has everything that was answered in its last view and
    before: nobody ran after it, unless the operator forced it, or the cluster was partitioned.
S2. Of nodes that see each other, and wait, at most one starts.
S3. A node waits so many times, then gives up and names whom it waited for.
"""

from collections.abc import Iterable

import msgspec

from leveret.cluster.metadata.messages import RUNNING, STARTING, Status

WAITS_MAX = 10
"""How many times a node waits: RabbitMQ's `mnesia_table_loading_retry_limit`."""
WAIT_MS = 30_000
"""How long each time, in milliseconds: RabbitMQ's `mnesia_table_loading_retry_timeout`."""


class MayStart(msgspec.Struct, frozen=True):
    """The node begins a view without the others."""


class WaitsFor(msgspec.Struct, frozen=True):
    """The node waits for one of these to run, or for all of them to be there."""

    names: tuple[str, ...]


class Joins(msgspec.Struct, frozen=True):
    """A node runs, which will take this one in."""

    name: str


Decision = MayStart | WaitsFor | Joins


class StartOrder:
    """The wait of one node that starts.

    own: its own status. companions: the nodes that may have run on after it, as it wrote them
    last (metadata/outputs.py, `Established`); for a RAM node all disc nodes that it knows of.
    is_forced: the operator said force_boot. waits_max, wait_ms: how often and how long it waits.
    """

    def __init__(
        self,
        own: Status,
        companions: frozenset[str],
        *,
        is_forced: bool = False,
        waits_max: int = WAITS_MAX,
        wait_ms: int = WAIT_MS,
    ) -> None:
        self._own = own
        self._is_forced = is_forced
        self._waits_left = waits_max
        self._wait_ms = wait_ms
        self._awaited = tuple(sorted(companions - {own.member.name}))

    def decide(self, statuses: Iterable[Status]) -> Decision:
        """What the node does, by what the nodes that it has links with say."""
        heard = {status.member.name: status for status in statuses}
        running = sorted(name for name, one in heard.items() if one.phase == RUNNING)
        if running:
            return Joins(running[0])
        own = self._own
        if self._is_forced:
            return MayStart()
        if own.takes_from:
            return WaitsFor(own.takes_from)
        if not own.member.is_disc:
            return WaitsFor(self._awaited)
        waiting = {name: one for name, one in heard.items() if one.phase == STARTING}
        if not waiting.keys() >= set(self._awaited):
            return WaitsFor(self._awaited)
        may_be_first = (
            one for one in waiting.values() if one.member.is_disc and not one.takes_from
        )
        first = max((own, *may_be_first), key=_knowledge)
        return MayStart() if first is own else WaitsFor((first.member.name,))

    def waited(self) -> tuple[bool, str]:
        """One of the waits is over: whether the node goes on waiting, and a line for the log."""
        names = ", ".join(self._awaited)
        if self._waits_left == 0:
            return False, (
                f"Error while waiting for nodes {names}, which may have run after this node was"
                " stopped. Start one of them first, or use leveretctl force_boot if they are lost"
            )
        self._waits_left -= 1
        return True, (
            f"Waiting for nodes {names}, which may have run after this node was stopped,"
            f" for {self._wait_ms} ms, {self._waits_left} retries left"
        )


def _knowledge(status: Status) -> tuple[object, ...]:
    """Orders nodes by what they know of the cluster's history."""
    names = [member.name for member in status.members]
    name = status.member.name
    seniority = names.index(name) if name in names else len(names)
    return status.view, status.position.index, -seniority, name
