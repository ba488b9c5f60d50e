"""The cluster's members in the files of a stopped node, and changes of them.

The members are rows of the metadata store, like all declarations. They are read and written here
while no broker uses the store.
"""

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from leveret.broker.policies.parameters import NO_VHOST
from leveret.broker.registry import stored
from leveret.broker.registry.stored import CLUSTER_VIEW
from leveret.cluster.links.addresses import AddressBook
from leveret.cluster.membership import members
from leveret.cluster.membership.members import MembershipRefused
from leveret.cluster.membership.membership_changes import ClusterError, ClusterMembership
from leveret.cluster.metadata.history import LastView, row_of, value_of
from leveret.cluster.metadata.member_records import CLUSTER_NODE, put_cluster_id, put_member
from leveret.cluster.startup import next_start
from leveret.cluster.startup.renaming import changed_rows, old_name
from leveret.storage.metadata.metadata import SqliteMetadata


class MembershipFiles:
    """The files of one node. metadata_file: its declarations. name: the node's own."""

    def __init__(self, data_dir: Path, metadata_file: Path, name: str) -> None:
        self._data_dir = data_dir
        self._metadata_file = metadata_file
        self._name = name

    def members(self) -> dict[str, bool]:
        """The names of the cluster's nodes, and whether each is a disc node; none without one.

        Raises MetadataError.
        """
        if not self._metadata_file.exists():
            return {}
        with closing(SqliteMetadata(self._metadata_file)) as metadata:
            parameters = metadata.load().parameters
        return {
            row.name: bool(json.loads(row.value).get("disc", True))
            for row in parameters
            if row.component == CLUSTER_NODE
        }

    def write(self, membership: ClusterMembership) -> None:
        """Replace the members. Raises MetadataError."""
        gone = self.members().keys() - membership.members.keys()
        with closing(SqliteMetadata(self._metadata_file)) as metadata:
            with metadata.batch():
                stored.write(put_cluster_id(membership.cluster_id), metadata)
                for name, is_disc in membership.members.items():
                    stored.write(put_member(name, is_disc), metadata)
                for name in gone:
                    metadata.delete_parameter(NO_VHOST, CLUSTER_NODE, name)
            metadata.sync()

    def follow(self, member: str) -> None:
        """If this node has to take everything from nodes none of which is a member now, have it
        take everything from this member instead. Raises MetadataError and ValueError.
        """
        present = self.members()
        with closing(SqliteMetadata(self._metadata_file)) as metadata:
            for row in metadata.load().parameters:
                if row.component != CLUSTER_VIEW:
                    continue
                last = value_of(row, LastView)
                if last.takes_from and present.keys().isdisjoint(last.takes_from):
                    changed = replace(last, takes_from=(member,))
                    metadata.put_parameter(row_of(row.component, row.name, changed))
            metadata.sync()

    def rename(self, names: Mapping[str, str]) -> None:
        """Give members new names. The node's own name is already the new one.

        Raises ClusterError, MetadataError, OSError and ValueError.
        """
        said = next_start.read(self._data_dir)
        present = self.members()
        if not present:
            raise ClusterError(
                "the node is not in a cluster: its name is only the one that it is started with"
            )
        try:
            was = old_name(present, names, self._name)
            self._rename_rows(names)
        except MembershipRefused as error:
            raise ClusterError(str(error)) from None
        book = AddressBook(self._data_dir)
        for old, new in names.items():
            book.tell(new, book.port_of(old))
            book.forget(old)
        if was != self._name:
            next_start.write(self._data_dir, replace(said, was=said.was or was))

    def _rename_rows(self, names: Mapping[str, str]) -> None:
        with closing(SqliteMetadata(self._metadata_file)) as metadata:
            changes = list(changed_rows(metadata.load(), names))
            with metadata.batch():
                for before, _ in changes:
                    metadata.delete_parameter(before.vhost, before.component, before.name)
                for _, after in changes:
                    metadata.put_parameter(after)
            metadata.sync()

    def force_boot(self) -> None:
        """Have the next start wait for no other node. Raises OSError and ValueError."""
        said = next_start.read(self._data_dir)
        next_start.write(self._data_dir, replace(said, is_forced=True))

    def forget(self, node: str) -> None:
        """Have the next start wait for no other node, and remove one that is lost.

        Raises ClusterError, MetadataError, OSError and ValueError.
        """
        said = next_start.read(self._data_dir)
        left = {
            name: is_disc for name, is_disc in self.members().items() if name not in said.forgets
        }
        if self._name not in left:
            raise ClusterError(
                f"node {self._name} is not a member of the cluster in {self._data_dir}: name the"
                " node that the directory belongs to with --node"
            )
        if not left[self._name]:
            raise ClusterError(
                f"node {self._name} is a RAM node: give the command to the disc node that was"
                " stopped last"
            )
        try:
            members.forget(left, node, asked=self._name, running=frozenset())
        except MembershipRefused as error:
            raise ClusterError(str(error)) from None
        next_start.write(
            self._data_dir, replace(said, is_forced=True, forgets=(*said.forgets, node))
        )
