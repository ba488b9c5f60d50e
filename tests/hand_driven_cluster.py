"""Nodes of a cluster without time and chance: messages are delivered until none is under way.

Disks write at once, unless a test says that they are slow.
"""

from collections import deque

from msgspec import structs

from leveret.cluster.metadata.messages import ViewMember, decode, encode
from leveret.cluster.metadata.ordered_log import OrderedLog
from leveret.cluster.metadata.outputs import (
    Apply,
    CheckSubmission,
    SendInstall,
    SendMessage,
    ViewInstalled,
    WriteCompanions,
    WritePromise,
)
from leveret.cluster.metadata.replication import MetadataReplication, ReplicationLimits

REFUSED_PAYLOAD = b"refuse this"


class Node:
    """One run of a node, with what it was told to do.

    applied: the payloads of its state. companions: as the node wrote them last. done: all other
    outputs, in their order. checks: those that take long, while `is_checking` is set.
    """

    def __init__(self, cluster, name, *, incarnation=1, is_disc=True, limits=None, rule=None):
        self.cluster = cluster
        self.name = name
        self.applied = []
        self.done = []
        self.has_slow_disk = self.is_checking = False
        self.checks = deque()
        self.companions = frozenset()
        self._to_write = 0
        rules = {} if rule is None else {"may_go_on": rule}
        self.machine = MetadataReplication(
            ViewMember(name, incarnation, is_disc),
            OrderedLog(10),
            None,
            frozenset("abcde"),
            limits or ReplicationLimits(fence_ticks=3),
            **rules,
        )

    @property
    def view(self):
        """The names of its view's members."""
        return "".join(self.machine.views.view.names)

    def outputs(self, kind):
        """The outputs of one kind."""
        return [one for one in self.done if isinstance(one, kind)]

    def do(self, outputs):
        """Carry out the outputs of a step."""
        todo = deque(outputs)
        while todo:
            todo.extendleft(reversed(self._do_one(todo.popleft())))

    def _do_one(self, output):
        match output:
            case SendMessage():
                self.cluster.send(self.name, output.to, output.message)
            case SendInstall():
                install = structs.replace(output.install, snapshot=b"|".join(self.applied))
                self.cluster.send(self.name, output.to, install)
            case CheckSubmission() if self.is_checking:
                self.checks.append(output)
            case CheckSubmission():
                return self._checked(output)
            case Apply() | ViewInstalled() | WriteCompanions() | WritePromise():
                self._apply(output)
                self._to_write = output.number
                if not self.has_slow_disk:
                    return self.machine.written(output.number)
                if not self.machine.me.is_disc:
                    return self.machine.written(output.number, is_synced=False)
            case _:
                self.done.append(output)
        return []

    def _checked(self, check):
        is_refused = check.payload == REFUSED_PAYLOAD
        payload = b"a fault" if is_refused else check.payload
        return self.machine.checked(check, payload, is_refused)

    def check(self):
        """What was being checked is checked."""
        self.is_checking = False
        while self.checks:
            self.do(self._checked(self.checks.popleft()))
        self.cluster.deliver()

    def _apply(self, output):
        if isinstance(output, WritePromise):
            return
        if isinstance(output, WriteCompanions):
            self.companions = output.companions
            return
        if isinstance(output, ViewInstalled):
            self.companions = output.companions
            if output.snapshot is not None:
                self.applied = output.snapshot.split(b"|") if output.snapshot else []
            entries = output.entries
        else:
            entries = (output.entry,)
        self.applied += [entry.payload for entry in entries if not entry.is_refused]

    def write(self):
        """A slow disk has written everything."""
        self.do(self.machine.written(self._to_write))
        self.cluster.deliver()

    def submit(self, payload):
        """Submit an operation; what follows from it happens, too."""
        submission, outputs = self.machine.submit(payload)
        self.do(outputs)
        self.cluster.deliver()
        return submission

    def tick(self, times=1):
        """Time passes at this node."""
        for _ in range(times):
            self.do(self.machine.tick())
            self.cluster.deliver()


class Cluster:
    """Some nodes and the links between them; the first one begins, the others join it."""

    def __init__(self, names, **options):
        self.nodes = {}
        self._links = set()
        self._under_way = deque()
        for name in names:
            self.start(name, **options)
            if len(self.nodes) == 1:
                self.nodes[name].do(self.nodes[name].machine.form())
            self.link(name)

    def __getitem__(self, name):
        return self.nodes[name]

    def start(self, name, **options):
        """A run of a node, without links."""
        self.nodes[name] = Node(self, name, **options)
        return self.nodes[name]

    def link(self, name, others=None):
        """Link a node with others, or with all."""
        for other in others or [one for one in self.nodes if one != name]:
            self._links.add(frozenset((name, other)))
            for one, peer in ((name, other), (other, name)):
                machine = self.nodes[one].machine
                self.nodes[one].do(machine.linked(peer, self.nodes[peer].machine.me.incarnation))
        self.deliver()

    def cut(self, name, others=None, *, deaf=()):
        """Cut the links of a node; deaf: nodes that do not hear of it yet."""
        for other in others or [one for one in self.nodes if one != name]:
            self._links.discard(frozenset((name, other)))
            for one, peer in ((name, other), (other, name)):
                if one not in deaf:
                    self.nodes[one].do(self.nodes[one].machine.unlinked(peer))
        self.deliver()

    def crash(self, name):
        """A node is gone."""
        self.cut(name, deaf=(name,))
        del self.nodes[name]

    def send(self, sender, receiver, message):
        """A message is under way."""
        self._under_way.append((sender, receiver, encode(message)))

    def lose(self, kind, receiver):
        """Messages of a kind that are under way to a node are lost."""
        self._under_way = deque(
            one
            for one in self._under_way
            if one[1] != receiver or not isinstance(decode(one[2]), kind)
        )

    def deliver(self):
        """Deliver everything that is under way, and what follows."""
        while self._under_way:
            sender, receiver, payload = self._under_way.popleft()
            if frozenset((sender, receiver)) in self._links and receiver in self.nodes:
                node = self.nodes[receiver]
                node.do(node.machine.received(sender, decode(payload)))
