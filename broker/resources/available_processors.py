"""The processors that a process can use: those it may run on, or the quota of its container."""

import os
from collections.abc import Iterator
from pathlib import Path

from leveret.broker.resources.control_groups import PROCESS, groups_of, value_of


def available_processors(process: Path = PROCESS) -> int:
    """The processors that the process may run on, or the least quota of a control group if less.

    A quota of one and a half processors counts as two.
    """
    return min([len(os.sched_getaffinity(0)), *_quotas(process)])


def _quotas(process: Path) -> Iterator[int]:
    """Quotas as processor time divided by time, of versions 2 ("150000 100000") and 1.

    A group without a quota, which is skipped, has "max" in version 2, and -1 in version 1.
    """
    for group in groups_of("cpu", process):
        names = ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
        match " ".join(value_of(group, name) for name in names).split():
            case quota_us, period_us if quota_us.isdecimal():
                yield -(-int(quota_us) // int(period_us))
