"""Nodes of a cluster in one process that mirror a queue. The test applies the records."""

from leveret.broker.queues.contract.placement import Placement
from leveret.cluster.gm.group import Added, Died, Member
from leveret.cluster.mirrors import mirror_record as records
from leveret.cluster.mirrors.planning import NOT_MIRRORED
from leveret.cluster.mirrors.record_changes import encode
from leveret.cluster.mirrors.replica_host import ReplicaHost
from leveret.cluster.mirrors.replicas import Replicas
from leveret.cluster.rpc.refused import Refused
from tests.linked_nodes import Nodes

RING = 99


class MirroredNodes(Nodes):
    """Nodes with a queue `q`, which the first node leads and the requested nodes mirror.

    A record is changed when a replica submits a change, or when the test does, and applied on all
    nodes but those in `lagging`, by name, with the changes they have not applied. record: the
    newest. mirroring: what the policies ask for.
    """

    def __init__(self, *names):
        super().__init__(*names)
        self.record = None
        self.mirroring = NOT_MIRRORED
        self.lagging = {}
        self.stable = []
        for node in self:
            self._add_replicas(node)

    def _add_replicas(self, node):
        host = ReplicaHost(
            node.name, node.incarnation, node.services, node.queues, self.stable.append,
            lambda vhost, queue: self.mirroring,
            is_apart=lambda peer: self.is_apart(node.name, peer.name),
        )  # fmt: skip
        node.replicas = Replicas(
            host, node.links, lambda replica, change: self.submitted(node.name, change),
            lambda replica, mirror: self.synchronised(replica, mirror),  # noqa: PLW0108 - replaceable
            lambda queue: [],
        )  # fmt: skip
        node.replicas.view_changed(is_in_view=True)
        for (name, _), end in self.ends.items():
            if name == node.name:
                node.replicas.peer_up(end)

    def mirror(self, *others, **arguments):
        """Declare the queue on the first node, and mirror it to others."""
        leader = next(iter(self.by_name))
        self.home = self.declare(leader, **arguments)
        self.apply(records.first("q", RING, self.member(leader)))
        for name in others:
            self.join(name)

    def member(self, name):
        """The next member of a node."""
        newest = [] if self.record is None else self.record.group.newest
        number = max([one.number for one in newest if one.node == name], default=0) + 1
        return Member(name, self.by_name[name].incarnation, number)

    def join(self, name):
        """A node gets a mirror."""
        self.change(Added(self.member(name), self.record.leader))
        self.settle()

    def is_apart(self, name, peer):
        """Whether two linked nodes are on different sides of a partition."""
        return False

    def submitted(self, name, change):
        """A node submits a change of the ring."""
        self.change(change)

    def change(self, change):
        """A change of the ring: made, unless it is refused."""
        changed = changed_record(self.record, change)
        if changed is not None:
            self.apply(changed)

    def set_policy(self, mirroring):
        """Other policies are in force."""
        self.mirroring = mirroring
        for node in self:
            node.replicas.policies_changed("/", node.queue())
        self.settle()

    def progress(self, leader, mirror):
        """How far the synchronising of a mirror is."""
        progress = self.replica(leader).leading.synchronising.progress
        return progress[self.record.on(mirror).id]

    def synchronise(self, name):
        """A node brings the mirrors what they lack, if it leads."""
        leading = self.replica(name).leading
        if leading is not None:
            leading.synchronising.start()

    def hand_over(self, name):
        """The leader hands over to the mirror of a node, if that is synchronised."""
        one = self.record.on(name)
        if one is not None and one.is_synchronised and self.record.leader is not None:
            self.apply(records.promoted(self.record, one.id))

    def synchronised(self, replica, mirror):
        """A leader says that a mirror has all messages."""
        self.apply(records.synchronised(self.record, mirror, replica.member))

    def apply(self, record):
        """All nodes that are not late apply a record."""
        self.record = record
        for node in self:
            if node.name in self.lagging:
                self.lagging[node.name].append(record)
            else:
                node.loop.call_soon(self._apply_on, node, record)

    def catch_up_records(self, name):
        """A node that was in `lagging` applies what the others have applied."""
        for record in self.lagging.pop(name):
            self._apply_on(self.by_name[name], record)
        self.settle()

    @staticmethod
    def _apply_on(node, record):
        """As `VirtualHost.set_placement`."""
        queue = node.queue()
        queue.placement = Placement(record.home, queue.placement.identity, encode(record))
        node.replicas.record_changed("/", queue, record, 0)

    def kill(self, name):
        """A node is gone: its links go down, and the pauses of the others pass."""
        self.by_name.pop(name)
        for one, other in [link for link in self.ends if name in link]:
            end = self.ends.pop((one, other))
            end.is_up = False
            if other == name:
                self.by_name[one].links.tell("peer_down", end, "the node is gone")
        self.settle()
        for node in self:
            node.clock.advance(100)
        self.settle()

    def make_stable(self):
        """What is applied is applied everywhere, on disk."""
        listeners, self.stable[:] = list(self.stable), []
        for listener in listeners:
            listener()
        self.settle()

    def replica(self, name):
        return self.by_name[name].replicas.by_identity[RING]

    def queue(self, name):
        """The queue as a node has it."""
        return self.by_name[name].queue()

    def frames_of(self, program):
        """How many frames arrive while a program runs, which gets the nodes."""
        before = self.arrived
        program(self)
        self.settle()
        return self.arrived - before

    def bodies(self, name):
        """The messages of a node's member, in order."""
        return [entry.message.body for entry in self.entries(name)]

    def entries(self, name):
        """The ready entries of a node's member, in order."""
        replica = self.replica(name)
        queue = replica.leading.backing if replica.leading else replica.mirror.queue
        cursor = queue.cursor()
        found = []
        while entries := cursor.read(1 << 20):
            found += entries
        return found


def changed_record(record, change):
    """A record after a change of its ring; None if it is refused."""
    try:
        if isinstance(change, Added):
            return records.joined(record, change)
        if isinstance(change, Died):
            return records.died(record, change, may_lead_unsynchronised=True)
        return records.ring_changed(record, change)
    except Refused:
        return None


def three_nodes(kind=MirroredNodes):
    """Three nodes with a queue that a leads; b is the older mirror, c the younger one."""
    nodes = kind("a@host", "b@host", "c@host")
    nodes.mirror("b@host", "c@host")
    nodes.settle()
    return nodes
