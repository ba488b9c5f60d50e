"""Carries out a plan on a real cluster: does harm, puts it right, waits until nodes are back."""

import signal
import time
import urllib.error
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from tests.cluster.hosted_nodes import Cluster, partitions
from tests.jepsen.account import WHOLE, Event
from tests.jepsen.plan import CUT, FULL_DISK, KILL, ONE_WAY, PAUSE, POWER, SLOW, STOP, Fault
from tests.jepsen.power import PowerDisk
from tests.patience import PATIENCE_SECONDS
from tests.store_problems import assert_intact

LOOK_SECONDS = 0.05
DELAY_SECONDS, LOSS = 0.05, 0.1
"""Of slow links."""
NUMBERS = {KILL: signal.SIGKILL, STOP: signal.SIGTERM, POWER: signal.SIGKILL}


class NotWhole(AssertionError):
    """Some nodes did not come back by themselves."""


class Nemesis:
    """Carries out a plan. disk: the directory that is filled, of the last node. tell: gets lines.

    power: the disks of nodes whose power can be cut, by their directories.
    returns: how long it took until all nodes were there after each fault.
    """

    def __init__(
        self, cluster: Cluster, events: list[Event], disk: Path, tell: Callable[[str], object],
        power: Mapping[Path, PowerDisk] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        self._cluster = cluster
        self._nodes = {node.name[0]: node for node in cluster.nodes}
        self._events = events
        self._filling = disk / "filling"
        self._tell = tell
        self._power = power
        self._starts = 0
        self.returns: list[tuple[float, str]] = []

    def run(self, faults: list[Fault]) -> None:
        """Carry out all faults."""
        for fault in faults:
            self._note(str(fault), fault)
            self._begin(fault)
            time.sleep(fault.seconds)
            self._note(f"the end of {fault}", fault)
            self._end(fault)
            self._wait_until_whole(fault)
            time.sleep(fault.calm_seconds)

    def _note(self, what: str, fault: Fault | None) -> None:
        """Note what happens. Which of several victims, or of links, are spared is unknown."""
        spared = set(self._nodes)
        if fault is not None:
            is_clear = fault.kind not in (SLOW, FULL_DISK) and len(fault.sides) == 2
            spared = spared - set(fault.victims) if is_clear and len(fault.victims) == 1 else set()
        self._events.append(Event(time.monotonic(), what, frozenset(spared)))
        self._tell(what)

    def _hosts(self, letters: str) -> list:
        return [self._nodes[letter].host for letter in letters]

    def _begin(self, fault: Fault) -> None:
        network = self._cluster.network
        first, last = self._hosts(fault.sides[0]), self._hosts(fault.sides[-1])
        if fault.ends_a_process:
            self._end_processes(fault)
        elif fault.kind == PAUSE:
            self._signal(fault.victims, signal.SIGSTOP)
        elif fault.kind == CUT:
            network.cut(first, last)
        elif fault.kind == ONE_WAY:
            network.cut_one_way(first, last)
        elif fault.kind == SLOW:
            network.delay(first, last, DELAY_SECONDS)
            network.lose(last, first, LOSS)
        elif fault.kind == FULL_DISK:
            self._fill()

    def _end_processes(self, fault: Fault) -> None:
        """At once, or as soon as the system can: a stop takes its time."""
        self._signal(fault.victims, NUMBERS[fault.kind])
        for letter in fault.victims:
            self._nodes[letter].stop()
            assert_intact(self._nodes[letter].data_dir)
        if fault.kind == POWER:
            for letter in fault.victims:
                self._power[self._nodes[letter].data_dir].cut()

    def _end(self, fault: Fault) -> None:
        if fault.kind == PAUSE:
            self._signal(fault.victims, signal.SIGCONT)
        elif fault.kind == FULL_DISK:
            self._filling.unlink()
        self._cluster.network.heal()
        self._start_ended()

    def _signal(self, letters: str, number: signal.Signals) -> None:
        for letter in letters:
            self._nodes[letter].process.send_signal(number)

    def _start_ended(self) -> None:
        for node in self._nodes.values():
            if node.process.poll() is not None:
                self._starts += 1
                node.log_path = node.log_path.with_name(f"{node.name[0]}-{self._starts}.log")
                node.start(waits=False)

    def _fill(self) -> None:
        """Leave no room on the last node's disk."""
        with self._filling.open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                try:
                    while file.write(bytes(size)) == size:
                        pass
                except OSError:
                    continue

    # Afterwards

    def _wait_until_whole(self, fault: Fault) -> None:
        begun = time.monotonic()
        while not self.is_whole():
            if time.monotonic() > begun + PATIENCE_SECONDS:
                raise NotWhole(f"after {fault}: not all nodes are back")
            if self._cluster.is_left_partitioned and self._is_partitioned():
                self._restart(fault.victims)
            if fault.kind == FULL_DISK:
                self._start_ended()
            time.sleep(LOOK_SECONDS)
        seconds = time.monotonic() - begun
        self.returns.append((seconds, str(fault)))
        self._note(WHOLE, None)

    def is_whole(self) -> bool:
        """All nodes accept clients, and see each other."""
        try:
            return all(self._cluster.sees_all(node) for node in self._nodes.values()) and (
                not self._is_partitioned()
            )
        except (urllib.error.URLError, OSError):
            return False

    def _is_partitioned(self) -> bool:
        return any(map(self._partitions, self._nodes.values()))

    @staticmethod
    def _partitions(node) -> list[str]:
        try:
            return partitions(node)
        except (urllib.error.URLError, OSError):
            return []

    def _restart(self, letters: str) -> None:
        """As an operator does it whose cluster ignores partitions."""
        self._tell(f"restart of {letters}")
        for letter in letters:
            self._nodes[letter].stop()
        self._start_ended()
