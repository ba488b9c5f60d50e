"""Confirms of one queue that wait longer than net_ticktime: the causes, and the remedies.

A queue is checked four times in each net_ticktime. A state that is the same in four successive
checks has lasted for a net_ticktime; publishing itself records nothing. Each node checks its own
part:

    a member        members on linked nodes of other sides of a partition, which have a record of
                    their own. The links may have been down for too short a time for the ring to
                    notice. Members that three checks find are declared dead, by the oldest of the
                    other members
    the leader      the publish that has waited longest. The log names the mirrors that have not
                    kept it, and a mirror that has made no progress for twice as long is declared
                    dead, like one that does not answer. Of several it is the first one behind the
                    leader in the ring: the others may have waited for it, so they have as much
                    time again
    a mirror        decisions that cannot be applied. After three quarters of a net_ticktime the
                    leader is asked for the messages, even if their sender could still send them,
                    and again after as much time. The log says what they wait for
    the next leader the contents that it waits for before it leads. After a net_ticktime it leads
                    without those that have not arrived, and their publishers are refused
    other nodes     the publishes of this node for which the leader owes a confirm. The leader is
                    told of them again, and confirms those that it has forgotten

Checks are counted, not time, so that the time of a suspension does not count.

Pure: a check gets the facts, and returns its findings, which the replica carries out in order.
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, TypeAlias

from leveret.cluster.gm.group import Died, Member
from leveret.cluster.mirrors.kept_turns import KeptTurns
from leveret.cluster.mirrors.mirror import Contents
from leveret.cluster.mirrors.mirror_member import WaitingDecisions

LOOKS_IN_TICK_TIME: Final = 4
"""The same as for links (links/ticks.py)."""
LOOKS_MAX: Final = 2 * LOOKS_IN_TICK_TIME
"""Checks after which a mirror without progress is given up. Its link carries data, or it would be
down, so it has twice the time of a silent one.
"""

LOOKS_UNTIL_GIVEN_UP: Final = 2
"""Checks after which a member on the other side of a partition is given up: an autoheal that ends
the partition at once gives up fewer.
"""

LOOKS_UNTIL_ASKED: Final = 3
"""Checks after which a mirror asks. It has asked twice before it is given up."""


class Facts(NamedTuple):
    """The facts that this node knows about one queue.

    member: the one of this node. living: all members, in ring order from its right neighbour on.
    apart: those on other sides of a partition, if it is this node that reports them. leader_node:
    where the queue is led. kept: the state of the mirrors, if this node leads. waiting: the reason
    why the mirror on this node makes no progress. has_gone_round: if this node is to lead, whether
    its first broadcast has passed around the ring. owed: the number of the first publish of this
    node for which the leader owes a confirm. senders: the linked nodes by their sender numbers.
    """

    member: Member | None
    living: tuple[Member, ...]
    apart: tuple[Member, ...]
    leader_node: str
    kept: KeptTurns | None
    waiting: WaitingDecisions | None
    has_gone_round: bool | None
    owed: int | None
    senders: Mapping[int, str]


class AskForMissing(NamedTuple):
    """Have the mirror ask the leader for the messages that it waits for."""


class GiveUpContents(NamedTuple):
    """Have the mirror continue without the contents of this sender that have not arrived."""

    sender: int


class TellOwed(NamedTuple):
    """Tell the leader the confirms that it owes to this node."""


Finding: TypeAlias = str | Died | AskForMissing | GiveUpContents | TellOwed
"""A text is a warning for the log; `Died` is a change of the ring to be submitted."""


class Unchanged:
    """Counts the successive checks that found the same state."""

    __slots__ = ("_found", "looks")

    def __init__(self) -> None:
        self._found: object = None
        self.looks = 0

    def look(self, found: object) -> int:
        """found: compared with the finding of the last check; None if nothing waits."""
        is_same = found is not None and found == self._found
        self.looks = self.looks + 1 if is_same else 0
        self._found = found
        return self.looks


def _duration(looks: int) -> str:
    """The time of this number of checks, as text."""
    times = looks // LOOKS_IN_TICK_TIME
    return "net_ticktime" if times == 1 else f"{times} times net_ticktime"


class LateConfirms:
    """The checks of one queue. is_late: publishes to a queue that is led here, decisions for the
    mirror here, or its promotion, have waited for more than a net_ticktime.
    """

    __slots__ = ("_apart", "_applying", "_kept", "_leading", "_owed", "is_late")

    def __init__(self) -> None:
        self._apart = Unchanged()
        self._leading = Unchanged()
        self._kept: dict[Member, Unchanged] = {}
        self._applying = Unchanged()
        self._owed = Unchanged()
        self.is_late = False

    def look(self, facts: Facts) -> list[Finding]:
        """Check; called every quarter of a net_ticktime."""
        was_late = self.is_late
        findings = self._look_at_members(facts) + self._look_at_leader(facts)
        if facts.has_gone_round is None:
            findings += self._look_at_mirror(facts)
        else:
            findings += self._look_at_next_leader(facts, facts.has_gone_round)
        if facts.kept is None:
            findings += self._look_at_owed(facts.owed)
        elif was_late and not self.is_late:
            findings.append("confirms continue")
        return findings

    # A member

    def _look_at_members(self, facts: Facts) -> list[Finding]:
        apart = facts.apart
        looks = self._apart.look(apart or None)
        if facts.member is None or looks % LOOKS_IN_TICK_TIME != LOOKS_UNTIL_GIVEN_UP:
            return []
        warnings = [
            f"the member on node {member.node} is given up: the cluster is partitioned, and its "
            "node is on another side"
            for member in apart
        ]
        return [*warnings, Died(apart, facts.member)]

    # The leader

    def _look_at_leader(self, facts: Facts) -> list[Finding]:
        kept = facts.kept
        looks = self._leading.look(None if kept is None else kept.first)
        behind = {} if kept is None else kept.behind()
        self._kept = {member: self._kept.get(member) or Unchanged() for member in behind}
        for member, turn in behind.items():
            self._kept[member].look((turn, facts.living))
        self.is_late = looks >= LOOKS_IN_TICK_TIME
        if kept is None or not looks:
            return []
        findings: list[Finding] = []
        if looks % LOOKS_IN_TICK_TIME == 0:
            reasons = _reasons(kept, behind, facts.living)
            findings.append(f"confirms have waited for {_duration(looks)}: {reasons}")
        if _waits_for_mirrors_only(kept):
            findings += self._give_up(facts, behind)
        return findings

    def _give_up(self, facts: Facts, behind: dict[Member, int]) -> list[Finding]:
        """Declare a mirror dead that has made no progress for too long."""
        looks = {member: self._kept[member].looks for member in behind}
        stuck = (one for one in facts.living if looks.get(one) and not looks[one] % LOOKS_MAX)
        first = next(stuck, None)
        if facts.member is None or first is None:
            return []
        warning = (
            f"the mirror on node {first.node} is given up: it has made no progress for twice "
            "net_ticktime, although its node is linked"
        )
        return [warning, Died((first,), facts.member)]

    # A mirror

    def _look_at_mirror(self, facts: Facts) -> list[Finding]:
        waiting = facts.waiting
        looks = self._applying.look(None if waiting is None else waiting.at)
        self.is_late |= looks >= LOOKS_IN_TICK_TIME
        times, rest = divmod(looks, LOOKS_UNTIL_ASKED)
        if waiting is None or not times or rest:
            return []
        if times & (times - 1):
            # It is logged after 1, 2, 4, 8 .. times.
            return [AskForMissing()]
        if waiting.contents is not None:
            what = f"{_shown(waiting.contents, facts)}: the leader is asked for them"
        elif waiting.is_reading:
            what = "the disk"
        else:
            what = f"an answer of the leader on node {facts.leader_node}, and asks again"
        return [f"the mirror on this node waits for {what}", AskForMissing()]

    # The next leader

    def _look_at_next_leader(self, facts: Facts, has_gone_round: bool) -> list[Finding]:
        waiting = facts.waiting
        looks = self._applying.look((has_gone_round, None if waiting is None else waiting.at))
        self.is_late = looks >= LOOKS_IN_TICK_TIME
        if not looks or looks % LOOKS_IN_TICK_TIME:
            return []
        after: list[Finding] = []
        if not has_gone_round:
            others = sorted([one.node for one in facts.living if one != facts.member])
            what = f"its first broadcast to pass through {', '.join(others)}"
        elif waiting is not None and waiting.contents is not None:
            shown = _shown(waiting.contents, facts)
            what = f"{shown}: it leads without them, and their publishers are refused"
            after = [GiveUpContents(waiting.contents.sender)]
        else:
            what = "the disk"
        text = f"the next leader, on this node, has waited for {_duration(looks)} for {what}"
        return [text, *after]

    # Publishes of this node

    def _look_at_owed(self, owed: int | None) -> list[Finding]:
        looks = self._owed.look(owed)
        return [TellOwed()] if looks and looks % LOOKS_IN_TICK_TIME == 0 else []


def _waits_for_mirrors_only(kept: KeptTurns) -> bool:
    """Whether the publish that has waited longest waits for nothing but mirrors."""
    return kept.first is not None and kept.first.is_logged and not kept.is_in_doubt


def _reasons(kept: KeptTurns, behind: dict[Member, int], living: Collection[Member]) -> str:
    """The reasons for which the publish that has waited longest waits."""
    first = kept.first
    assert first is not None, "something waits"
    reasons = [] if first.is_logged else ["this node has not written it to disk"]
    if kept.is_in_doubt:
        reasons.append("not all nodes have stored the change by which this node leads")
    for member, turn in behind.items():
        if member in living:
            reasons.append(f"the mirror on node {member.node} has kept turn {turn} of {first.turn}")
        else:
            reasons.append(f"not all nodes have stored the removal of the mirror on {member.node}")
    return "; ".join(reasons)


def _shown(contents: Contents, facts: Facts) -> str:
    """A text about contents that have not arrived."""
    sender, first, size = contents
    node = f"node {facts.senders[sender]}" if sender in facts.senders else "a node that is down"
    return f"messages {first} to {first + size - 1} of {node}"
