"""Changes of a stopped node's membership in its files, for leveretctl.

leveretctl is a client and does not access a node's files, so it runs this module as a program:

    python -m leveret.mgmt.cli.membership forget DATA_DIR OWN_NAME NODE
    python -m leveret.mgmt.cli.membership rename DATA_DIR OWN_NAME OLD NEW [OLD NEW ...]

If OWN_NAME is empty, the node has the configured name, or the default one. An error is printed to
standard error. The exit code is 64 if the node is running, as with rabbitmqctl, and 1 after another
error.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from leveret.broker.config import ConfigError, load_config
from leveret.cluster.membership.membership_changes import ClusterError
from leveret.cluster.startup.membership_files import MembershipFiles
from leveret.mgmt.running_node import METADATA_FILE
from leveret.storage.disk.data_directory import (
    DataDirectoryError,
    DataDirectoryInUse,
    DataDirectoryLock,
)
from leveret.storage.metadata.metadata import MetadataError

FORGET, RENAME = "forget", "rename"
FAILED, NODE_RUNS = 1, 64


def main(arguments: Sequence[str]) -> int:
    """Make one change."""
    what, directory, name, *nodes = arguments
    data_dir = Path(directory)
    if not (data_dir / METADATA_FILE).exists():
        return _failed(f"there are no files of a node in {data_dir} (--data-dir)")
    lock = DataDirectoryLock(data_dir)
    try:
        lock.acquire()
        own = load_config(None, os.environ, {"node": name or None}).node_name
        files = MembershipFiles(data_dir, data_dir / METADATA_FILE, own)
        if what == RENAME:
            files.rename(dict(zip(nodes[::2], nodes[1::2], strict=True)))
        else:
            files.forget(nodes[0])
    except DataDirectoryInUse as error:
        return _failed(str(error), NODE_RUNS)
    except (
        ConfigError, DataDirectoryError, ClusterError, MetadataError, OSError, ValueError,
    ) as error:  # fmt: skip
        return _failed(str(error))
    finally:
        lock.release()
    return 0


def _failed(reason: str, code: int = FAILED) -> int:
    sys.stderr.write(f"{reason}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
