"""The members of a simulated queue in a Raft group, and the client of each node.

To the world of tests/sim/raft_world.py it adds what the services of groups do: a leader that has
applied its first entry serves clients, and tells the nodes that look for it. A client finds the
leader as on a node (groups/uses.py), whether the node has a member or not.
"""

from collections import deque
from itertools import count

from leveret.cluster.groups.group_frames import AttachClient, Find, Leads, LeadsNoMore
from tests.sim.links import DOWN
from tests.sim.raft_world import GROUP, UP, RaftNode, RaftWorld


class NodeUse:
    """Carries what the client of a node asks for to the links. See `UseHost`."""

    def __init__(self, world, name):
        self._world, self._name = world, name

    @property
    def nodes(self):
        """All nodes: any of them may have a member."""
        return self._world.names

    def send_item(self, node, item):
        self._world._send(self._name, node, Frame("item", item))

    def forget_use(self, use):
        """The client has ended."""


class Frame(bytes):
    """A frame of the queue on a link: `what` is in it."""

    def __new__(cls, *what):
        frame = super().__new__(cls)
        frame.what = what
        return frame


class GroupNode(RaftNode):
    """A member, and the client of the node.

    attached: by node, the session and the sender of its client. serving: the term in which it takes
    clients, or 0. watchers: the nodes that want to know that.
    """

    user = None

    def begin_to_serve(self, user):
        """A life begins, or ends if there is no user."""
        self.user = user
        self.attached, self.serving, self.watchers = {}, 0, {}


class GroupWorld(RaftWorld):
    """All nodes. senders: numbers of clients."""

    def __init__(self, names, members, random):
        self.senders = count(1)
        self.own_ways = {(name, name): deque() for name in names}
        super().__init__(names, members, random)

    # What a queue adds

    def user_told(self, node, what):
        """The leader tells the client of a node."""
        raise NotImplementedError

    def attach(self, node, sender, item):
        """A client begins a session with the leader."""
        raise NotImplementedError

    def propose(self, node, commands):
        """A member proposes the commands of a client."""
        raise NotImplementedError

    # The leader

    def serve_if_ready(self, node, is_refusing):
        """Serve clients, or stop serving them. is_refusing: a leader that takes no commands."""
        state, leading = node.machine.state, node.machine.leading
        if leading is None or node.serving not in (0, state.term):
            self.stop_serving(node)
        if leading is None or is_refusing or node.serving:
            return
        if node.applied >= leading.first_index:
            node.serving = state.term
            self._tell_watchers(node, Leads(GROUP, node.serving))

    def stop_serving(self, node):
        if node.serving:
            self._tell_watchers(node, LeadsNoMore(GROUP, node.serving))
        node.serving, node.attached = 0, {}

    def _tell_watchers(self, node, item):
        for name in node.watchers:
            self._send(node.name, name, Frame("item", item))

    # Frames

    def _send(self, sender, receiver, frame):
        if sender == receiver or frozenset((sender, receiver)) in self.connected:
            self.ways[sender, receiver].append(frame)

    def _arrive(self, sender, receiver):
        item = self.ways[sender, receiver][0]
        node = self.nodes[receiver]
        if isinstance(item, Frame):
            self.ways[sender, receiver].popleft()
            if node.machine is not None:
                self._received(node, sender, *item.what)
            return
        super()._arrive(sender, receiver)
        if node.machine is not None and not isinstance(item, bytes):
            self._link_changed(node, sender, item)

    def _link_changed(self, node, other, what):
        node.attached.pop(other, None)
        if what == DOWN:
            node.watchers.pop(other, None)
            node.user.use.link_down(other)
        elif what == UP:
            node.user.use.find(other)

    def _received(self, node, sender, kind, *what):
        if kind == "told":
            if sender == node.user.use.leader:
                self.user_told(node, what)
            return
        (item,) = what
        if isinstance(item, Find):
            node.watchers[sender] = None
            if node.serving:
                self._send(node.name, sender, Frame("item", Leads(GROUP, node.serving)))
        elif isinstance(item, Leads | LeadsNoMore):
            node.user.use.take(sender, item)
        elif not node.serving:
            return
        elif isinstance(item, AttachClient):
            node.attached[sender] = (item.session, item.sender)
            self.attach(node, sender, item)
        elif node.attached.get(sender, (0, 0))[0] == item.session:
            self.propose(node, item.commands)
