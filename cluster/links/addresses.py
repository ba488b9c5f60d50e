"""The known ports of other nodes, kept in a small file.

A node is reached at the host of its name, so only its port has to be learned. An entry comes from
an operator or a discovery backend, from the node itself when it is linked, or from another node. It
has the incarnation of its node, so that newer entries replace older ones; an entry from the node
itself replaces all others.

The file is replaced as a whole and not synced: entries lost in a power cut are learned again. A
file that cannot be read counts as missing, and is logged.
"""

import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from leveret.broker.runtime.node_address import DEFAULT_PORT, PORT_MAX, is_node_name

ADDRESSES_FILE = "cluster.addresses.json"
ENTRIES_MAX = 1000
"""More than any cluster has; so a peer cannot fill the memory."""

logger = logging.getLogger("leveret.cluster")


class KnownPort(msgspec.Struct, frozen=True):
    """The port of a node.

    incarnation: the start of the node in which it had this port; 0 if an operator or discovery
    named it.
    """

    node: str
    port: int
    incarnation: int

    @property
    def is_sound(self) -> bool:
        """Whether it is a valid address."""
        return is_node_name(self.node) and 0 < self.port <= PORT_MAX and self.incarnation >= 0


class AddressBook:
    """The known ports. directory: None keeps them in memory only."""

    def __init__(self, directory: Path | None) -> None:
        self._path = directory / ADDRESSES_FILE if directory is not None else None
        self._known: dict[str, KnownPort] = {}
        if self._path is not None:
            self._known = _read(self._path)

    def __iter__(self) -> Iterator[KnownPort]:
        return iter(tuple(self._known.values()))

    def port_of(self, node: str) -> int:
        """The port of a node if it is known; else the default port."""
        known = self._known.get(node)
        return known.port if known else DEFAULT_PORT

    def tell(self, node: str, port: int) -> None:
        """Take an address from an operator or a discovery backend."""
        known = self._known.get(node)
        self._put(KnownPort(node, port, known.incarnation if known else 0))

    def learn(self, entry: KnownPort) -> None:
        """Take the entry that a linked node sends about itself."""
        self._put(entry)

    def hear(self, entries: Iterable[KnownPort], own_node: str) -> bool:
        """Take a node's entries about other nodes; older ones and those about this node are
        ignored.

        Returns whether there were newer ones.
        """
        has_news = False
        for entry in entries:
            known = self._known.get(entry.node)
            is_newer = known is None or entry.incarnation > known.incarnation
            if entry.is_sound and entry.node != own_node and is_newer:
                has_news |= self._put(entry)
        return has_news

    def forget(self, node: str) -> None:
        """Drop the entry of a node that need not be reached."""
        if self._known.pop(node, None) is not None:
            self._write()

    def _put(self, entry: KnownPort) -> bool:
        before = self._known.get(entry.node)
        if before == entry or (before is None and len(self._known) >= ENTRIES_MAX):
            return False
        self._known[entry.node] = entry
        self._write()
        return True

    def _write(self) -> None:
        if self._path is None:
            return
        temporary = self._path.with_suffix(".json.new")
        try:
            temporary.write_bytes(msgspec.json.encode(list(self._known.values())))
            os.replace(temporary, self._path)
        except OSError as error:
            logger.error(
                "failed to write the addresses of other nodes to %s: %s; after a restart this "
                "node may not find nodes whose port has changed",
                self._path, error.strerror,
            )  # fmt: skip


def _read(path: Path) -> dict[str, KnownPort]:
    try:
        entries = msgspec.json.decode(path.read_bytes(), type=list[KnownPort])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        logger.error("failed to read the addresses of other nodes from %s: %s", path, error)
        return {}
    return {entry.node: entry for entry in entries if entry.is_sound}
