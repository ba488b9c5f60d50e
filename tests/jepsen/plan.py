"""What goes wrong in a run, and when: a list of faults, made of a seed alone.

A plan names nodes by their letters, and knows nothing of what runs on them. After each fault
everything is put right, and the next one waits until the cluster is whole, so a plan says how long
each fault lasts, and how long the cluster has peace after it.
"""

from random import Random
from typing import NamedTuple

IGNORE, AUTOHEAL = "ignore", "autoheal"
PAUSE_MINORITY, PAUSE_IF_ALL_DOWN = "pause_minority", "pause_if_all_down"
MODES = (PAUSE_MINORITY, PAUSE_IF_ALL_DOWN, AUTOHEAL, IGNORE)

KILL, STOP, PAUSE, CUT, ONE_WAY, SLOW, FULL_DISK, POWER = (
    "kill", "stop", "pause", "cut", "one way", "slow", "full disk", "power cut",
)  # fmt: skip
ALONE, HALVES, BRIDGE = "alone", "halves", "bridge"
SHAPES = (ALONE, ALONE, HALVES, BRIDGE)
KINDS = (KILL, KILL, STOP, PAUSE, PAUSE, CUT, CUT, ONE_WAY, SLOW, FULL_DISK)
CLEAR_KINDS = (KILL, KILL, STOP, CUT, CUT)
"""Of runs in which every side goes on by itself: who has lost is to be beyond doubt."""
WITH_POWER_CUTS = (*KINDS, POWER, POWER)
CALM_SECONDS = 0.5, 3.0


class Fault(NamedTuple):
    """One fault. sides: the nodes that it happens to, and the others, by their letters.

    Of a bridge, only the first and the last side cannot reach each other; what is sent one way is
    lost from the first side to the last one.
    """

    kind: str
    sides: tuple[str, ...]
    seconds: float
    calm_seconds: float

    def __str__(self) -> str:
        return f"{self.kind} {'|'.join(self.sides)} for {self.seconds:.1f} s"

    @property
    def victims(self) -> str:
        """The nodes that it happens to."""
        return self.sides[0]

    @property
    def ends_a_process(self) -> bool:
        """The victims have to be started again."""
        return self.kind in (KILL, STOP, POWER)


def plan(
    seed: int, nodes: str, seconds: float, mode: str, tick_s: float, survives: bool = False,
    has_power_cuts: bool = False,
) -> list[Fault]:  # fmt: skip
    """The faults of a run of about `seconds` seconds. tick_s: the silence that is noticed.

    survives: the queues survive each kind of fault in all modes. has_power_cuts: the power can be
    cut.
    """
    chance = Random(seed)
    is_clear = mode in (IGNORE, AUTOHEAL) and not survives
    kinds = CLEAR_KINDS if is_clear else WITH_POWER_CUTS if has_power_cuts else KINDS
    faults: list[Fault] = []
    at_s = 0.0
    while at_s < seconds:
        fault = _fault(chance, nodes, kinds, is_clear, tick_s)
        faults.append(fault)
        at_s += fault.seconds + fault.calm_seconds + 2 * tick_s
    return faults


def _fault(
    chance: Random, nodes: str, kinds: tuple[str, ...], is_clear: bool, tick_s: float
) -> Fault:
    kind = chance.choice(kinds)
    calm = chance.uniform(*CALM_SECONDS)
    mixed = "".join(chance.sample(nodes, len(nodes)))
    if kind == CUT:
        return Fault(kind, _cut(chance, mixed, is_clear), tick_s * chance.uniform(0.5, 4), calm)
    if kind in (KILL, STOP):
        count = chance.choice((1, 1, 1, 2, len(nodes)))
        seconds = chance.choice((0.0, 0.5, tick_s, 2.5 * tick_s))
        return Fault(kind, _parts(mixed, count), seconds, calm)
    if kind == POWER:
        count = chance.choice((1, len(nodes), len(nodes)))
        return Fault(kind, _parts(mixed, count), chance.choice((0.0, tick_s)), calm)
    if kind == PAUSE:
        count = chance.choice((1, 1, 1, 2, len(nodes) - 1))
        seconds = tick_s * chance.choice((0.3, 0.8, 1.1, 1.6, 3.0))
        return Fault(kind, _parts(mixed, count), seconds, calm)
    if kind == FULL_DISK:
        last = nodes[-1]
        return Fault(kind, _parts(last + nodes[:-1], 1), 2 * tick_s, calm)
    return Fault(kind, _parts(mixed, 1), tick_s * chance.uniform(0.5, 3), calm)


def _cut(chance: Random, mixed: str, is_clear: bool) -> tuple[str, ...]:
    shape = chance.choice(SHAPES[:3] if is_clear else SHAPES)
    if shape == ALONE:
        return _parts(mixed, 1)
    if shape == HALVES:
        return _parts(mixed, len(mixed) // 2)
    edge = len(mixed) // 2
    return mixed[:edge], mixed[edge], mixed[edge + 1 :]


def _parts(mixed: str, count: int) -> tuple[str, ...]:
    """The first `count` nodes, and the others if there are any."""
    return tuple(filter(None, (mixed[:count], mixed[count:])))
