"""How much memory a process can have: that of the machine, of its container, or of its limit."""

import os
import resource
from pathlib import Path

CGROUP_FILES = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""The files of a container's memory limit, in control groups version 2 and 1."""


def available_bytes(cgroup_files: tuple[Path, ...] = CGROUP_FILES) -> int:
    """The memory of the machine, or of the container or process limit if that is less."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        limits.append(soft)
    for path in cgroup_files:
        try:
            text = path.read_text().strip()
        except OSError:
            # Another version of control groups, or none.
            continue
        if text.isdigit():
            limits.append(int(text))
    return min(limits)
