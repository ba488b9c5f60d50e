"""Nodes with groups in one process: real links on the loopback interface, real files.

The machine of a group keeps entries until they are settled. A client adds entries in numbered
commands, as that of a queue does, and gets each entry back that was kept.
"""

import asyncio
import itertools
from random import Random

import msgspec

from leveret.broker.runtime.node_address import NodeAddress
from leveret.cluster.groups.groups import Groups
from leveret.cluster.groups.wanted_members import WantedMembers, node_of, number_of
from leveret.cluster.links.addresses import AddressBook
from leveret.cluster.links.hello import NodeIdentity
from leveret.cluster.links.links import LinkOptions, Links
from leveret.cluster.raft.entry_log import WINDOW_BYTES
from leveret.storage.disk.disk import Disk
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.disk.worker import Worker
from leveret.storage.group_log.group_store import QUORUM, GroupStore
from leveret.storage.log.log import Log
from leveret.storage.log.log_files import FILE_BYTES_MAX, LogFiles
from leveret.storage.log.recovery import LogReader
from leveret.storage.log.retirement import Retirement
from tests.patience import until
from tests.unit.cluster.links.fakes import COOKIE, system_clock

NAMES = ("a@127.0.0.1", "b@127.0.0.1", "c@127.0.0.1")
ADD, SETTLE, NEWER, BROKEN = 1, 2, 3, 4
"""What commands do. A newer version has written NEWER; BROKEN shows that the program is wrong."""
NOW = b"added now"
"""The question whose answer has to be current."""
_incarnations = itertools.count(1)


def command(sender, number, what, data):
    return msgspec.msgpack.encode((sender, number, what, data))


class KeepingMachine:
    """Keeps entries until they are settled. added: how many there were in all."""

    def __init__(self, state=(0, {}, [], 0)):
        self.applied, applied_of, kept, self.added = state
        self.applied_of = {int(sender): number for sender, number in applied_of.items()}
        self.kept = list(kept)
        self._effects = []

    def apply(self, index, entry, collects):
        assert index > self.applied
        sender, number, what, data = msgspec.msgpack.decode(entry)
        if what == NEWER:
            raise ValueError("an entry is of version 2; this node reads 1: update it")
        assert what != BROKEN, "the program has failed"
        self.applied = index
        if number == self.applied_of.get(sender, 0) + 1:
            self.applied_of[sender] = number
            if what == ADD:
                self.added += 1
                self.kept.append(index)
                if collects:
                    self._effects.append((sender, ("kept", index)))
            else:
                del self.kept[:data]
        if collects:
            self._effects.append((sender, ("applied", self.applied_of.get(sender, 0))))

    def take_effects(self):
        effects, self._effects = self._effects, []
        return effects

    def accepted(self, commands):
        return commands

    def entries(self, commands, wall_ms, term):
        return commands

    def attach(self, sender, seen, received):
        kept = [("kept", index) for index in self.kept if index > received.get(0, 0)]
        return [*kept, ("applied", self.applied_of.get(sender, 0))]

    def snapshot(self):
        yield msgspec.msgpack.encode((self.applied, self.applied_of, self.kept, self.added))

    def live(self):
        return [(index, index) for index in self.kept]

    def tick_at_ms(self):
        return 0

    def tick(self, wall_ms):
        raise AssertionError("nobody asked for a tick")

    def needs_current(self, question):
        return question == NOW

    def answer(self, question):
        return question + b" %d" % self.added


class KeepingKind:
    """Makes such machines."""

    window_bytes = WINDOW_BYTES

    def new(self):
        return KeepingMachine()

    def restore(self, state):
        yield KeepingMachine(msgspec.msgpack.decode(state, strict=False))

    def entries_of(self, effect):
        return [effect[1]] if effect[0] == "kept" else []

    def without_entry(self, effect, index):
        return None

    def needed_parts(self, effects, entries):
        return effects, dict(entries)

    def encode(self, effects):
        return msgspec.msgpack.encode(effects)

    def decode(self, data):
        return [tuple(effect) for effect in msgspec.msgpack.decode(data)]


class Client:
    """Adds entries through the leader, and sends again what is not applied.

    got: the entries that came back, by index.
    """

    def __init__(self, node, group, sender=1):
        self.sender = sender
        self.session = 0
        self.commands = []
        self.applied = 0
        self.got = {}
        self.is_attached = False
        self.use = node.groups.use(group, NAMES, self)

    def add(self, *payloads):
        for payload in payloads:
            self._send(ADD, payload)

    def settle(self, count):
        self._send(SETTLE, count)

    def _send(self, what, data):
        number = len(self.commands) + 1
        self.commands.append(command(self.sender, number, what, data))
        if self.is_attached:
            self.use.send(self.session, [self.commands[-1]])

    def leader_found(self):
        self.session += 1
        self.is_attached = True
        self.use.attach(self.session, self.sender, 0, {0: max(self.got, default=0)})
        self.use.send(self.session, self.commands[self.applied :])

    def leader_lost(self):
        self.is_attached = False

    def told(self, session, effects, entries):
        assert session == self.session
        for what, number in effects:
            if what == "applied":
                assert number >= self.applied
                self.applied = number
            else:
                self.got[number] = msgspec.msgpack.decode(entries[number])[3]

    @property
    def is_done(self):
        return self.applied == len(self.commands)


class GroupedNode:
    """One node. `start` it in a running loop; `kill` ends it as a crash would."""

    def __init__(self, name, directory, ports, file_bytes, kind, disk=None):
        self.name = name
        self._ports = ports
        loop = asyncio.get_running_loop()
        self.disk = disk = disk or Disk()
        self._workers = [Worker(loop, name) for name in ("log", "pages", "reads")]
        (directory / "log").mkdir(parents=True, exist_ok=True)
        self.files = LogFiles(directory / "log", disk, file_bytes)
        self.node_log = Log(self.files, disk, self._workers[0], loop, lambda: None)
        reads = FileReads(disk, self._workers[2])
        self.store = self.new_store(directory, disk, reads)
        self.retirement = Retirement(self.node_log, self.files, disk, self._workers[1])
        self.node_log.file_filled = self._file_filled
        reader = LogReader(directory / "log", disk, self.node_log.clients)
        reader.read()
        self.files.sync(reader.files)
        for path in reader.stale:
            disk.remove(path)
        self.files.begin(reader.files, reader.next_number)
        clock = system_clock()
        self.links = Links(
            NodeIdentity(name, next(_incarnations)), LinkOptions(COOKIE), AddressBook(None), clock
        )
        self.groups = Groups(name, self.links, self.store, kind, clock, Random(name).random)
        self._retiring = self.retirement_error = None
        self.groups.begin()

    def new_store(self, directory, disk, reads):
        return GroupStore(
            directory / QUORUM,
            self.node_log,
            self.files,
            disk,
            reads,
            self._workers[1],
            recent_bytes=60_000,
        )

    async def start(self):
        await self.links.start()
        self._ports[self.name] = self.links.port
        for other, port in self._ports.items():
            if other != self.name:
                self.links.dial(NodeAddress(other, port))

    @property
    def is_retiring(self):
        return self._retiring is not None and not self._retiring.done()

    def _file_filled(self):
        if not self.is_retiring:
            self._retiring = asyncio.get_running_loop().create_task(self._retire())

    async def _retire(self):
        try:
            while self.retirement.is_due and await self.retirement.retire_oldest():
                pass
        except Exception as error:
            self.retirement_error = error  # `kill` looks at it.

    async def kill(self):
        is_lost = self.node_log.failure is not None
        assert self.retirement_error is None or is_lost, self.retirement_error
        self.groups.close()
        self.node_log.failure = self.node_log.failure or RuntimeError("the node was killed")
        for peer in list(self.links.peers.values()):
            peer.drop("the node was killed")
        await self.links.stop()
        if self._retiring is not None:
            self._retiring.cancel()
        for worker in self._workers:
            await asyncio.to_thread(worker.stop)
        self.node_log.let_go()
        self.store.log.reader.close_all()
        self._ports.pop(self.name, None)

    def leads(self, group):
        member = self.groups.members.get(group)
        return member is not None and member.is_serving


class GroupedNodes:
    """Three nodes, linked with each other. disks: by node; a node without has an ordinary one."""

    node_class = GroupedNode

    def __init__(self, directory, file_bytes=FILE_BYTES_MAX, kind=None, disks=None):
        self.directory = directory
        self.file_bytes = file_bytes
        self.kind = kind or KeepingKind()
        self.disks = disks or {}
        self.ports = {}
        self.by_name = {}
        self.wanted = {}

    async def __aenter__(self):
        for name in NAMES:
            await self.start(name)
        await until(lambda: all(len(node.links.peers) == 2 for node in self))
        return self

    async def __aexit__(self, *error):
        for node in list(self):
            await node.kill()

    def __iter__(self):
        return iter(self.by_name.values())

    async def start(self, name):
        node = self.node_class(
            name, self.directory / name, self.ports, self.file_bytes, self.kind,
            self.disks.get(name),
        )  # fmt: skip
        self.by_name[name] = node
        node.groups.changed = self._follows
        node.groups.lost = lambda group, lost: self._replace(node, group, lost)
        for member in node.groups.members.values():
            self._follows(member)
        await node.start()
        return node

    # What the records of queues are to real nodes

    def want(self, group, *voters, next_number=10):
        """The group is to have these members."""
        self.wanted[group] = WantedMembers(voters, (), next_number)
        for node in self:
            if group in node.groups.members:
                self._follows(node.groups.members[group])

    def _follows(self, member):
        wanted = self.wanted.get(member.group)
        if wanted is not None and member.changes.wanted is not wanted:
            member.follow(wanted)

    def _replace(self, node, group, lost):
        member = node.groups.members.get(group)
        names = self.wanted[group].voters
        if member is not None and member.raft.leading is not None and lost in names:
            new = f"{node_of(lost)}/{number_of(lost) + 1}"
            self.want(group, *[new if name == lost else name for name in names])

    async def kill(self, name):
        await self.by_name.pop(name).kill()

    async def create(self, groups):
        """Create groups with a member on each node, which survives a kill."""
        for group in groups:
            self.want(group, *NAMES)
        for node in self:
            for group in groups:
                node.groups.create(group, NAMES)
        for node in self:
            await node.node_log.sync()

    def leader(self, group):
        """The node that leads; None if none does."""
        return next((node for node in self if node.leads(group)), None)

    async def led(self, groups):
        await until(lambda: all(self.leader(group) is not None for group in groups))

    def states(self, group):
        return [b"".join(node.groups.members[group].machine.snapshot()) for node in self]

    def applied(self, group):
        return [node.groups.members[group].applied for node in self]

    async def equal(self, groups):
        """Wait until the members are equal, and have applied the same."""
        await until(lambda: all(len(set(self.applied(group))) == 1 for group in groups))
        for group in groups:
            assert len(set(self.states(group))) == 1, group
