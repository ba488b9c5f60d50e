"""Joins a node to a cluster while its broker is stopped: `leveretctl join_cluster`.

The node asks a running member to declare it as a member, over links that it makes for that. Then
its own store is removed, since it gets everything from the others, and only the names of the
members are written to a new one: the start that follows finds them there.
"""

from collections.abc import Callable
from pathlib import Path

from leveret.broker.clock import Clock
from leveret.broker.config import Config
from leveret.broker.registry.rows import write
from leveret.cluster.cluster_node import ClusterError, ask_to_join
from leveret.cluster.links.configured_links import make_links
from leveret.cluster.links.node_names import NodeAddress
from leveret.cluster.metadata.member_records import put_cluster_id, put_member
from leveret.cluster.questions import Questions
from leveret.storage.metadata import SqliteMetadata


async def join_cluster(
    config: Config,
    data_dir: Path,
    clock: Clock,
    seed: NodeAddress,
    is_disc: bool,
    remove_store: Callable[[], object],
    metadata_file: Path,
) -> None:
    """Make this node a member of another node's cluster, from its next start on.

    remove_store: removes all definitions and messages. Raises ClusterError, SettingError and
    OSError; then nothing was removed.
    """
    if seed.node == config.node_name:
        raise ClusterError("cannot cluster node with itself")
    links = make_links(config, data_dir, clock)
    if links is None:
        raise ClusterError("this node has no links to other nodes: cluster.port is 0")
    questions = Questions(links)
    await links.start()
    try:
        membership = await ask_to_join(links, questions, seed, config.node_name, is_disc)
    finally:
        await links.stop()
    remove_store()
    metadata = SqliteMetadata(metadata_file)
    try:
        with metadata.batch():
            write(put_cluster_id(membership.cluster_id), metadata)
            for name, disc in membership.members.items():
                write(put_member(name, disc), metadata)
        metadata.sync()
    finally:
        metadata.close()
