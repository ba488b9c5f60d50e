"""All orders of what can happen to a small group: a bounded model check of the real machines.

    python -m tests.sim.ring_model       says how many states each case has

States are visited breadth first, each once. A state is all machines, all that is on the links, the
record's log, what is submitted, and what members have delivered and been told. Every order of
arrivals, records that are applied, joins that are committed, broadcasts, the crash and the join is
a path through them. At each step the properties are checked, and wherever nothing is left to
happen, those of the end. A failure shows its path.

Some things happen at once, because a later time is that of something else: a member's round has one
input, and ends with it; a pause ends when it begins (what it waits for may come late instead); and
a submission is committed when it is made (nodes apply it at any time), but for that of a join.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec
import typer

from leveret.cluster.gm.early_messages import EarlyMessages
from leveret.cluster.gm.group import Added, Member
from leveret.cluster.gm.neighbour_watch import NeighbourWatch
from leveret.cluster.gm.pending import PendingBroadcasts
from leveret.cluster.gm.ring_member import RingMember
from tests.sim.properties import Broken
from tests.sim.ring_properties import RingHistory
from tests.sim.ring_world import Action, RingNode, RingWorld

ANYBODY = Member("", 0, 0)
COPIED: dict[type, Callable[[], object]] = {
    RingMember: lambda: RingMember(ANYBODY),
    PendingBroadcasts: lambda: PendingBroadcasts(0, ANYBODY),
    EarlyMessages: lambda: EarlyMessages(0),
    NeighbourWatch: lambda: NeighbourWatch(ANYBODY),
    RingNode: lambda: RingNode(""),
    RingHistory: RingHistory,
}
"""What changes, besides lists, dictionaries and sets, and how to make one to copy into.

All else is shared between states.
"""


class Case(msgspec.Struct, frozen=True):
    """What happens in one check, each thing at any time.

    broadcasts: who sends, once for each letter. joins: a node, or nothing. crashes: those of whom
    one crashes. kept: how many messages that it has sent may arrive then, on each link.
    """

    members: str
    joins: str
    broadcasts: str
    crashes: str
    kept: tuple[int, ...] = (0, 100)

    def beginning(self) -> "State":
        """Before anything happens."""
        world = RingWorld(self.members + self.joins, self.members)
        left = [("broadcast", name) for name in self.broadcasts]
        left += [("new member", name) for name in self.joins]
        left += [("crash", name, kept) for name in self.crashes for kept in self.kept]
        world.trace = []
        return State(world, tuple(left), {})


@cache
def slots_of(kind: type) -> tuple[str, ...]:
    """The attributes of a class with slots, or of a compiled one, without its properties."""
    one = COPIED[kind]()
    names = []
    for name, value in vars(kind).items():
        if type(value).__name__ in {"member_descriptor", "getset_descriptor"}:
            with suppress(AttributeError):
                setattr(one, name, getattr(one, name))
                names.append(name)
    return tuple(names)


def names_of(thing: object) -> Iterable[str]:
    """The attributes of an object."""
    return vars(thing) if hasattr(thing, "__dict__") else slots_of(type(thing))


def copied(thing: Any, seen: dict[int, Any]) -> Any:
    """A copy of what may change. seen: by the identity of what was copied already."""
    kind = type(thing)
    if kind is list:
        return [copied(one, seen) for one in thing]
    if kind is dict:
        return {key: copied(value, seen) for key, value in thing.items()}
    if kind is set:
        return set(thing)
    if kind not in COPIED:
        return thing
    known = seen.get(id(thing))
    if known is None:
        known = seen[id(thing)] = COPIED[kind]()
        for name in names_of(thing):
            setattr(known, name, copied(getattr(thing, name), seen))
    return known


def frozen(thing: Any) -> Hashable:
    """A value that is equal for equal states."""
    kind = type(thing)
    if kind is list:
        return tuple([frozen(one) for one in thing])
    if kind is dict:
        return frozenset([(key, frozen(value)) for key, value in thing.items()])
    if kind is set:
        return frozenset(thing)
    if kind in COPIED:
        return tuple([frozen(getattr(thing, name)) for name in names_of(thing)])
    return thing


class State:
    """One state. left: what is to happen at some time. numbers: of equal parts of states."""

    def __init__(
        self, world: RingWorld, left: tuple[Action, ...], numbers: dict[Hashable, int]
    ) -> None:
        self.world = world
        self.left = left
        self._numbers = numbers
        self._node_keys = {name: self._numbered(node) for name, node in world.nodes.items()}

    def _numbered(self, thing: object) -> int:
        return self._numbers.setdefault(frozen(thing), len(self._numbers))

    def key(self) -> Hashable:
        """What the state consists of."""
        world = self.world
        return (
            tuple(self._node_keys.values()),
            tuple([tuple(items) for items in world.ways.values()]),
            self._numbered(world.log),
            tuple(world.submissions),
            self._numbered(world.history),
            self.left,
        )

    def actions(self) -> Iterator[Action]:
        """All that may happen next."""
        world = self.world
        yield from world.arrivals()
        for node in world.nodes.values():
            if node.applied < len(world.log) - 1:
                yield ("apply", node.name, 1)
        for at in range(len(world.submissions)):
            yield ("commit", at)
        for action in self.left:
            machine = world.nodes[str(action[1])].machine
            if action[0] == "broadcast":
                may_happen = machine is not None and machine.is_joined
            else:
                may_happen = (machine is None) == (action[0] == "new member")
            if may_happen:
                yield action

    def after(self, action: Action) -> "State":
        """The state after an action, and after the end of the round in which it comes."""
        what = action[0]
        name = None if what == "commit" else str(action[2 if what == "arrive" else 1])
        state = State.__new__(State)
        state._numbers, state._node_keys = self._numbers, dict(self._node_keys)
        state.left = self.left
        if what == "crash":
            state.left = tuple(one for one in self.left if one[0] != "crash")
        elif action in self.left:
            at = self.left.index(action)
            state.left = self.left[:at] + self.left[at + 1 :]
        state.world = world = fork(self.world, name)
        world.do(action)
        if name is not None:
            self._end_round(world, world.nodes[name])
            state._node_keys[name] = state._numbered(world.nodes[name])
        return state

    def _end_round(self, world: RingWorld, node: RingNode) -> None:
        """What happens at once."""
        if node.is_flush_due:
            world.do(("flush", node.name))
        while node.pauses:
            world.do(("pause over", node.name, node.pauses[0]))
        for at in reversed(range(len(world.submissions))):
            if not isinstance(world.submissions[at][0], Added):
                world.do(("commit", at))


def fork(world: RingWorld, name: str | None) -> RingWorld:
    """A world of its own, in which only the node with this name is going to change."""
    new = RingWorld.__new__(RingWorld)
    new.__dict__.update(world.__dict__)
    new.nodes = dict(world.nodes)
    if name is not None:
        new.nodes[name] = copied(world.nodes[name], {})
    new.ways = {way: items.copy() for way, items in world.ways.items()}
    new.connected, new.log = set(world.connected), list(world.log)
    new.submissions, new.trace = list(world.submissions), list(world.trace)
    new.history = copied(world.history, {})
    return new


def check(case: Case, most: int | None = None) -> int:
    """Visit all states of a case, or `most`; return their number. Raises Broken with the path."""
    beginning = case.beginning()
    seen = {beginning.key()}
    front = [beginning]
    while front:
        following = []
        for state in front:
            is_end = True
            for action in state.actions():
                is_end = False
                after = _checked(state, lambda state=state, action=action: state.after(action))
                key = after.key()
                if key not in seen:
                    seen.add(key)
                    following.append(after)
            if is_end:
                _checked(state, lambda state=state: state.world.history.check_end(state.world))
            if most is not None and len(seen) >= most:
                return len(seen)
        front = following
    return len(seen)


def _checked(state: State, act: Any) -> Any:
    try:
        return act()
    except AssertionError as error:
        path = "".join(" ".join(map(str, action)) + "\n" for action in state.world.trace)
        raise Broken(f"{error}, after\n{path}") from error


SMALL = (
    Case("ab", "", "ab", "ab"),
    Case("ab", "c", "", ""),
    Case("abc", "", "a", "a", (100,)),
)
"""Each takes a second or less."""
LARGE = (
    Case("ab", "c", "ab", "abc"),
    Case("ab", "c", "a", "b"),
    Case("abc", "", "ab", "b"),
)


def main() -> None:
    """Check all cases."""
    for case in (*SMALL, *LARGE):
        print(case, check(case), "states", flush=True)


if __name__ == "__main__":
    typer.run(main)
