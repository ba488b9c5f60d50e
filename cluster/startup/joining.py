"""Changes a node's membership while its broker is stopped: `join_cluster`, `reset` and the like.

The node asks a running member over temporary links. A node that joins loses its own store, since it
gets everything from the other members; only the members' names are written to a new store, where
the next start finds them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from leveret.broker.config import Config
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.node_address import NodeAddress
from leveret.cluster.links.configured_links import make_links
from leveret.cluster.links.links import Links
from leveret.cluster.membership.membership_changes import (
    ClusterError,
    ask_for_members,
    ask_to_change_type,
    ask_to_join,
    ask_to_leave,
)
from leveret.cluster.rpc.rpc import Rpc
from leveret.cluster.startup.membership_files import MembershipFiles

LINK_SECONDS_MAX = 15.0
POLL_SECONDS = 0.05


class StoppedNode:
    """A node whose broker is stopped while this object is in use.

    metadata_file: its declarations. remove_store: removes all definitions and messages.
    """

    def __init__(
        self,
        config: Config,
        data_dir: Path,
        clock: Clock,
        metadata_file: Path,
        remove_store: Callable[[], object],
    ) -> None:
        self._config = config
        self._data_dir = data_dir
        self._clock = clock
        self._remove_store = remove_store
        self._files = MembershipFiles(data_dir, metadata_file, config.node_name)

    async def join(self, member: NodeAddress, is_disc: bool) -> None:
        """Make this node a member of another node's cluster, from its next start on.

        Raises ClusterError, SettingError and OSError; then nothing was removed.
        """
        if member.name == self._config.node_name:
            raise ClusterError("cannot cluster node with itself")
        others = self._other_members()
        if others:
            raise ClusterError(
                f"the node is clustered already, with {', '.join(others)}: reset it first"
            )
        async with self._linked_rpc((member,)) as rpc:
            membership = await ask_to_join(rpc, member.name, is_disc)
        self._remove_store()
        self._files.write(membership)

    async def leave(self) -> None:
        """Have this node removed from its cluster, if it is in one. Raises ClusterError."""
        others = self._other_members()
        if not others:
            return
        async with self._linked_rpc(others) as rpc:
            await ask_to_leave(rpc, rpc.nodes[0])

    async def change_type(self, is_disc: bool) -> None:
        """Make this node a disc node or a RAM node of its cluster. Raises ClusterError."""
        others = self._other_members()
        if not others:
            raise ClusterError("the node is not in a cluster: it has to be a disc node")
        async with self._linked_rpc(others) as rpc:
            membership = await ask_to_change_type(rpc, rpc.nodes[0], is_disc)
        self._files.write(membership)

    async def update_members(self, member: NodeAddress) -> None:
        """Take over the list of members from a running member, for the next start.

        The cluster may have changed while this node was stopped, so that it includes none of the
        nodes that this one knows. Raises ClusterError.
        """
        if member.name == self._config.node_name:
            raise ClusterError(f"cannot cluster node with itself: {member.name}")
        if not self._other_members():
            raise ClusterError(
                "the node is not in a cluster: use join_cluster to make it a member of one"
            )
        async with self._linked_rpc((member,)) as rpc:
            self._files.write(await ask_for_members(rpc, member.name, self._config.node_name))
        self._files.follow(member.name)

    def force_boot(self) -> None:
        """Have the next start wait for no other node. Raises OSError and ValueError."""
        self._files.force_boot()

    def _other_members(self) -> list[str]:
        return [name for name in self._files.members() if name != self._config.node_name]

    @asynccontextmanager
    async def _linked_rpc(self, nodes: Iterable[NodeAddress | str]) -> AsyncIterator[Rpc]:
        """Links to these nodes, at least one of which is up. Raises ClusterError."""
        links = make_links(self._config, self._data_dir, self._clock)
        if links is None:
            raise ClusterError("the node has no links to other nodes: cluster.port is 0")
        rpc = Rpc(links)
        await links.start()
        try:
            for node in nodes:
                links.dial(node)
            async with asyncio.timeout(LINK_SECONDS_MAX):
                while not rpc.nodes:
                    await asyncio.sleep(POLL_SECONDS)
            yield rpc
        except TimeoutError:
            raise ClusterError("; ".join(_problem(links, node) for node in nodes)) from None
        finally:
            await links.stop()


def _problem(links: Links, node: NodeAddress | str) -> str:
    """Why there is no link to a node."""
    name = node if isinstance(node, str) else node.name
    return f"no link with {links.problem_with(name) or f'{node}: it did not answer in time'}"
