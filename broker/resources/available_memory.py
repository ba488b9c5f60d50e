"""The memory that a process can use: that of the machine, of its container, or of its limit."""

import os
import re
import resource
from pathlib import Path

from leveret.broker.resources.control_groups import PROCESS, groups_of, value_of

LIMIT_FILES = ("memory.max", "memory.limit_in_bytes")
"""The files with the limit of a control group, of versions 2 and 1."""
_HIERARCHICAL = re.compile(r"^hierarchical_memory_limit (\d+)$", re.MULTILINE)
"""In the statistics of version 1: the lowest limit up to the root, visible from here or not."""


def available_bytes(process: Path = PROCESS) -> int:
    """The memory of the machine, or the lowest limit of a control group or of the process."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        limits.append(soft)
    for group in groups_of("memory", process):
        values = [value_of(group, name) for name in LIMIT_FILES]
        values += _HIERARCHICAL.findall(value_of(group, "memory.stat"))
        # Without a limit version 2 says "max", and version 1 a number that no machine has.
        limits += [int(value) for value in values if value.isdecimal()]
    return min(limits)
