"""The declared members of this node's cluster, and the actions that each change of them causes.

Membership is declared like everything else (metadata/member_records.py). A node dials all members,
closes links to nodes that have left, and numbers its messages by its place among the members. A
node that has never been a member keeps its link: it may be about to ask to join.
"""

from collections.abc import Iterable, Mapping
from functools import partial

from leveret.broker.services.services import Services
from leveret.cluster.links.links import Links
from leveret.cluster.metadata.member_records import members_of

FORGET_MS = 5_000


class DeclaredMembers:
    """The members according to the declarations of one node."""

    def __init__(self, services: Services, links: Links) -> None:
        self._services = services
        self._links = links
        self._linked: frozenset[str] = frozenset()

    @property
    def declared(self) -> dict[str, bool]:
        """The nodes of the cluster, and whether each is a disc node; none without a cluster."""
        return members_of(self._services.parameters)

    @property
    def all(self) -> Mapping[str, bool]:
        """The nodes of the cluster, and whether each is a disc node; at least this one."""
        return self.declared or {self._links.node: True}

    def link(self, names: Iterable[str]) -> None:
        """Link these nodes as soon as they can be reached."""
        self._linked = frozenset(names)
        for name in self._linked:
            if name != self._links.node:
                self._links.dial(name)

    def number_messages(self, members: Iterable[str]) -> None:
        """Number messages differently from all other members."""
        names = sorted(members)
        if self._links.node in names:
            self._services.message_numbers.place = names.index(self._links.node)

    def changed(self) -> None:
        """Act on a declared change of the members."""
        members = self.declared
        self.number_messages(members)
        left = self._linked.difference(members)
        self.link(members)
        if left:
            # Later: a node that leaves waits for the answer to its request.
            self._services.clock.call_later_ms(FORGET_MS, partial(self._forget, left))

    def _forget(self, names: frozenset[str]) -> None:
        """End the links with nodes that have left, unless they are members again."""
        for name in names:
            if name not in self.all:
                self._links.forget(name, f"node {name} is not a member of the cluster")
