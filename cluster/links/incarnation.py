"""The number of a node's start: it grows from one start to the next, even if the clock goes back.

It is the time of the start in microseconds since 1970, or one more than the last number, which a
small file in the data directory keeps. It is written and synced before it is used.
"""

import logging
from pathlib import Path

from leveret.broker.runtime.private_files import write_whole
from leveret.cluster.links.hello import INCARNATION_MAX

INCARNATION_FILE = "cluster.incarnation"

logger = logging.getLogger("leveret.cluster")


def next_incarnation(data_dir: Path, wall_time_s: float) -> int:
    """The number of this start. Raises OSError. wall_time_s: seconds since 1970."""
    path = data_dir / INCARNATION_FILE
    number = max(int(wall_time_s * 1_000_000), _last(path) + 1)
    write_whole(path, b"%d\n" % number)
    return number


def _last(path: Path) -> int:
    """The number of the previous start; 0 if there is none."""
    try:
        text = path.read_bytes().strip()
    except FileNotFoundError:
        return 0
    if not text.isdigit() or int(text) >= INCARNATION_MAX:
        logger.error("%s does not contain the number of a start: the clock alone counts", path)
        return 0
    return int(text)
