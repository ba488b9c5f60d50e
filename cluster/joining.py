"""Changes a node's membership while its broker is stopped: `join_cluster`, `reset` and the like.

The node asks a running member, over links that it makes for that. A node that joins loses its own
store, since it gets everything from the others; only the names of the members are written to a new
one, where the start that follows finds them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, closing
from pathlib import Path

from leveret.broker.clock import Clock
from leveret.broker.config import Config
from leveret.broker.node_address import NodeAddress
from leveret.broker.registry import rows
from leveret.cluster.links.configured_links import make_links
from leveret.cluster.links.links import Links
from leveret.cluster.membership_changes import (
    ClusterError,
    Membership,
    ask_to_change_type,
    ask_to_join,
    ask_to_leave,
)
from leveret.cluster.metadata.member_records import CLUSTER_NODE, put_cluster_id, put_member
from leveret.cluster.questions import Questions
from leveret.storage.metadata import SqliteMetadata

LINK_SECONDS_MAX = 15.0
POLL_SECONDS = 0.05

FORCE_BOOT_FILE = "cluster.force_boot"
"""A node that finds it starts without waiting for others, once."""


class StoppedNode:
    """A node whose broker is stopped. metadata_file: its declarations."""

    def __init__(self, config: Config, data_dir: Path, clock: Clock, metadata_file: Path) -> None:
        self._config = config
        self._data_dir = data_dir
        self._clock = clock
        self._metadata_file = metadata_file

    async def join(
        self, member: NodeAddress, is_disc: bool, remove_store: Callable[[], object]
    ) -> None:
        """Make this node a member of another node's cluster, from its next start on.

        remove_store: removes all definitions and messages. Raises ClusterError, SettingError and
        OSError; then nothing was removed.
        """
        if member.name == self._config.node_name:
            raise ClusterError("cannot cluster node with itself")
        others = self._other_members()
        if others:
            raise ClusterError(
                f"the node is clustered already, with {', '.join(others)}: reset it first"
            )
        async with self._questions((member,)) as questions:
            membership = await ask_to_join(questions, member.name, is_disc)
        remove_store()
        self._write(membership)

    async def leave(self) -> None:
        """Have this node removed from its cluster, if it is in one. Raises ClusterError."""
        others = self._other_members()
        if not others:
            return
        async with self._questions(others) as questions:
            await ask_to_leave(questions, questions.nodes[0])

    async def change_type(self, is_disc: bool) -> None:
        """Make this node a disc node or a RAM node of its cluster. Raises ClusterError."""
        others = self._other_members()
        if not others:
            raise ClusterError("the node is not in a cluster: it has to be a disc node")
        async with self._questions(others) as questions:
            self._write(await ask_to_change_type(questions, questions.nodes[0], is_disc))

    def force_boot(self) -> None:
        """Have the next start wait for no other node. Raises OSError."""
        (self._data_dir / FORCE_BOOT_FILE).touch()

    def _other_members(self) -> list[str]:
        if not self._metadata_file.exists():
            return []
        with closing(SqliteMetadata(self._metadata_file)) as metadata:
            rows_found = metadata.load().parameters
        names = (row.name for row in rows_found if row.component == CLUSTER_NODE)
        return [name for name in names if name != self._config.node_name]

    def _write(self, membership: Membership) -> None:
        with closing(SqliteMetadata(self._metadata_file)) as metadata:
            with metadata.batch():
                rows.write(put_cluster_id(membership.cluster_id), metadata)
                for name, is_disc in membership.members.items():
                    rows.write(put_member(name, is_disc), metadata)
            metadata.sync()

    @asynccontextmanager
    async def _questions(self, nodes: Iterable[NodeAddress | str]) -> AsyncIterator[Questions]:
        """Links to these nodes, at least one of which is up. Raises ClusterError."""
        links = make_links(self._config, self._data_dir, self._clock)
        if links is None:
            raise ClusterError("the node has no links to other nodes: cluster.port is 0")
        questions = Questions(links)
        await links.start()
        try:
            for node in nodes:
                links.dial(node)
            async with asyncio.timeout(LINK_SECONDS_MAX):
                while not questions.nodes:
                    await asyncio.sleep(POLL_SECONDS)
            yield questions
        except TimeoutError:
            raise ClusterError("; ".join(_problem(links, node) for node in nodes)) from None
        finally:
            await links.stop()


def _problem(links: Links, node: NodeAddress | str) -> str:
    """Why there is no link to a node."""
    name = node if isinstance(node, str) else node.name
    return f"no link with {links.problem_with(name) or f'{node}: it did not answer in time'}"
