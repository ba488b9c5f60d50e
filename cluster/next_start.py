"""What an operator has said about the next start of a node, kept in a file until it has started.

`force_boot` has it wait for no other node. `forget_cluster_node --offline` has it remove members
that are lost, before it accepts clients: only a node that runs can change what is declared.
`rename_cluster_node` has it tell the others its new name. The file is removed when the node has
done all that.
"""

from pathlib import Path

import msgspec

from leveret.broker.private_files import write_whole

NEXT_START_FILE = "cluster.next_start.json"


class NextStart(msgspec.Struct, frozen=True):
    """is_forced: it waits for no other node. forgets: the members that it removes.

    was: the name of this node before it was renamed; it tells those that run. Empty if it was not.
    """

    is_forced: bool = False
    forgets: tuple[str, ...] = ()
    was: str = ""


NOTHING_SAID = NextStart()


def read(data_dir: Path) -> NextStart:
    """What was said. Raises OSError, and ValueError if the file is damaged."""
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
    """Keep it. Raises OSError."""
    write_whole(data_dir / NEXT_START_FILE, msgspec.json.encode(next_start))


def forget(data_dir: Path) -> None:
    """The node has started. Raises OSError."""
    (data_dir / NEXT_START_FILE).unlink(missing_ok=True)
