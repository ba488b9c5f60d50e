"""The control groups of this process, which have the limits of its container.

A process is in one group of each hierarchy (`/proc/self/cgroup`), and the limits of all groups
above that one apply as well. The hierarchies are found where they are mounted
(`/proc/self/mountinfo`): version 2, version 1, or one with some controllers and the other with the
rest. A mount shows the part of its hierarchy below the mount's root: in a container that may be no
more than its own group. A group that is not below that root cannot be seen; then the limits of the
root apply.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

PROCESS = Path("/proc/self")
UNIFIED = ""
"""`/proc/self/cgroup` has this in place of controllers for version 2."""
_ESCAPE = re.compile(r"\\([0-7]{3})")


def groups_of(controller: str, process: Path = PROCESS) -> Iterator[Path]:
    """The directories of the groups that limit this process: its own, and those above it.

    controller: that of version 1 with the limit; version 2 has all controllers in one hierarchy.
    """
    groups = _groups(process)
    for mount_point, root, controllers in _mounts(process):
        for one in {UNIFIED, controller}.intersection(controllers, groups):
            group = _below(groups[one], root)
            yield from (mount_point / part for part in (group, *group.parents))


def value_of(group: Path, name: str) -> str:
    """The content of a group's file; empty if the group has none, as the root of a hierarchy."""
    return _text(group / name).strip()


def _groups(process: Path) -> dict[str, PurePosixPath]:
    """The group in the hierarchy of each controller of version 1, and under UNIFIED."""
    groups: dict[str, PurePosixPath] = {}
    for line in _text(process / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), PurePosixPath(path)))
    return groups


def _mounts(process: Path) -> Iterator[tuple[Path, str, list[str]]]:
    """Where hierarchies are mounted, with the root of each mount and its controllers."""
    for line in _text(process / "mountinfo").splitlines():
        # "32 31 0:29 ROOT MOUNT_POINT rw,relatime shared:1 - TYPE SOURCE rw,CONTROLLERS" (proc(5))
        mount, _, hierarchy = line.partition(" - ")
        kind, *rest = hierarchy.split()
        root, mount_point = map(_unescaped, mount.split()[3:5])
        if kind == "cgroup2":
            yield Path(mount_point), root, [UNIFIED]
        elif kind == "cgroup":
            yield Path(mount_point), root, rest[-1].split(",")


def _below(group: PurePosixPath, root: str) -> PurePosixPath:
    """The path to a group from the root of a mount; empty if the group is not below it."""
    if ".." in group.parts or not group.is_relative_to(root):
        return PurePosixPath()
    return group.relative_to(root)


def _unescaped(path: str) -> str:
    """A path of mountinfo, which has octal numbers in place of spaces and line ends."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), path)


def _text(path: Path) -> str:
    """The content of a file; empty if it is not there or cannot be read."""
    try:
        return os.fsdecode(path.read_bytes())
    except OSError:
        return ""
