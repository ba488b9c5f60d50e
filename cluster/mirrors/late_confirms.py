"""Confirms of one queue that wait longer than net_ticktime: what for, and what ends that.

A queue is looked at four times in a net_ticktime. What is as it was at four looks in succession has
waited for a net_ticktime; nothing is noted when something is published. Each node looks at its own
part:

    the leader      the publish that has waited longest. The log names the mirrors that have not
                    kept it, and a mirror that has kept nothing more for twice as long is declared
                    dead, as one that does not answer is
    a mirror        decisions that cannot be applied. After three quarters of that time the log
                    says what they wait for, and the leader is asked for the messages, also if their
                    sender could still send them
    the next leader what it waits for before it leads. After a net_ticktime it leads without
                    contents that have not come, and whoever has published them is refused
    other nodes     what this node has published and the leader owes a confirm for. The leader is
                    told of it again, and confirms what it has forgotten

Looks are counted, not time: a node that was suspended has not waited.
"""

import logging
from typing import Final, Protocol

from leveret.broker.names import QUEUE, resource
from leveret.broker.vhost import VirtualHost
from leveret.cluster.gm.group import Change, Died, Member
from leveret.cluster.mirrors.kept import Kept
from leveret.cluster.mirrors.leading import Leading
from leveret.cluster.mirrors.mirror import Contents
from leveret.cluster.mirrors.mirror_member import MirrorMember
from leveret.cluster.mirrors.mirror_record import MirrorRecord
from leveret.cluster.mirrors.mirrored_queue import MirroredQueue
from leveret.cluster.mirrors.publishing import MirroredPublishing
from leveret.cluster.mirrors.replica_frames import ReplicaFrames
from leveret.cluster.mirrors.taking_over import TakingOver

LOOKS_IN_TICK_TIME: Final = 4
"""As often as links are checked (links/ticks.py)."""
LOOKS_MAX: Final = 2 * LOOKS_IN_TICK_TIME
"""A mirror that has kept nothing more for so long is given up. Its link carries something, or it
would be down, so it has twice the time of one that is silent."""

LOOKS_UNTIL_ASKED: Final = 3
"""So a mirror has asked twice before it is given up."""

logger = logging.getLogger("leveret.cluster")


class Unchanged:
    """How many looks in succession have found what the one before had found."""

    __slots__ = ("_found", "looks")

    def __init__(self) -> None:
        self._found: object = None
        self.looks = 0

    def look(self, found: object) -> int:
        """found: compared with what the last look has found; None if nothing waits."""
        is_same = found is not None and found == self._found
        self.looks = self.looks + 1 if is_same else 0
        self._found = found
        return self.looks


def _duration(looks: int) -> str:
    """How long nothing has changed for so many looks."""
    times = looks // LOOKS_IN_TICK_TIME
    return "net_ticktime" if times == 1 else f"{times} times net_ticktime"


class WatchedReplica(Protocol):
    """The replica of this node (replica.py)."""

    vhost: VirtualHost
    queue: MirroredQueue
    publishing: MirroredPublishing
    leading: Leading | None
    record: MirrorRecord | None

    @property
    def member(self) -> Member | None:
        """The member on this node."""

    @property
    def mirror(self) -> MirrorMember | None:
        """The mirror on this node."""

    @property
    def taking_over(self) -> TakingOver:
        """How that mirror takes the lead."""

    def node_of(self, sender: int) -> str:
        """The name of a linked node, or this one, that publishes under this number."""

    def submit(self, change: Change) -> None:
        """Have the ring of the record changed."""


class LateConfirms:
    """See the module. is_late: publishes to a queue that is led here have waited for so long, or
    this node has not led for so long though it is to lead.
    """

    __slots__ = ("_applying", "_frames", "_kept", "_leading", "_owed", "_replica", "is_late")

    def __init__(self, replica: WatchedReplica, frames: ReplicaFrames) -> None:
        self._replica = replica
        self._frames = frames
        self._leading = Unchanged()
        self._kept: dict[Member, Unchanged] = {}
        self._applying = Unchanged()
        self._owed = Unchanged()
        self.is_late = False

    def look(self) -> None:
        """A quarter of a net_ticktime has passed."""
        replica = self._replica
        leading, mirror = replica.leading, replica.mirror
        was_late, self.is_late = self.is_late, self._look_at_leader(leading)
        if mirror is not None and replica.taking_over.is_due:
            self.is_late = self._look_at_next_leader(mirror, replica.taking_over)
        elif mirror is not None:
            self._look_at_mirror(mirror)
        if leading is None:
            self._look_at_owed()
        elif was_late and not self.is_late:
            self._warn("confirms go on")

    def _warn(self, text: str) -> None:
        queue = resource(QUEUE, self._replica.queue.name, self._replica.vhost.name)
        logger.warning("mirrored %s: %s", queue, text)

    # The leader

    def _look_at_leader(self, leading: Leading | None) -> bool:
        """Whether confirms are late; False if this node does not lead."""
        kept = None if leading is None else leading.kept
        looks = self._leading.look(None if kept is None else kept.first)
        behind = {} if kept is None else kept.behind()
        self._kept = {member: self._kept.get(member) or Unchanged() for member in behind}
        for member, turn in behind.items():
            self._kept[member].look(turn)
        if kept is None or not looks:
            return False
        if looks % LOOKS_IN_TICK_TIME == 0:
            reasons = self._reasons(kept, behind)
            self._warn(f"confirms have waited for {_duration(looks)}: {reasons}")
        if self._is_first_here(kept):
            self._give_up(behind)
        return looks >= LOOKS_IN_TICK_TIME

    @staticmethod
    def _is_first_here(kept: Kept) -> bool:
        """The publish that has waited longest waits for nothing but mirrors."""
        return kept.first is not None and kept.first.is_logged and not kept.is_in_doubt

    def _reasons(self, kept: Kept, behind: dict[Member, int]) -> str:
        """What the publish that has waited longest waits for."""
        first, living = kept.first, self._living
        assert first is not None, "something waits"
        reasons = [] if first.is_logged else ["this node has not written it"]
        if kept.is_in_doubt:
            reasons.append("not all nodes have the entry by which this node leads")
        for member, turn in behind.items():
            if member in living:
                reasons.append(
                    f"the mirror on node {member.node} has kept turn {turn} of {first.turn}"
                )
            else:
                reasons.append(f"not all nodes know that the mirror on {member.node} is gone")
        return "; ".join(reasons)

    @property
    def _living(self) -> frozenset[Member]:
        record = self._replica.record
        return frozenset() if record is None else frozenset(one.id for one in record.members)

    def _give_up(self, behind: dict[Member, int]) -> None:
        """Declare mirrors dead that have kept nothing more for too long."""
        own, living = self._replica.member, self._living
        stuck = [
            member
            for member in behind
            if member in living and (looks := self._kept[member].looks) and looks % LOOKS_MAX == 0
        ]
        if own is None or not stuck:
            return
        for member in stuck:
            self._warn(
                f"the mirror on node {member.node} is given up: it has kept nothing more for twice "
                "net_ticktime, though its node is linked"
            )
        self._replica.submit(Died(tuple(stuck), own))

    # A mirror

    def _look_at_mirror(self, mirror: MirrorMember) -> None:
        looks = self._applying.look(mirror.stands_at)
        if not looks or looks % LOOKS_UNTIL_ASKED:
            return
        awaited = mirror.awaited
        if awaited is not None:
            what = f"{self._shown(awaited)}: the leader is asked for them"
        else:
            what = "the disk" if mirror.is_reading else "the leader's answer, who is asked again"
        self._warn(f"the mirror on this node waits for {what}")
        mirror.ask_for_missing()

    def _shown(self, awaited: Contents) -> str:
        """Contents that have not come."""
        first, end = awaited.first, awaited.first + awaited.size
        return f"messages {first} to {end - 1} of node {self._replica.node_of(awaited.sender)}"

    # The next leader

    def _look_at_next_leader(self, mirror: MirrorMember, taking_over: TakingOver) -> bool:
        """Whether it has waited for so long that confirms are late."""
        looks = self._applying.look((taking_over.has_come_round, mirror.stands_at))
        if not looks or looks % LOOKS_IN_TICK_TIME:
            return looks > LOOKS_IN_TICK_TIME
        awaited = mirror.awaited if taking_over.has_come_round else None
        what = "the disk"
        if not taking_over.has_come_round:
            others = sorted(one.node for one in self._living if one != self._replica.member)
            what = f"its first broadcast, which goes round by way of {', '.join(others)}"
        elif awaited is not None:
            shown = self._shown(awaited)
            what = f"{shown}: it leads without them, and their publishers are refused"
        self._warn(f"the next leader, on this node, has waited for {_duration(looks)} for {what}")
        if awaited is not None:
            mirror.sender_gone(awaited.sender)
        return True

    # What this node has published

    def _look_at_owed(self) -> None:
        publishing, queue = self._replica.publishing, self._replica.queue
        owed = publishing.settled if publishing.is_owed and queue.leader is not None else None
        looks = self._owed.look(owed)
        if not looks or looks % LOOKS_IN_TICK_TIME:
            return
        self._frames.tell_owed(queue.home.node)
