"""An operator's instructions for the next start of a node, kept in a file until it has started.

With `force_boot` the node waits for no other node. With `forget_cluster_node --offline` it removes
lost members before it accepts clients: only a running node can change declarations. With
`rename_cluster_node` it tells the other nodes its new name. The file is removed when the node has
done all of this.
"""

from pathlib import Path

import msgspec

from leveret.broker.runtime.private_files import write_whole

NEXT_START_FILE = "cluster.next_start.json"


class NextStart(msgspec.Struct, frozen=True):
    """is_forced: the node waits for no other node. forgets: the members that it removes.

    was: the node's name before it was renamed, which it tells the running nodes; empty if it was
    not renamed.
    """

    is_forced: bool = False
    forgets: tuple[str, ...] = ()
    was: str = ""


NOTHING_SAID = NextStart()


def read(data_dir: Path) -> NextStart:
    """The instructions. Raises OSError, and ValueError if the file is damaged."""
    path = data_dir / NEXT_START_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=NextStart)
    except FileNotFoundError:
        return NOTHING_SAID
    except msgspec.MsgspecError as error:
        raise ValueError(
            f"{path} is damaged ({error}): remove it, and give the command for this start again"
        ) from None


def write(data_dir: Path, next_start: NextStart) -> None:
    """Write the instructions. Raises OSError."""
    write_whole(data_dir / NEXT_START_FILE, msgspec.json.encode(next_start))


def forget(data_dir: Path) -> None:
    """Remove the file: the node has started. Raises OSError."""
    (data_dir / NEXT_START_FILE).unlink(missing_ok=True)
