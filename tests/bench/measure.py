"""CPU time, memory and disk writes of a process and its descendants.

Both are read from `/proc`: the processor time of every process of the tree, including children
that it has waited for, and the resident pages. The tree is looked up once per measurement, because
reading `/proc` takes time that would disturb it. A thread samples memory a few times a second, and
the maximum counts. Under load the source is `statm`, which costs the process nothing; if a small
difference matters and the process is idle, it is `smaps_rollup`, for which the kernel counts
pages.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from pathlib import Path
from types import TracebackType

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SAMPLE_SECONDS = 0.2

PARENT, FIRST_TIME, LAST_TIME = 1, 11, 15
"""Columns of `/proc/PID/stat` after the name: the parent, and the four times of a process."""


def _stat(pid: int) -> list[str]:
    """Return the fields after the name, which can contain any character; empty if it has ended."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return line.rpartition(")")[2].split()


def tree(root: int) -> list[int]:
    """Return the process and all its running descendants."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (columns := _stat(int(entry))):
            children[int(columns[PARENT])].append(int(entry))
    found = [root]
    for pid in found:
        found.extend(children[pid])
    return found


def cpu_seconds(pids: list[int]) -> float:
    """Return the user and system time of the processes and their finished children."""
    ticks = sum(int(tick) for pid in pids for tick in _stat(pid)[FIRST_TIME:LAST_TIME])
    return ticks / TICKS


def resident_bytes(pids: list[int]) -> int:
    """Return the sum of the resident sets."""
    pages = 0
    for pid in pids:
        try:
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except OSError:
            continue
    return pages * PAGE


def exact_resident_bytes(pids: list[int]) -> int:
    """Return the exact sum, if the kernel permits it; this delays the processes slightly."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            total += resident_bytes([pid])
            continue
        # A process that is ending has no memory, and no such line.
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Rss:"))
    return total


def written_bytes(pids: list[int]) -> int:
    """Return what the processes have had the system write to disks, at once or later."""
    found = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        except OSError:
            continue
        found += sum(int(line.split()[1]) for line in lines if line.startswith("write_bytes:"))
    return found


class Watch:
    """Measures process trees during a `with` block."""

    def __init__(self, *roots: int) -> None:
        self._pids = [pid for root in roots for pid in tree(root)]
        self._stop = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._cpu_before = 0.0
        self._written_before = 0
        self.written_bytes = 0
        self.cpu_seconds = 0.0
        self.peak_bytes = 0

    def __enter__(self) -> Watch:
        self._cpu_before = cpu_seconds(self._pids)
        self._written_before = written_bytes(self._pids)
        self._sampler.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._sampler.join()
        self.cpu_seconds = cpu_seconds(self._pids) - self._cpu_before
        self.written_bytes = written_bytes(self._pids) - self._written_before

    def _sample(self) -> None:
        while True:
            self.peak_bytes = max(self.peak_bytes, resident_bytes(self._pids))
            if self._stop.wait(SAMPLE_SECONDS):
                return
