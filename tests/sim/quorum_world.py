"""A simulated quorum queue: Raft members with its state machine, and a client on each node.

To the world of tests/sim/group_world.py, with its disks, links and crashes, it adds what the
service of the queue does: committed entries go to the machine, the leader's effects and the
clients' commands to frames on the same links, snapshots have the machine's state.
"""

from leveret.cluster.quorum.machine.commands import (
    Configure,
    EndDelays,
    Expire,
    LettersDone,
    NodeConnected,
    NodeDisconnected,
    NodeDown,
    Options,
    Tick,
    decode_entry,
    encode_command,
    entry_of,
)
from leveret.cluster.quorum.machine.effects import (
    Applied,
    Deliver,
    Effects,
    PublishDeadLetters,
    Result,
    SenderEnded,
    TimedOut,
    UnknownSender,
)
from leveret.cluster.quorum.machine.quorum_machine import QuorumMachine
from leveret.cluster.quorum.machine.snapshots import restore, snapshot
from leveret.cluster.raft.outputs import DATA
from tests.sim.group_world import Frame, GroupNode, GroupWorld, NodeUse
from tests.sim.properties import require
from tests.sim.quorum_books import Books
from tests.sim.quorum_clients import User


class QuorumNode(GroupNode):
    """A member with the machine of the queue, and the client of the node.

    letters: dead letters that are to be published. ticks_at: when it proposed a tick.
    """

    def __init__(self, name, configuration):
        super().__init__(name, configuration)
        self.disk.snapshot.state, self.disk.snapshot.live = b"", []
        self.begin(None, Options())

    def begin(self, user, options):
        """A life begins, or ends if there is no user."""
        self.begin_to_serve(user)
        self.restored = self.disk.snapshot
        state = self.restored.state
        self.queue = restore(state) if state else QuorumMachine(options)
        self.effects = Effects()
        self.letters, self.ticks_at = [], 0


class QuorumWorld(GroupWorld):
    """All nodes. options: the queue's. expires_on_time: messages expire wherever they are."""

    node_type = QuorumNode

    def __init__(self, names, members, random, options):
        self.options = options
        self.expires_on_time = random.random() < 0.5
        self.books = Books(options)
        self.lives = dict.fromkeys(names, 0)
        self.down = set()
        super().__init__(names, members, random)

    # The machine of a node

    def _start(self, name):
        node = self.nodes[name]
        self.ways |= self.own_ways
        self.lives[name] += 1
        node.begin(self._user(name), self.options)
        super()._start(name)
        node.user.begin()
        self.update(node)

    def _user(self, name, numbers=None):
        """A client of a node."""
        return User(name, self.lives[name], self.senders, self.books, NodeUse(self, name), numbers)

    def _crash(self, name, kept, on_way):
        self.ways[name, name].clear()
        node = self.nodes[name]
        if node.user is not None:
            node.user.use.lose_leader()
        node.begin(None, self.options)
        super()._crash(name, kept, on_way)
        self.down.add((name, self.lives[name]))

    def queue(self, node):
        """The machine of a node, after a snapshot that it was sent."""
        if node.restored is not node.disk.snapshot:
            node.restored = node.disk.snapshot
            if node.applied == node.disk.snapshot.index:
                node.queue = restore(node.disk.snapshot.state)
        return node.queue

    def _apply(self, node, through):
        first = node.applied + 1
        queue = self.queue(node)
        entries = node.disk.entries()
        super()._apply(node, through)
        is_leading = node.machine.leading is not None
        for index in range(first, through + 1):
            _, kind, payload = entries[index]
            if kind != DATA:
                continue
            if index > self.books.machine.applied:
                self.books.apply(index, payload)
            queue.apply(index, payload, node.effects if is_leading else None)
        if through % 4 == 0:
            self.books.reached(through, queue)
        self._serve(node, node.effects.take())

    def _take_snapshot(self, name, kept):
        node = self.nodes[name]
        before = node.disk.snapshot
        state, live = snapshot(self.queue(node)), self.queue(node).live()
        super()._take_snapshot(name, kept)
        if node.disk.snapshot is not before:
            node.disk.snapshot.state, node.disk.snapshot.live = state, live
            node.restored = node.disk.snapshot
            self.books.count("snapshots")

    # The leader

    def propose(self, node, commands):
        """A member proposes commands, if it leads and takes them."""
        entries = [entry_of(command, node.clock) for command in commands]
        if node.serving and not node.machine.propose(entries):
            self.stop_serving(node)
        self.carry_out(node)

    def _propose(self, name, _sizes):
        node, _ = self._running(name)
        self.propose(node, [encode_command(Tick())])

    def carry_out(self, node):
        super().carry_out(node)
        leading = node.machine.leading
        self.serve_if_ready(node, leading is not None and bool(leading.transfer_to))

    def _serve(self, node, effects):
        """Tell clients what the leader's machine has for them."""
        for effect in effects:
            if isinstance(effect, PublishDeadLetters):
                if effect.are_kept:
                    node.letters = [*node.letters, *effect.runs]
                continue
            for name, (session, sender) in node.attached.items():
                if sender == getattr(effect, "sender", 0):
                    self._tell(node, name, session, effect)

    def _tell(self, node, name, session, effect):
        if isinstance(effect, Applied):
            what = ("applied", effect.through)
        elif isinstance(effect, Result):
            what = ("result", effect.number, effect)
        elif isinstance(effect, Deliver):
            runs = [(run, *self._body(node, run.index)) for run in effect.runs]
            what = ("deliver", effect.consumer, runs)
        elif isinstance(effect, TimedOut):
            what = ("timed out", effect.consumer, effect.positions)
        elif isinstance(effect, UnknownSender):
            what = ("unknown",)
        elif isinstance(effect, SenderEnded):
            what = ("ended",)
        else:
            return
        self._send(node.name, name, Frame("told", session, effect.sender, *what))

    def _body(self, node, index):
        """An entry with messages, which the member has to have."""
        snapshot_index = node.disk.snapshot.index
        if index <= snapshot_index:
            live = node.disk.snapshot.live
            is_live = any(live[at] <= index <= live[at + 1] for at in range(0, len(live), 2))
            require(is_live, "QM12: entry", index, "is needed and is not live")
        (_, _, payload), _ = self.history.committed[index]
        return payload, decode_entry(payload).messages_at

    # Frames

    def user_told(self, node, what):
        node.user.told(*what)

    def attach(self, node, sender, item):
        for effect in self.queue(node).attach(item.sender, item.seen, item.received):
            self._tell(node, sender, item.session, effect)

    def update(self, node):
        """The client of a node asks for what was added."""
        if node.machine is not None and not node.is_paused:
            node.user.do_outputs()

    def do(self, action):
        super().do(action)
        for node in self.nodes.values():
            self.update(node)

    def due(self):
        actions = super().due()
        for node in self.leaders():
            queue = self.queue(node)
            times = [queue.wake_at_ms(), queue.expire_at_ms() if self.expires_on_time else 0]
            is_due = any(0 < at <= node.clock for at in times)
            if not node.is_paused and is_due and node.clock > node.ticks_at:
                actions.append(("tick", node.name))
            if node.letters:
                actions.append(("letters done", node.name))
        return actions

    # What users and the leader do

    def _tick(self, name):
        node, _ = self._running(name)
        node.ticks_at = node.clock
        command = Expire() if self.expires_on_time else Tick()
        self.propose(node, [encode_command(command)])

    def _letters_done(self, name):
        node, _ = self._running(name)
        runs, node.letters = node.letters, []
        for run in runs:
            for at in range(run.count):
                text = self.books.text(run, at)
                require(text not in self.books.cancelled, "QD5:", text, "is cancelled")
            self.propose(node, [encode_command(LettersDone([run.position, run.last]))])

    def _end_delays(self, name, positions, is_discarded):
        node, _ = self._running(name)
        self.propose(node, [encode_command(EndDelays(list(positions), is_discarded))])

    def _node(self, name, what, incarnation, leader):
        node, machine = self._running(leader)
        if machine.leading is None:
            return
        if what == "down":
            command = NodeDown(name, incarnation)
        else:
            command = NodeDisconnected(name) if what == "disconnected" else NodeConnected(name)
        self.propose(node, [encode_command(command)])

    def _configure(self, name, options):
        node, _ = self._running(name)
        self.propose(node, [encode_command(Configure(options))])

    def _remake(self, name):
        """The client of a node is made again, and subscribes; the last one does not tell."""
        node = self.nodes[name]
        last = node.user
        last.use.lose_leader()
        node.user = self._user(name, last.numbers)
        node.user.begin()
        node.user.consume(1, 0)
        self.books.count("clients made again")

    def _use(self, name, what, *how):
        user = self.nodes[name].user
        if what in {"publish", "consume"}:
            getattr(user, what)(*how)
        elif what == "purge":
            user.purge()
        else:
            at, *rest = how
            consumer = user.consumers[at]
            if what == "cancel":
                user.cancel(consumer)
            else:
                user.give_up(consumer, what, *rest)
