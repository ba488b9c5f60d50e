"""Which node of a stopped cluster may start without waiting for another one.

A node records the nodes that it ran with last. These, including RAM nodes, may have continued to
run after it stopped and let others join, so they may know more: the node waits until one of them
runs, and joins it. If it sees all of them, and all wait as it does, then no node continued to run.
The one that was in the latest view starts; among several, the one with the longest log, then the
one that had been in the view longest. A node that was alone in its view starts immediately. A RAM
node has nothing to start from and waits for any disc node. It may have let others join after a disc
node stopped, and has no log that would show this, so a node that waits for it also waits for the
nodes that it ran with last.

With pause_minority, disc nodes that are a majority of the cluster do not wait for the rest: the
rest cannot have continued to run, and every majority that ran before included one of these nodes,
which has everything that was answered there. They begin a view together, to which each of them
agrees: several such majorities may see each other without having seen the others start. A node that
has to take everything from other nodes counts if one of those is there: they have all operations
that it answered.

SO1. A node that starts without another one has everything that was answered in its last view and
     before: no node ran after it, unless the operator forced it, or the cluster was partitioned.
SO2. Of nodes that see each other, and wait, at most one starts.
SO3. A node waits a limited number of times, then gives up and names the nodes it waited for; a
     patient one does not give up.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from leveret.cluster.metadata.messages import RUNNING, STARTING, AnnounceStatus


class MayStart(msgspec.Struct, frozen=True):
    """The node may begin a view. names: the others that have to agree; empty: it begins alone."""

    names: tuple[str, ...] = ()


class WaitsFor(msgspec.Struct, frozen=True):
    """The node waits for one of these to run, or for all of them to be there."""

    names: tuple[str, ...]


class Joins(msgspec.Struct, frozen=True):
    """The node waits for a running node to take it into its view."""

    name: str


Decision = MayStart | WaitsFor | Joins


class StartOrder:
    """The wait of one node that starts.

    own: its own status. companions: the nodes that may have continued to run after it stopped, as
    last written (metadata/companions.py); for a RAM node all disc nodes that it knows.
    is_forced: the operator gave force_boot. is_majority: with pause_minority, whether the other
    nodes cannot have continued without these disc nodes. waits_max, wait_ms: the number and length
    of its waits; it never gives up if waits_max is None.
    """

    def __init__(
        self,
        own: AnnounceStatus,
        companions: frozenset[str],
        *,
        is_forced: bool = False,
        is_majority: Callable[[frozenset[str]], bool] | None = None,
        waits_max: int | None,
        wait_ms: int,
    ) -> None:
        self._own = own
        self._is_forced = is_forced
        self._is_majority = is_majority
        self._waits_left = waits_max
        self._wait_ms = wait_ms
        self._awaited = tuple(sorted(companions - {own.member.name}))

    def decide(self, statuses: Iterable[AnnounceStatus]) -> Decision:
        """The node's next action, given the statuses of its linked nodes."""
        heard = {status.member.name: status for status in statuses}
        running = sorted(name for name, one in heard.items() if one.phase == RUNNING)
        if running:
            return Joins(running[0])
        own = self._own
        if self._is_forced:
            return MayStart()
        known = {**heard, own.member.name: own}
        if _is_bound(own, known):
            return WaitsFor(own.takes_from)
        if not own.member.is_disc:
            return WaitsFor(self._awaited)
        waiting = {name: one for name, one in heard.items() if one.phase == STARTING}
        awaited = self._all_awaited(waiting)
        may_be_first = {
            name: one
            for name, one in waiting.items()
            if one.member.is_disc and not _is_bound(one, known)
        }
        able = {own.member.name, *may_be_first}
        together = able.union(
            name
            for name, one in waiting.items()
            if one.member.is_disc and not able.isdisjoint(one.takes_from)
        )
        if self._is_majority is not None:
            is_enough = self._is_majority(frozenset(together))
        else:
            is_enough = waiting.keys() >= awaited
        if not is_enough:
            return WaitsFor(tuple(sorted(awaited)))
        first = max((own, *may_be_first.values()), key=_knowledge)
        if first is not own:
            return WaitsFor((first.member.name,))
        others = sorted(together - {own.member.name})
        return MayStart(() if self._is_majority is None else tuple(others))

    def _all_awaited(self, waiting: Mapping[str, AnnounceStatus]) -> set[str]:
        """The companions, and the nodes that RAM nodes among them ran with last."""
        awaited = set(self._awaited)
        unseen = list(awaited)
        while unseen:
            one = waiting.get(unseen.pop())
            if one is not None and not one.member.is_disc:
                further = set(one.companions) - awaited - {self._own.member.name}
                awaited |= further
                unseen += further
        return awaited

    def waited(self) -> tuple[bool, str]:
        """Count a wait that is over. Returns whether the node keeps waiting, and a log line."""
        names = (
            ", ".join(self._own.takes_from or self._awaited)
            or "that are a majority of the cluster with this one"
        )
        line = (
            f"Waiting for nodes {names}, which may have run after this node was stopped,"
            f" for {self._wait_ms} ms"
        )
        if self._waits_left is None:
            return True, line
        if self._waits_left == 0:
            return False, (
                f"Error while waiting for nodes {names}, which may have run after this node was"
                " stopped. Start one of them first, or use leveretctl force_boot if they are lost"
            )
        self._waits_left -= 1
        return True, f"{line}, {self._waits_left} retries left"


def _is_bound(status: AnnounceStatus, heard: Mapping[str, AnnounceStatus]) -> bool:
    """Whether a node waits for the nodes from which it has to take everything.

    It does not if all of them wait as well and have nothing to start from, because they are RAM
    nodes or are bound to others: for example, they crashed after they had won.
    """

    def has_nothing(name: str) -> bool:
        one = heard.get(name)
        if one is None or one.phase != STARTING:
            return False
        return bool(one.takes_from) or not one.member.is_disc

    return not all(map(has_nothing, status.takes_from))


def _knowledge(status: AnnounceStatus) -> tuple[object, ...]:
    """Orders nodes by their knowledge of the cluster's history."""
    names = [member.name for member in status.members]
    name = status.member.name
    seniority = names.index(name) if name in names else len(names)
    return status.view, status.position.index, -seniority, name
