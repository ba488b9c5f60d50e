"""Nodes with the groups of streams in one process: real links, real files. And a client of one."""

from leveret.cluster.streams.machine.commands import Join, Publish, StoreOffset, encode_command
from leveret.cluster.streams.machine.effects import Applied
from leveret.cluster.streams.stream_machines import StreamGroupMachines
from leveret.storage.stream_groups.stream_group_store import STREAMS, StreamGroupStore
from leveret.storage.stream_log.chunks import USER, check_chunk, entries_of
from tests.unit.cluster.groups.grouped_nodes import NAMES, GroupedNode, GroupedNodes

SEGMENT_BYTES = 2_000


class StreamNode(GroupedNode):
    """One node."""

    def new_store(self, directory, disk, reads):
        return StreamGroupStore(
            directory / STREAMS, self.node_log, self.files, disk, reads, self._workers[1]
        )

    def log(self, group):
        log = self.store.streams.streams[group].log
        log.segment_bytes = SEGMENT_BYTES
        return log

    async def kill(self):
        await super().kill()
        self.store.stop_writing()


class StreamNodes(GroupedNodes):
    """Three nodes with streams."""

    node_class = StreamNode

    def __init__(self, directory, **options):
        super().__init__(directory, kind=StreamGroupMachines(), **options)

    async def create(self, groups):
        await super().create(groups)
        for node in self:
            for group in groups:
                node.log(group)

    def messages(self, group):
        """The committed messages of the member on each node."""
        return [messages(node, group) for node in self]


def messages(node, group):
    """The committed messages of a member, in the order of their offsets, without a gap."""
    log, member = node.log(group), node.groups.members[group]
    found = []
    offset = log.first_offset
    for entry in range(log.first_entry, member.applied + 1):
        chunk = log.read_now(entry)
        head = check_chunk(chunk)
        assert head.offset == offset
        offset = head.next_offset
        if head.kind == USER:
            entries = entries_of(chunk, head)
            at = 0
            while at < len(entries):
                size = int.from_bytes(entries[at : at + 4])
                found.append(entries[at + 4 : at + 4 + size])
                at += 4 + size
    assert member.machine.next_offset == offset
    return found


class StreamClient:
    """A client: publishes bodies, and sends again what is not applied.

    applied: its last command in the log.
    """

    def __init__(self, node, group, sender=1):
        self.sender = sender
        self.session = 0
        self.commands = [encode_command(Join(sender, 1, node.name))]
        self.applied = 0
        self.is_attached = self.is_unknown = False
        self.use = node.groups.use(group, NAMES, self)

    @property
    def number(self):
        return len(self.commands) + 1

    def publish_entries(self, count, entries):
        self._send(Publish(self.sender, self.number, b"", (), (), count, count, (entries,)))

    def publish(self, *bodies, publisher=b"", sequences=()):
        entries = b"".join(len(body).to_bytes(4) + body for body in bodies)
        self._send(
            Publish(
                self.sender, self.number, publisher, sequences, (), len(bodies), len(bodies),
                (entries,),
            )
        )  # fmt: skip

    def store_offset(self, name, offset):
        self._send(StoreOffset(self.sender, self.number, name, offset))

    def _send(self, command):
        self.commands.append(encode_command(command))
        if self.is_attached:
            self.use.send(self.session, [self.commands[-1]])

    def leader_found(self):
        self.session += 1
        self.is_attached = True
        self.use.attach(self.session, self.sender, 0, {})

    def leader_lost(self):
        self.is_attached = False

    def told(self, session, effects, entries):
        assert session == self.session
        if self.applied and any(not isinstance(effect, Applied) for effect in effects):
            self.is_unknown = True
            return
        for effect in effects:
            is_first = not isinstance(effect, Applied)
            if not is_first:
                assert effect.through >= self.applied
                self.applied = effect.through
            if is_first or session != getattr(self, "sent_in", 0):
                self.sent_in = session
                self.use.send(session, self.commands[self.applied :])

    @property
    def is_done(self):
        return self.applied == len(self.commands)
