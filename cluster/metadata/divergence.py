"""Partitions found after contact has returned: running views whose logs have diverged.

A coordinator that meets the coordinator of another running view compares the two views. If neither
is behind the other (next_view.py), each log has entries that the other lacks, and no merged order
would agree with the answers that clients got: the cluster is partitioned. Each side sees only its
half of the comparison and sends it to the other. A coordinator that finds that the other view is
not behind, and learns the same of its own, reports the partition to its view. The rules in
partitions/ decide what happens then.
"""

from leveret.cluster.metadata.messages import (
    RUNNING,
    Diverged,
    Partitioned,
    View,
    ViewId,
)
from leveret.cluster.metadata.next_view import Peers, is_behind
from leveret.cluster.metadata.ordered_log import OrderedLog
from leveret.cluster.metadata.outbox import Outbox
from leveret.cluster.metadata.outputs import PartitionedFrom


class Divergence:
    """The partitions known to one node. names: the running nodes of the other sides."""

    def __init__(self, out: Outbox) -> None:
        self._out = out
        self._heard: dict[str, Diverged] = {}
        self._said: dict[str, tuple[ViewId, ViewId]] = {}
        self.names: tuple[str, ...] = ()

    def begin(self, view: View) -> None:
        """Count the members of an installed view as on this side."""
        for name in view.names:
            self.forget(name)
        self._report(tuple(name for name in self.names if name not in view.names))

    def forget(self, name: str) -> None:
        """Forget a node: its link is down, or it is on this side."""
        self._heard.pop(name, None)
        self._said.pop(name, None)

    def heard(self, name: str, diverged: Diverged) -> None:
        """Note that a coordinator found this node's view not to be behind its own."""
        self._heard[name] = diverged

    def told(self, names: tuple[str, ...]) -> None:
        """Note the partitions that the coordinator of this node's view reports."""
        self._report(names)

    def compare(self, view: View, log: OrderedLog, peers: Peers) -> None:
        """Compare this coordinator's view with the views of the other linked nodes."""
        others: set[str] = set()
        for name, linked in peers.items():
            status = linked.status
            if (
                status is None
                or status.phase != RUNNING
                or status.view.coordinator != name
                or status.member in view.members
                or is_behind(status, log, peers)
            ):
                continue
            both = (view.id, status.view)
            if self._said.get(name) != both:
                self._said[name] = both
                self._out.send(name, Diverged(*both, log.position))
            heard = self._heard.get(name)
            if heard is not None and (heard.other, heard.own) == both:
                others.update(member.name for member in status.members)
        names = tuple(sorted(others))
        if names != self.names:
            for member in view.names[1:]:
                if member in peers:
                    self._out.send(member, Partitioned(view.id, names))
            self._report(names)

    def _report(self, names: tuple[str, ...]) -> None:
        if names != self.names:
            self.names = names
            self._out.add(PartitionedFrom(names))
