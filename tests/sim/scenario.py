"""One simulated run: a cluster, faults by the seed, then quiet, and what has to hold at the end.

    python -m tests.sim.scenario --seed 17          one seed, with its trace
    python -m tests.sim.scenario --seeds 1000       many of them, from --first on

The mode, which the seed chooses, says which faults there are and how partitions are handled:
`crashes` has no cut links and no suspended nodes, so nothing that was answered may be undone;
`pause_minority` has all faults, and promises the same; in `ignore` each side of a partition goes
on, until an operator restarts the nodes of all sides but one in the end; in `autoheal` that happens
at once. With some seeds these two are what `pause_if_all_down` recovers by: a side without any of
the listed nodes pauses.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from random import Random

from msgspec.structs import astuple

from leveret.cluster.metadata.messages import RUNNING, View, ViewId, ViewMember, ViewStart
from leveret.cluster.partitions.autoheal import PartitionReport, Verdict, decide, has_lost
from leveret.cluster.partitions.rules import MayGoOn, PauseIfAllDown, PauseMinority, always
from tests.sim.command import run_command, run_scenario
from tests.sim.properties import Broken, History, require
from tests.sim.simulated_node import SimulatedNode
from tests.sim.world import DELAY_MAX, TICK_TIME, Events, Link

CRASHES, IGNORE, PAUSE_MINORITY, AUTOHEAL = "crashes", "ignore", "pause_minority", "autoheal"
MODES = (CRASHES, IGNORE, PAUSE_MINORITY, AUTOHEAL)
QUIET = 24_000
"""Milliseconds without faults, in which everything has to converge."""


class Scenario:
    """The run of one seed. sizes: the least and the greatest number of nodes."""

    def __init__(self, seed: int, sizes: tuple[int, int] = (2, 5)) -> None:
        self.events = Events(seed)
        self.random = self.events.random
        self.history = History()
        self.mode = self.random.choice(MODES)
        names = "abcde"[: self.random.randint(*sizes)]
        self.cluster = frozenset(names)
        minority = PauseMinority(self.cluster)
        rule: MayGoOn = minority if self.mode == PAUSE_MINORITY else always
        self.listed = self._listed_nodes(seed)
        if self.listed:
            rule = PauseIfAllDown(self.listed)
        has_ram = self.random.random() < 0.3
        disc = frozenset(
            name for name in names if name == "a" or not has_ram or self.random.random() < 0.6
        )
        is_majority = minority if self.mode == PAUSE_MINORITY and minority(disc) else None
        self.nodes = {
            name: SimulatedNode(
                name,
                name in disc,
                self.events,
                self.history,
                self.cluster,
                self.send,
                rule,
                is_majority,
            )
            for name in names
        }
        self.history.nodes = self.nodes
        for node in self.nodes.values():
            node.restarts, node.pauses = self._restart, self._pause_by_rule
        self._give_first_view()
        self.links = {
            frozenset(pair): Link(self.events, *(self.nodes[name] for name in sorted(pair)))
            for pair in combinations(names, 2)
        }
        self.submitted = 0
        self.is_quiet = False

    def _listed_nodes(self, seed: int) -> frozenset[str]:
        """The nodes of `pause_if_all_down`; none with another rule.

        They have random numbers of their own, so that other seeds stay what they were.
        """
        if seed % 7 != 5 or self.mode not in (IGNORE, AUTOHEAL):
            return frozenset()
        names = sorted(self.cluster)
        return frozenset(Random(seed).sample(names, Random(-seed).randint(1, len(names) - 1)))

    def _give_first_view(self) -> None:
        """All nodes have run together, and were stopped at once before anything was declared."""
        view = View(
            ViewId(1, "a", 0), tuple(ViewMember(n.name, 0, n.is_disc) for n in self.nodes.values())
        )
        for node in self.nodes.values():
            node.disk.view, node.disk.starts = view, (ViewStart(view.id, 1),)
            node.disk.companions = frozenset(view.names)

    def lines(self) -> Iterator[str]:
        """Its mode, and what has happened."""
        yield f"{self.mode}, {len(self.nodes)} nodes"
        yield from self.events.lines()

    def send(self, sender: str, receiver: str, item: object) -> None:
        """Over the link of two nodes."""
        self.links[frozenset((sender, receiver))].send(sender, item)

    def run(self) -> None:
        """Run it all. Raises Broken, or AssertionError from the machines."""
        self.events.note("mode", self.mode, "nodes", *self.nodes, "listed", *sorted(self.listed))
        for node in self.nodes.values():
            self.events.later(self.random.randint(1, 500), node.start)
        duration = self.random.randint(5_000, 25_000)
        for _ in range(self.random.randint(10, 80)):
            self.events.later(self.random.randint(500, duration), self._submit)
        for _ in range(self.random.randint(0, 8)):
            self.events.later(self.random.randint(500, duration), self._fault)
        if self.mode == AUTOHEAL:
            self.events.later(1000, self._autoheal)
        self.events.run_until(duration)
        self._heal()
        self._run_until_quiet(duration)
        self._check_end()

    def _submit(self) -> None:
        self.submitted += 1
        node = self.random.choice(sorted(self.nodes))
        for _ in range(self.random.choice((1, 1, 1, 3, 12))):
            self.nodes[node].submit(f"operation {self.submitted}".encode())

    # Faults

    def _fault(self) -> None:
        if self.is_quiet:
            return
        faults: list[Callable[[SimulatedNode], None]] = [self._crash, self._crash, self._slow_disk]
        faults += [self._slow_links, self._crash_all]
        if self.mode != CRASHES:
            faults += [self._suspend, self._partition, self._partition, self._cut, self._one_way]
            faults += [self._flap]
        node = self.nodes[self.random.choice(sorted(self.nodes))]
        self.random.choice(faults)(node)

    def _in_a_while(self, act: Callable[[], None], most: int = 3 * TICK_TIME) -> None:
        self.events.later(self.random.randint(1, most), act)

    def _links_of(self, name: str) -> list[Link]:
        return [link for pair, link in self.links.items() if name in pair]

    def _crash(self, node: SimulatedNode) -> None:
        if node.is_alive:
            node.crash()
            for link in self._links_of(node.name):
                link.break_off()
            incarnation = node.incarnation
            self._in_a_while(lambda: self._start_again(node, incarnation))

    def _start_again(self, node: SimulatedNode, incarnation: int) -> None:
        if not node.is_alive and node.incarnation == incarnation:
            node.start()

    def _crash_all(self, node: SimulatedNode) -> None:
        for one in self.nodes.values():
            self._crash(one)

    def _slow_disk(self, node: SimulatedNode) -> None:
        node.write_delay_max = self.random.choice((5, 50, 1000))

    def _slow_links(self, node: SimulatedNode) -> None:
        delay = self.random.choice((2, 40, 400))
        for link in self._links_of(node.name):
            link.slow_down(delay)

    def _suspend(self, node: SimulatedNode) -> None:
        if node.is_alive and not node.is_paused:
            node.pause()
            for link in self._links_of(node.name):
                link.watch(node.name)
            incarnation = node.incarnation
            self._in_a_while(lambda: self._resume(node, incarnation))

    def _resume(self, node: SimulatedNode, incarnation: int) -> None:
        if node.is_paused and node.incarnation == incarnation:
            node.resume()

    def _partition(self, node: SimulatedNode) -> None:
        side = {name for name in self.nodes if self.random.random() < 0.5}
        self.events.note("partition of", sorted(side), "from the others")
        for pair, link in self.links.items():
            if len(pair & side) == 1:
                self._cut_link(pair, link)

    def _cut(self, node: SimulatedNode) -> None:
        pair = self.random.choice(sorted(self.links, key=sorted))
        self.events.note("cut between", sorted(pair))
        self._cut_link(pair, self.links[pair])

    def _cut_link(self, pair: frozenset[str], link: Link) -> None:
        for name in sorted(pair):
            link.block(name)
        if self.random.random() < 0.3:
            link.break_off()
        self._in_a_while(lambda: [link.unblock(name) for name in sorted(pair)])

    def _one_way(self, node: SimulatedNode) -> None:
        self.events.note("nothing more of", node.name, "arrives")
        for link in self._links_of(node.name):
            if self.random.random() < 0.7:
                link.block(node.name)
                self._in_a_while(lambda link=link: link.unblock(node.name))

    def _flap(self, node: SimulatedNode) -> None:
        for link in self._links_of(node.name):
            link.break_off()

    # What operators and services do

    def _restart(self, node: SimulatedNode, takes_from: tuple[str, ...]) -> None:
        self.events.note(node.name, "has to restart, with a snapshot of", takes_from)
        is_all_disc = all(one.is_disc for one in self.nodes.values())
        was_away = self.mode != CRASHES or not is_all_disc
        require(was_away, node.name, "restarts, and was in its view for as long as it ran")
        self._stop_and_start(node, takes_from)

    def _stop_and_start(self, node: SimulatedNode, takes_from: tuple[str, ...]) -> None:
        node.give_way(takes_from)
        node.crash()
        for link in self._links_of(node.name):
            link.break_off()
        incarnation = node.incarnation

        def start() -> None:
            if not node.is_alive and node.incarnation == incarnation:
                node.start()

        self.events.later(self.random.randint(1, 200), start)

    def _pause_by_rule(self, node: SimulatedNode, members: tuple[str, ...]) -> None:
        self.events.note(node.name, "pauses: reaches only", members)
        node.crash()
        for link in self._links_of(node.name):
            link.break_off()
        self._in_a_while(partial(self._start_again, node, node.incarnation), 1000)

    def _autoheal(self) -> None:
        """Every second the first node asks all for a report; the verdict arrives after a while."""
        self.events.later(1000, self._autoheal)
        reports = []
        for name, node in self.nodes.items():
            machine = node.machine
            if machine is None or node.is_paused or not machine.views.is_in_service:
                return
            if len(machine.views.peers) + 1 < len(self.nodes):
                return
            reports.append(
                PartitionReport(
                    name, machine.views.view.names, _id_of(node), node.partitioned_from,
                    ord(name) % 3,
                )
            )  # fmt: skip
        verdict = decide(self.cluster, reports)
        if verdict is not None:
            self.events.note("autoheal: the winners are", verdict.winners)
            for node in self.nodes.values():
                if self.random.random() < 0.9:
                    delay = self.random.randint(1, 2 * DELAY_MAX)
                    self.events.later(delay, partial(self._hear, node, verdict))

    def _hear(self, node: SimulatedNode, verdict: Verdict) -> None:
        machine = node.machine
        if machine is None or node.is_paused or not machine.views.is_in_service:
            return
        if has_lost(_id_of(node), verdict):
            self._stop_and_start(node, verdict.winners)

    # The end

    def _run_until_quiet(self, healed: int) -> None:
        """Until everything has converged and stays so for a while, or for `QUIET`."""
        self.events.run_until(healed + 2 * TICK_TIME)
        for second in range(2 * TICK_TIME, QUIET, 1000):
            was_quiet = self._has_converged()
            self.events.run_until(healed + second)
            if was_quiet and self._has_converged():
                return

    def _has_converged(self) -> bool:
        try:
            self._check_end()
        except Broken:
            return False
        return True

    def _heal(self) -> None:
        self.events.note("no more faults")
        self.is_quiet = True
        for pair, link in self.links.items():
            link.slow_down(40)
            for name in sorted(pair):
                link.unblock(name)
        for node in self.nodes.values():
            node.write_delay_max = 5
            if node.is_paused:
                node.resume()
            if not node.is_alive:
                self._start_again(node, node.incarnation)
        if self.mode == IGNORE:
            self.events.later(2 * TICK_TIME, self._autoheal)

    def _check_end(self) -> None:
        views = set()
        for node in self.nodes.values():
            require(node.machine is not None, node.name, "does not run in the end")
            machine = node.machine
            require(machine.views.phase == RUNNING, node.name, "is", machine.views.phase)
            require(not machine.views.fence.is_up, node.name, "is fenced in the end")
            require(not node.unanswered, node.name, "leaves clients waiting:", node.unanswered)
            require(not node.partitioned_from, node.name, "is partitioned in the end")
            views.add((machine.views.view, node.applied.hashes[-1]))
        require(len(views) == 1, "the nodes have not converged:", views)
        if self.mode in {CRASHES, PAUSE_MINORITY}:
            node = self.nodes["a"]
            hashes = set(node.applied.hashes)
            lost = [one for one, at in self.history.answered_entries.items() if at not in hashes]
            require(not lost, "V4: answered and undone without a partition:", lost)


def _id_of(node: SimulatedNode) -> tuple[int, str, int]:
    return astuple(node.machine.views.view.id)


def run_seed(seed: int, sizes: tuple[int, int] = (2, 5)) -> Scenario:
    """Run one seed."""
    return run_scenario(Scenario(seed, sizes), seed, sizes, "scenario")


if __name__ == "__main__":
    run_command(Scenario, run_seed, most_nodes=5)
