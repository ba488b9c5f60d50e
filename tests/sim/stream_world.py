"""A simulated stream: Raft members whose entries are chunks, their machines, a client on each node.

To the world of tests/sim/group_world.py it adds what is different with streams: chunks and terms
are in two files, of which a crash loses the ends independently; a member keeps all entries until
retention removes the oldest ones, and a member that lacks these begins with the oldest that is left
and a state that is ahead of it. Clients publish, with names and without, and send again.
"""

from leveret.cluster.groups.uses import GroupUse
from leveret.cluster.raft.outputs import DATA, Append, ResetLog, SaveTerm
from leveret.cluster.streams.machine.commands import Join, Publish, encode_command
from leveret.cluster.streams.machine.effects import Applied
from leveret.cluster.streams.machine.stream_machine import restore
from leveret.cluster.streams.stream_machines import StreamGroupMachine, StreamGroupMachines
from leveret.storage.stream_log.chunks import check_chunk, entries_of, read_head
from tests.sim.group_world import Frame, GroupNode, GroupWorld, NodeUse
from tests.sim.properties import require
from tests.sim.raft_world import GROUP, Disk, Snapshot, apply_write

KIND = StreamGroupMachines()
NO_STATE = b""


class StreamDisk(Disk):
    """What is written. term_before, offset_before: of the entries that retention has removed."""

    def __init__(self, configuration):
        super().__init__(configuration)
        self.term_before = self.offset_before = 0
        self.snapshot.state, self.snapshot.offset = NO_STATE, 0

    def crash(self, kept):
        """Some chunks are on disk, and some terms, whatever was written first."""
        terms = [write for write in self.writes if isinstance(write, SaveTerm)]
        chunks = [write for write in self.writes if not isinstance(write, SaveTerm)]
        for write in terms[: (kept * 7) % (len(terms) + 1)]:
            apply_write(write, self._entries, self)
        for write in chunks[:kept]:
            self._apply_chunks(write)
        self.writes.clear()
        self.synced = 0
        self.is_stalled = False

    def sync(self, count):
        for write in self.writes[:count]:
            self._apply_chunks(write)
        del self.writes[:count]
        self.synced += count

    def _apply_chunks(self, write):
        apply_write(write, self._entries, self)
        if isinstance(write, ResetLog):
            self.term_before, self.offset_before = write.term, self.snapshot.offset

    @property
    def term(self):
        """That of the last chunk, if its own write was lost."""
        last = max(self._entries, default=0)
        return max(super().term, self._entries[last][0] if last else 0)

    @property
    def vote(self):
        return super().vote if super().term == self.term else ""

    @property
    def base(self):
        """The last entry that retention has removed."""
        return min(self._entries, default=self.snapshot.index + 1) - 1

    def stored(self):
        found = super().stored()
        found.term_before = self.term_before
        return found

    def discard(self, through):
        if through > self.base:
            self.term_before = self._entries[through][0]
            self.offset_before = offset_after(self._entries, through, self.offset_before)
        super().discard(through)


def offset_after(entries, index, offset_before):
    """The offset after an entry, and all before it."""
    while index in entries:
        _, kind, payload = entries[index]
        if kind == DATA:
            return read_head(payload).next_offset
        index -= 1
    return offset_before


class StreamNode(GroupNode):
    """A member with its machine, and the client of the node."""

    def __init__(self, name, configuration):
        super().__init__(name, configuration)
        self.disk = StreamDisk(configuration)
        self.begin(None)

    def begin(self, user):
        """A life begins, or ends if there is no user."""
        self.begin_to_serve(user)
        self.load()

    def load(self):
        """The machine of the snapshot."""
        snapshot = self.loaded = self.disk.snapshot
        if snapshot.state:
            self.stream = StreamGroupMachine(restore(snapshot.state), snapshot.offset)
        else:
            self.stream = KIND.new()


class Books:
    """What is committed, and what clients were told. counts: what has happened."""

    def __init__(self):
        self.bodies = []
        self.confirmed = set()
        self.next_offset = 0
        self.counts = {}

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def committed(self, chunk):
        """A chunk is committed for the first time."""
        head = check_chunk(chunk)
        require(head.offset == self.next_offset, "SLG1: a chunk for", head.offset)
        self.next_offset = head.next_offset
        entries, at = entries_of(chunk, head), 0
        while at < len(entries):
            size = int.from_bytes(entries[at : at + 4])
            self.bodies.append(entries[at + 4 : at + 4 + size])
            at += 4 + size

    def check_end(self, users):
        """Everything that was confirmed is there once, in the order of its publisher."""
        require(len(set(self.bodies)) == len(self.bodies), "STR3: a message is stored twice")
        places = {body: place for place, body in enumerate(self.bodies)}
        require(self.confirmed <= places.keys(), "STR1: a confirmed message is lost")
        for user in users:
            require(user.applied == len(user.commands), user.name, "waits for the stream")
            order = [places[body] for body in user.published if body in places]
            require(order == sorted(order), "STM2:", user.name, "has messages in another order")


class User:
    """The client of a node in one of its lives.

    named: how many messages it has with its name. known: how many of these it knows to be stored;
    in its next life it goes on after them.
    """

    def __init__(self, world, name, named):
        self.name, self.books = name, world.books
        self.named = self.known = named
        self.last_named = {}
        self.sender = next(world.senders)
        self.commands, self.bodies = [], {}
        self.published = []
        self.applied = self.session = self.sent = 0
        self.use = GroupUse(NodeUse(world, name), KIND, GROUP, list(world.names), self)
        self._add(Join(self.sender, 1, name))

    def publish(self, sizes):
        """Publish messages without a name."""
        what = b" in %d of %d" % (self.number, self.sender)
        bodies = [(b"%d" % at + what).ljust(size, b".") for at, size in enumerate(sizes)]
        self._publish(bodies, b"", ())

    def publish_named(self, again, count):
        """Publish with sequence numbers: some once more, and new ones."""
        first = max(0, self.named - again)
        self.named += count
        sequences = tuple(range(first + 1, self.named + 1))
        if sequences:
            bodies = [b"%s's %d" % (self.name.encode(), one) for one in sequences]
            self.last_named[self.number] = sequences[-1]
            self._publish(bodies, self.name.encode(), sequences)

    def _publish(self, bodies, name, sequences):
        entries = b"".join(len(body).to_bytes(4) + body for body in bodies)
        self.bodies[self.number] = bodies
        if not name:
            self.published += bodies
        size = len(bodies)
        self._add(Publish(self.sender, self.number, name, sequences, (), size, size, (entries,)))

    @property
    def number(self):
        return len(self.commands) + 1

    def _add(self, command):
        self.commands.append(encode_command(command))
        if self.session and self.session == self.sent:
            self.use.send(self.session, [self.commands[-1]])

    def leader_found(self):
        self.session += 1
        self.use.attach(self.session, self.sender, 0, {})

    def leader_lost(self):
        self.sent = 0

    def told(self, session, effects, entries):
        """What the leader tells."""
        for effect in effects:
            if session != self.session or effect.sender != self.sender:
                continue
            if isinstance(effect, Applied):
                require(effect.through >= self.applied, "STM2: a command is no longer applied")
                for number in range(self.applied + 1, effect.through + 1):
                    self.books.confirmed.update(self.bodies.pop(number, ()))
                    self.known = max(self.known, self.last_named.pop(number, 0))
                self.applied = effect.through
            if self.sent != session:
                self.sent = session
                self.use.send(session, self.commands[self.applied :])
                self.books.count("sent again")


class StreamWorld(GroupWorld):
    """All nodes."""

    node_type = StreamNode

    def __init__(self, names, members, random):
        self.books = Books()
        self.named = dict.fromkeys(names, 0)
        super().__init__(names, members, random)

    # The members

    def _start(self, name):
        node = self.nodes[name]
        self.ways |= self.own_ways
        node.begin(User(self, name, self.named[name]))
        super()._start(name)
        for other in self.names:
            node.user.use.find(other)

    def _crash(self, name, kept, on_way):
        self.ways[name, name].clear()
        node = self.nodes[name]
        if node.user is not None:
            self.named[name] = node.user.known
            node.user.use.lose_leader()
        super()._crash(name, kept, on_way)
        node.begin(None)

    def carry_out(self, node):
        before = node.disk.entries()
        writes = len(node.disk.writes)
        super().carry_out(node)
        for write in node.disk.writes[writes:]:
            if isinstance(write, Append) and write.kind == DATA:
                self._check_follows(node, before, write)
            apply_write(write, before, None)
        leading = node.machine.leading
        self.serve_if_ready(node, leading is not None and leading.is_refusing)

    def _check_follows(self, node, entries, write):
        """A chunk follows the one before it in the log of a member."""
        base = node.disk.offset_before
        if not entries and node.disk.snapshot.index == write.first - 1:
            base = node.disk.snapshot.offset
        offset = offset_after(entries, write.first - 1, base)
        for payload in write.payloads:
            head = check_chunk(payload)
            require(head.offset == offset, "SLG1:", node.name, "appends", head.offset, "at", offset)
            require(head.term == write.term, node.name, "appends a chunk of another term")
            offset = head.next_offset

    def _apply(self, node, through):
        if node.loaded is not node.disk.snapshot and node.applied == node.disk.snapshot.index:
            node.load()
        first, entries = node.applied + 1, node.disk.entries()
        super()._apply(node, through)
        for index in range(first, through + 1):
            _, kind, payload = entries[index]
            if kind != DATA:
                continue
            if index > self.seen:
                self.books.committed(payload)
                self.seen = index
            node.stream.apply(index, payload, bool(node.serving))
        for sender, effect in node.stream.take_effects():
            for name, (session, attached) in node.attached.items():
                if attached == sender:
                    self._send(node.name, name, Frame("told", session, effect))

    seen = 0
    """The last chunk that is in the books."""

    # Snapshots and retention

    def _take_snapshot(self, name, kept):
        """A member saves its state, and removes old entries, or none."""
        node, machine = self._running(name)
        log, disk, index = machine.state.log, node.disk, node.applied
        if index <= disk.snapshot.index or index > machine.state.synced_index:
            return
        if node.stream.stream.applied > index:
            return  # Its state is ahead still.
        _, configuration = log.configuration_at(index)
        snapshot = Snapshot(index, log.term_of(index), configuration, node.value)
        snapshot.state, snapshot.offset = node.stream.stream.snapshot(), node.stream.next_offset
        disk.snapshot = node.loaded = snapshot
        machine.snapshot_taken(index)
        self.books.count("saved")
        through = index - kept
        if kept < 10 and through > log.base_index:
            disk.discard(through)
            machine.discarded(through)
            self.books.count("removed")
        self.carry_out(node)

    def _snapshot_arrives(self, name, to):
        """A member begins with the oldest entry of the leader, and its newest state."""
        node, machine = self._running(name)
        node.snapshots.pop(to)
        other, log = self.nodes[to], machine.state.log
        if other.machine is None or frozenset((name, to)) not in self.connected:
            machine.snapshot_failed(to, node.clock)
            self.carry_out(node)
            return
        index = log.base_index
        _, configuration = log.configuration_at(node.applied)
        value = self.history.committed[index][1] if index else 0
        snapshot = Snapshot(index, log.base_term, configuration, value)
        snapshot.state, snapshot.offset = node.stream.stream.snapshot(), node.disk.offset_before
        if index > other.machine.state.commit and index >= other.disk.snapshot.index:
            other.disk.snapshot = snapshot
            if other.machine.install(index, snapshot.term, configuration):
                other.applied, other.value = index, value
                other.load()
                self.books.count("began with the oldest")
        elif other.machine.state.commit >= index:
            other.machine.install(index, snapshot.term, configuration)
        self.carry_out(other)
        machine.snapshot_sent(to, index)
        self.carry_out(node)

    # The leader

    def propose(self, node, commands):
        """As `GroupMember.propose`."""
        leading = node.machine.leading
        if leading is None or leading.is_refusing or node.machine.state.term != node.serving:
            self.stop_serving(node)
            return
        entries = node.stream.entries(commands, node.clock, node.serving)
        if entries:
            require(node.machine.propose(entries) > 0, "what was made is proposed")
        self.carry_out(node)

    def _propose(self, name, sizes):
        """The client of a leader's node publishes."""
        self._use(name, "publish", sizes)

    # Frames

    def user_told(self, node, what):
        session, effect = what
        node.user.told(session, [effect], {})

    def attach(self, node, sender, item):
        for effect in node.stream.attach(item.sender, item.seen, item.received):
            self._send(node.name, sender, Frame("told", item.session, effect))

    def _use(self, name, what, *how):
        getattr(self.nodes[name].user, what)(*how)
