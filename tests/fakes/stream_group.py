"""A stream's group of one member, on a real disk and without threads, and clients of it.

The leader makes chunks, commits and applies them at once, unless the test holds this back. Clients
of other nodes have no member, and ask that of the first one.
"""

from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.runtime.counts import MessageCounts
from leveret.broker.runtime.pending import Answer
from leveret.cluster.remote_queues.remote_hold import UntakenBytes
from leveret.cluster.replicated_queues.client.own_node import OwnNode
from leveret.cluster.replicated_queues.client.sender_numbers import SenderNumbers
from leveret.cluster.streams.client.stream_queue_client import StreamQueueClient
from leveret.cluster.streams.machine.chunk_making import ChunkMaker
from leveret.cluster.streams.machine.commands import decode_command
from leveret.cluster.streams.machine.effects import Applied, UnknownSender
from leveret.cluster.streams.machine.questions import answer
from leveret.cluster.streams.machine.stream_machine import StreamMachine
from leveret.storage.disk.disk import Disk
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Message
from leveret.storage.stream_log.chunks import read_head, tracking_of
from leveret.storage.stream_log.segment_files import StreamFiles
from leveret.storage.stream_log.segment_heads import SegmentHead
from leveret.storage.stream_log.stream_log import new_log
from tests.unit.broker.queues.fakes import ADDRESS, HEADER, FakeVhost, specified

LEADER = "a@host"
INCARNATION = 1_700_000_000_000_000
ANSWER_MS = 10_000
"""How long requests wait for a leader."""


class WorkerByHand:
    """A thread that works when the test says so."""

    def __init__(self):
        self.jobs = []

    def submit(self, job, done):
        self.jobs.append((job, done))

    def work(self):
        """Do what was submitted, and what that leads to."""
        while self.jobs:
            job, done = self.jobs.pop(0)
            try:
                result, error = job(), None
            except Exception as raised:
                result, error = None, raised
            done(result, error)


class Member:
    """The member: an `OwnLog`. entries: of its log. wall_ms: the leader's clock."""

    def __init__(self, directory, worker=None):
        self.disk = Disk()
        self.directory = directory
        self.machine = StreamMachine()
        self.wall_ms = 1_000
        reads = FileReads(self.disk, worker)
        self.log = new_log(directory, self.disk, reads, SegmentHead(1, 0, self.wall_ms, []))
        self.write()
        self.term = 0
        self.maker = None
        self.committed_entry = self.committed_offset = 0
        self._told = None

    def watch(self, committed):
        self._told = committed

    @property
    def is_watched(self):
        return self._told is not None

    def write(self):
        StreamFiles(self.directory, self.disk).carry_out(self.log.take_steps())
        self.log.written()

    def lead(self):
        self.term += 1
        self.maker = ChunkMaker(self.machine, self.term)

    def propose(self, commands):
        """Append the chunks of commands."""
        chunks = self.maker.make(map(decode_command, commands), self.wall_ms)
        if chunks:
            self.log.append(self.log.last_entry + 1, self.term, 0, chunks)

    def commit(self):
        """Write and apply what was appended."""
        self.write()
        while self.machine.applied < self.log.last_entry:
            entry = self.machine.applied + 1
            (chunk,) = self.log.read(entry, entry, 1 << 30)
            head = read_head(chunk)
            self.machine.apply(entry, head.next_offset, tracking_of(chunk, head))
        self.committed_entry = self.machine.applied
        self.committed_offset = self.machine.next_offset
        if self._told is not None:
            self._told()

    def drop_uncommitted(self):
        """As after a change of leader."""
        self.log.truncate(self.committed_entry + 1)
        self.write()


class Group:
    """The group as the client on one node uses it: a `StreamGroup`.

    own_log: the member, if it is on this node. loses: commands are lost on their way; is_slow:
    chunks are not committed until `commit`. is_forgetful: answers are lost. replicas: other nodes
    with a member; asked: which nodes were asked, and gone: those that do not answer.
    """

    is_new = True

    def __init__(self, member, own_log):
        self.member = member
        self.own_log = own_log
        self.client = None
        self.leader = ""
        self.sent = []
        self.sessions = {}
        self.loses = self.is_slow = self.is_forgetful = self.is_closed = False
        self.options = None
        self.of_leader = None
        self.replicas, self.asked, self.gone = [], [], set()

    def attach(self, session, sender, seen, received):
        self.sessions = {sender: session}
        known = self.member.machine.senders.get(sender)
        effect = UnknownSender(sender) if known is None else Applied(sender, known.applied)
        self.client.told(session, [effect])

    def send(self, session, commands):
        self.sent += commands
        if self.leader and not self.loses:
            self.member.propose(commands)
            if not self.is_slow:
                self.commit()

    def commit(self):
        """Commit what was proposed, and tell the client."""
        self.member.commit()
        for sender, session in self.sessions.items():
            known = self.member.machine.senders.get(sender)
            if known is not None and not self.is_forgetful:
                self.client.told(session, [Applied(sender, known.applied)])

    def ask(self, question, give):
        give(answer(self.member.machine, question) if self.leader else None)

    def ask_member(self, node, question, give):
        self.asked.append(node)
        if node in self.gone:
            give(None)
        else:
            self.of_leader.asked(question, give)

    def configure(self, options):
        self.options = options

    def close(self, is_deleted):
        self.is_closed = True

    def lead(self):
        """A leader is found. What the last one has not committed is gone."""
        self.member.drop_uncommitted()
        self.member.lead()
        self.leader = LEADER
        self.client.leader_found()

    def lose_leader(self):
        self.leader = ""
        self.sessions = {}
        self.client.leader_lost()


class StreamUse:
    """A stream and its client on the node with the member. behind: what `UntakenBytes` has said."""

    def __init__(self, directory, worker=None, is_as_3=True):
        self.vhost = FakeVhost()
        self.vhost.clock.advance(1)
        self.member = Member(directory, worker)
        self.behind = []
        self.is_as_3 = is_as_3
        self.given = MessageCounts()
        self.group = Group(self.member, self.member)
        self.queue = self._client(self.group, LEADER)
        self.group.lead()
        self.settle()

    def _client(self, group, node):
        specification = specified({"x-queue-type": ("S", "stream")}, durable=True)
        own = OwnNode(
            node, ANSWER_MS, SenderNumbers(node, INCARNATION), Addresses(),
            UntakenBytes(self.behind.append), self.given, shows_zero=self.is_as_3,
        )  # fmt: skip
        group.client = StreamQueueClient(self.vhost, specification, own, group)
        return group.client

    def elsewhere(self):
        """The client of a node without a member."""
        group = Group(self.member, None)
        group.of_leader = self.queue
        client = self._client(group, "b@host")
        group.leader = LEADER
        client.leader_found()
        self.settle()
        return client

    def settle(self):
        """Give turns until nothing is left to do."""
        self.vhost.turns.run()

    def asked(self, ask, *arguments):
        """The answer to a question. Raises what it is refused with."""
        given = Answer()
        ask(*arguments, given)
        self.settle()
        return given.result()

    def publish(self, *bodies, publisher=None, first=1, header=HEADER, address=ADDRESS):
        """Publish messages in one turn."""
        messages = [Message(address, header, body) for body in bodies]
        self.queue.publish(publication_of(messages, None, publisher, first))
        self.settle()

    def consuming(self, consumer, queue=None):
        """The consumer, which gets messages from now on."""
        self.asked((queue or self.queue).subscribe, consumer)
        return consumer
