"""Nodes of a cluster in one process, without sockets: registries, virtual hosts and queues.

Links keep what is sent until the test has it arrive: `Nodes.settle` lets everything happen until
nothing is under way, frame by frame. Declarations are applied on all nodes when they are submitted,
or on some of them when the test says so (`Nodes.late`).
"""

from collections import deque
from types import SimpleNamespace

from leveret.broker.config.cluster_settings import ClusterSettings
from leveret.broker.declarations.requester import THE_NODE
from leveret.broker.declarations.values import DeleteQueue, PutQueue
from leveret.broker.policies.policy_table import PolicyTable
from leveret.broker.queues.contract.placement import Placement
from leveret.broker.resources.alarms import Alarms
from leveret.broker.resources.flow import FlowControl
from leveret.broker.runtime.loop_watch import LoopWatch
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.shared_features import SharedFeatures
from leveret.broker.runtime.turns import Turns
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.cluster.remote_queues.placed_factory import serve_placed
from leveret.cluster.remote_queues.remote_queues import RemoteQueues
from tests.declaring import Declared


class LoopByHand:
    """An event loop whose turns the test takes. timers: what was to be called later."""

    def __init__(self):
        self.soon = deque()
        self.timers = []

    def call_soon(self, callback, *arguments):
        self.soon.append((callback, arguments))

    def call_later(self, _delay_s, callback):
        self.timers.append(callback)
        return SimpleNamespace(cancel=lambda: self.timers.remove(callback))

    def run(self):
        """Call everything that waits; whether there was anything."""
        was_busy = bool(self.soon)
        while self.soon:
            callback, arguments = self.soon.popleft()
            callback(*arguments)
        return was_busy


class LinkEnd:
    """A `Peer`. sent: the frames that have not arrived yet. log: all frames that were ever sent.

    services: of the frames in `sent`. dropped: why it was.
    """

    def __init__(self, name, incarnation=1):
        self.name = name
        self.incarnation = incarnation
        self.version = 1
        self.features = frozenset()
        self.is_congested = False
        self.is_up = True
        self.dropped = None
        self.sent = deque()
        self.services = deque()
        self.log = []

    def send(self, service, *pieces):
        if self.is_up:
            self.services.append(service)
            self.sent.append(b"".join(pieces))
            self.log.append(self.sent[-1])

    def drop(self, reason):
        self.dropped = reason


class LinkServices:
    """The services that are registered with the links of a node, by their numbers."""

    def __init__(self):
        self.services = {}

    def register(self, number, service):
        self.services[number] = service

    def tell(self, event, *arguments):
        """Tell all services of a link that comes up or goes down."""
        for service in self.services.values():
            getattr(service, event)(*arguments)


class LinkedNode:
    """One node. vhost: its only one. queues: the service of remote queues."""

    def __init__(self, name, incarnation=1):
        self.name = name
        self.incarnation = incarnation
        self.loop = LoopByHand()
        self.clock = VirtualClock()
        self.turns = Turns(self.loop, LoopWatch(self.loop.call_later), self.clock.now_ms)
        self.declared = Declared(turns=self.turns, clock=self.clock)
        self.registry = self.declared.registry
        self.flow = FlowControl(Alarms())
        self.services = SimpleNamespace(
            turns=self.turns, clock=self.clock, flow=self.flow, vhosts=self.registry.vhosts,
            policies=PolicyTable(), shared_features=SharedFeatures(),
        )  # fmt: skip
        self.links = LinkServices()
        self.queues = RemoteQueues(name, self.services, self.links, ClusterSettings())
        self.vhost = self.declared.vhost()
        serve_placed(self.vhost.kinds, self.queues)

    def queue(self, name="q"):
        """The queue as this node has it: itself, or its client."""
        return self.vhost.queues[name]


class Nodes:
    """Nodes that are linked with each other. late: those that apply declarations by `catch_up`.

    ends: the links, by the names of the sending and of the receiving node. arrived: how many frames
    have arrived. before_frame: by that number, what the test does before the next one arrives.
    """

    def __init__(self, *names):
        self.by_name = {name: LinkedNode(name) for name in names or ("a@host", "b@host")}
        self.ends = {}
        self.late = {}
        self.arrived = 0
        self.before_frame = {}
        self._identity = 0
        self._declarations = []
        for node in self.by_name.values():
            node.vhost._submit = self.submit
        for one in self.by_name:
            for other in self.by_name:
                if one < other:
                    self.link(one, other)

    def __iter__(self):
        return iter(self.by_name.values())

    def link(self, one, other):
        """A link comes up between two nodes."""
        for name, peer in ((one, other), (other, one)):
            end = self.ends[name, peer] = LinkEnd(peer, self.by_name[peer].incarnation)
            self.by_name[name].links.tell("peer_up", end)

    def unlink(self, one, other):
        """The link between two nodes goes down; what was on its way is lost."""
        for name, peer in ((one, other), (other, one)):
            end = self.ends.pop((name, peer))
            end.is_up = False
            end.sent.clear()
            end.services.clear()
            self.by_name[name].links.tell("peer_down", end, "the test has cut it")

    def restart(self, name):
        """A node starts again, with what is declared but without messages; so do its links."""
        peers = [peer for one, peer in self.ends if one == name]
        for peer in peers:
            self.unlink(name, peer)
        node = self.by_name[name] = LinkedNode(name)
        node.vhost._submit = self.submit
        self.late.pop(name, None)
        self._apply(node, self._declarations)
        for peer in peers:
            self.link(*sorted((name, peer)))

    # Declarations

    def declare(self, home, name="q", **arguments):
        """Declare a queue that lives on a node; its identity."""
        self._identity += 1
        self.submit(PutQueue("/", name, node=home, identity=self._identity, **arguments))
        return Placement(home, self._identity)

    def submit(self, *declarations, answer=None, nowait=False, requester=THE_NODE):
        """Apply declarations on all nodes that are not late."""
        answer = answer or Answer()
        self._declarations += declarations
        cancelled = []
        for name, node in self.by_name.items():
            if name in self.late:
                self.late[name] += declarations
            else:
                cancelled += self._apply(node, declarations)
        answer.give(None)
        for consumer in cancelled:
            consumer.tell_cancelled()
        return answer

    @staticmethod
    def _apply(node, declarations):
        """Apply declarations on a node; returns the consumers that have to be told."""
        for declaration in declarations:
            node.registry.apply(declaration)
        return node.registry.take_cancelled()

    def delete(self, name="q"):
        """Delete a queue without asking it."""
        self.submit(DeleteQueue("/", name))

    def catch_up(self, name):
        """A node applies what it has not applied yet."""
        for consumer in self._apply(self.by_name[name], self.late.pop(name)):
            consumer.tell_cancelled()

    # What happens

    def step(self):
        """Let one frame of each link arrive, and turns pass; whether anything happened."""
        happened = False
        for node in self:
            happened |= node.loop.run()
        for (name, peer), end in tuple(self.ends.items()):
            if end.sent and end.is_up:
                happened = True
                self.before_frame.pop(self.arrived, lambda: None)()
            if end.sent and end.is_up:
                self.arrived += 1
                service = self.by_name[peer].links.services[end.services.popleft()]
                service.received(self.ends[peer, name], end.sent.popleft())
        return happened

    def settle(self):
        """Let everything happen."""
        while self.step():
            pass
