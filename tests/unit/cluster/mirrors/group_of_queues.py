"""A mirrored queue without a network: a leader, mirrors, and nodes that publish, moved by hand.

What one sends another waits in a line until `Group` delivers it, each line in its order: contents
from a node to each member, the leader's decisions and batches to each mirror. The queue around the
leader's backing queue is played by `Leader.publish`. `check` compares all members.
"""

from collections import deque
from zlib import crc32

from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.queues.contract.priority_levels import priority_levels
from leveret.broker.queues.contract.publication import OWN_TTL, publication_of
from leveret.cluster.mirrors.batches import decode
from leveret.cluster.mirrors.kept_turns import KeptTurns
from leveret.cluster.mirrors.leader_backing_queue import LeaderBackingQueue
from leveret.cluster.mirrors.mirror import Mirror
from leveret.cluster.mirrors.mirror_messages import MirrorDiffers
from leveret.cluster.mirrors.replica_host import make_mirror_queue
from leveret.cluster.mirrors.synchronisation import Synchronisation, read_batch
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Address, Message
from leveret.storage.messages.message_run import MessageRun, body_bytes_of
from leveret.storage.queue.transient_queue import TransientQueue
from tests.storage.backing_contract.implementations import PRIORITY_MAX, STORAGE_ID, Implementation
from tests.storage.backing_contract.implementations import Tiered as TieredImplementation

ADDRESS = Address("x", "key", b"\1x\3key")
LEVELS = priority_levels(PRIORITY_MAX)
HEADERS = [
    read_header(encode_properties({"delivery_mode": 1 + priority % 2, "priority": priority}))
    for priority in range(PRIORITY_MAX + 1)
]
WALL_OFFSET_MS = 1_000_000
LIFE_MS = 1 << 40


def expiry_of(message):
    """When a message expires that is published with a time to live of its own."""
    return LIFE_MS + crc32(message.body)


class InMemory(Implementation):
    """The parts of a member's queue, in memory."""

    def make_part(self, level, is_head):
        return TransientQueue()


class OnDisk(TieredImplementation):
    """The parts of a member's queue in a store of its own. A head has a storage id of its own."""

    is_durable = True

    def _make_queue(self):
        return None

    def make_part(self, level, is_head):
        key = len(self._tiers)
        tier = self._store.queue(STORAGE_ID + is_head, level, f"queue {key}", True, False)
        self._tiers[key] = tier
        return tier


class Node:
    """A node that publishes: it numbers its contents, which are kept until all members have them.

    lines: contents on their way, for each member.
    """

    def __init__(self, number):
        self.number = number
        self.next = 0
        self.lines = {}
        self.is_gone = False

    def connect(self, member):
        self.lines[member] = deque()
        member.sender_begins(self.number, self.next)

    def publish(self, priority, count, has_own_times=False):
        bodies = [b"%d.%d" % (self.number, self.next + place) for place in range(count)]
        for line in self.lines.values():
            # Each member gets bytes, and makes messages of its own.
            messages = [Message(ADDRESS, HEADERS[priority], body) for body in bodies]
            ttl_ms = OWN_TTL if has_own_times else None
            line.append(publication_of(messages, ttl_ms).sent(self.number, self.next))
        self.next += count


class Leader:
    """The member that leads, and the queue around it. entries: what clients hold, by position.

    published, gone: the bodies of messages that were ever here, and of those that are gone.
    expiring: the bodies of those that expire.
    """

    def __init__(self, implementation, backing, term=1, turn=1):
        self.implementation = implementation
        self.queue = LeaderBackingQueue(
            backing, KeptTurns(backing, lambda: None), WALL_OFFSET_MS, term, turn
        )
        self.queue.has_mirrors = True
        self.refuses = lambda message: False
        self.entries = {}
        self.published = []
        self.gone = set()
        self.expiring = set()

    def sender_begins(self, sender, first):
        pass

    def do(self, action):
        return self.implementation.do(action)

    def contents(self, publication, pieces=1, dead_letter=None):
        """Publish contents, in `pieces` calls; a dead letter comes in between."""
        decided = self.queue.decided.get(publication.sender, 0)
        if publication.end <= decided:
            return
        run = publication.numbered(decided, publication.end)

        def publish():
            self.queue.begin_run(run)
            size = -(-len(run.messages) // pieces)
            for start in range(0, len(run.messages), size):
                piece = list(enumerate(run.messages, run.number))[start : start + size]
                while piece and self.refuses(piece[0][1]):
                    piece = piece[1:]
                kept = [(number, message) for number, message in piece if not self.refuses(message)]
                for part in [piece] if kept == piece else [[one] for one in kept]:
                    if part:
                        messages = [message for _, message in part]
                        self.append(messages, run.ttl_ms, run.sender, part[0][0])
                if dead_letter is not None:
                    self.append([dead_letter])
            self.queue.end_run()

        self.do(publish)

    def append(self, messages, ttl_ms=None, sender=0, number=0):
        run = MessageRun(messages, body_bytes_of(messages), sender, number)
        if ttl_ms == OWN_TTL:
            self.queue.publish_each(run, list(map(expiry_of, messages)))
            self.expiring.update(message.body for message in messages)
        else:
            self.queue.publish(run, 0)
        self.published += [message.body for message in messages]

    def fetch(self, count, ack_required):
        entries = self.do(lambda: self.queue.fetch(count, ack_required))
        if ack_required:
            self.entries.update((self.queue.position_of(entry), entry) for entry in entries)
        else:
            self.gone.update(entry.message.body for entry in entries)

    def take(self, positions):
        cursor = self.queue.cursor()
        found = []
        while entries := self.do(lambda: cursor.read(1_000)):
            found += [entry for entry in entries if self.queue.position_of(entry) in positions]
        cursor.close()
        for entry in self.do(lambda: self.queue.take(found)):
            self.entries[self.queue.position_of(entry)] = entry

    def settle(self, positions, action):
        entries = [self.entries.pop(position) for position in positions]
        if action == "ack":
            self.gone.update(entry.message.body for entry in entries)
            self.do(lambda: self.queue.ack(entries))
        else:
            self.do(lambda: self.queue.requeue(entries, action == "requeue"))

    def purge(self):
        self.gone.update(body for _, body, _ in ready(self))
        self.do(self.queue.purge)


class Follower:
    """A mirror on a node.

    decisions, batches: on their way to it. asked: what it asks the leader.
    """

    def __init__(self, member, implementation, has_priorities, leave):
        self.implementation = implementation
        self.leave = leave
        levels = LEVELS if has_priorities else None
        self.mirror = Mirror(
            member,
            lambda lacked: make_mirror_queue(lacked, levels, implementation.make_part),
            self,
            Addresses(),
            WALL_OFFSET_MS,
        )
        self.decisions, self.batches = deque(), deque()
        self.asked = deque()
        self.synchronisation = None

    @property
    def queue(self):
        return self.mirror.messages.queue

    def do(self, action):
        try:
            return self.implementation.do(action)
        except MirrorDiffers:
            self.leave(self)

    def sender_begins(self, sender, first):
        self.do(lambda: self.mirror.sender_begins(sender, first))

    def contents(self, run):
        self.do(lambda: self.mirror.contents(run))

    def sender_gone(self, sender):
        self.do(lambda: self.mirror.sender_gone(sender))

    # MirrorHost

    def may_send(self, sender):
        return True

    def ask(self, start, end):
        self.asked.append((start, end))

    def free(self, steps):
        for _ in steps:
            pass

    def applied(self):
        pass


def ready(member):
    """Position, body and mark of each ready message of a member."""
    return [
        (member.queue.position_of(entry), entry.message.body, entry.redelivered)
        for entry in ready_entries(member)
    ]


def ready_entries(member):
    cursor = member.queue.cursor()
    found = []
    while entries := member.do(lambda: cursor.read(2_000)):
        found += entries
    cursor.close()
    return found


def expiries(member):
    """When each ready message of a member expires, which may be never."""
    return [(entry.message.body, entry.expires_at_ms) for entry in ready_entries(member)]


class Group:
    """The members of one mirrored queue, and the nodes that publish to it."""

    def __init__(self, make_implementation, has_priorities=False, nodes=2):
        self.make_implementation = make_implementation
        self.has_priorities = has_priorities
        self.implementations = []
        self.members = self.left = 0
        self.term = 1
        implementation = self.add_implementation()
        levels = LEVELS if has_priorities else None
        backing = implementation.do(lambda: make_mirror_queue([], levels, implementation.make_part))
        self.leader = Leader(implementation, backing)
        self.followers = []
        self.nodes = [Node(number) for number in range(1, nodes + 1)]
        self.gone = []
        for node in self.nodes:
            node.connect(self.leader)

    def add_implementation(self):
        implementation = self.make_implementation()
        implementation.make()
        self.implementations.append(implementation)
        return implementation

    def close(self):
        for implementation in self.implementations:
            implementation.close()

    def join(self):
        """A mirror joins: the leader notes it, and nodes send it what they publish from here on."""
        self.members += 1
        follower = Follower(
            self.members, self.add_implementation(), self.has_priorities, self.leave
        )
        self.leader.queue.joined(self.members)
        self.followers.append(follower)
        for node in self.nodes:
            node.connect(follower)
        for number in self.gone:
            follower.sender_gone(number)
        return follower

    def node_dies(self, node, arrives):
        """A node that publishes dies, and another one begins.

        arrives: given a number of runs on their way to a member, returns how many arrive.
        """
        for member, line in tuple(node.lines.items()):
            for _ in range(arrives(len(line))):
                self.deliver_contents(node, member)
            line.clear()
        self.nodes.remove(node)
        self.gone.append(node.number)
        leading = self.leader.queue
        leading.sender_ended(node.number, leading.decided.get(node.number, 0))
        for follower in tuple(self.followers):
            follower.sender_gone(node.number)
        self.nodes.append(Node(1 + len(self.nodes) + len(self.gone)))
        for member in (self.leader, *self.followers):
            self.nodes[-1].connect(member)

    def leave(self, follower):
        if follower in self.followers:
            self.followers.remove(follower)
            self.left += 1

    # What is on its way

    def end_turn(self):
        data = self.leader.queue.take_decisions()
        if data:
            for follower in self.followers:
                follower.decisions.append(data)

    def deliver_contents(self, node, member, **how):
        line = node.lines[member]
        if line:
            member.contents(line.popleft(), **how)

    def deliver_decisions(self, follower):
        if follower.decisions:
            data = follower.decisions.popleft()
            follower.do(lambda: follower.mirror.decided(data))

    def answer(self, follower, messages_max=1 << 40):
        """The leader answers a mirror's request, with `messages_max` messages at most."""
        if follower.asked:
            self.end_turn()
            start, end = follower.asked.popleft()
            leading = self.leader.queue
            batch = self.leader.do(
                lambda: read_batch(leading, start, end, messages_max, leading.cursor(start))
            )
            data = b"".join(batch.encode(WALL_OFFSET_MS))
            answer = decode(data, Addresses(), WALL_OFFSET_MS)
            follower.do(lambda: follower.mirror.answered(answer))

    def send_batch(self, follower, messages_max=3):
        """The leader sends a mirror the next batch of what it lacks, if there is room for it."""
        if follower.synchronisation is None:
            has_led = follower.mirror.term == self.leader.queue.term
            if not (follower.mirror.has_begun and has_led):
                return
            follower.synchronisation = Synchronisation(
                self.leader.queue, follower.mirror.lacks, messages_max
            )
        self.end_turn()
        batch = self.leader.do(follower.synchronisation.next_batch)
        if batch is not None:
            follower.batches.append(b"".join(batch.encode(WALL_OFFSET_MS)))

    def deliver_batch(self, follower):
        if follower.batches:
            data = follower.batches.popleft()
            batch = decode(data, Addresses(), WALL_OFFSET_MS)
            follower.do(lambda: follower.mirror.batch(batch))
        if follower.synchronisation is not None:
            follower.synchronisation.kept(max(0, follower.mirror.batch_number))

    def deliver_all(self):
        """Everything arrives, and every mirror is synchronised."""
        for node in self.nodes:
            while node.lines[self.leader]:
                self.deliver_contents(node, self.leader)
        self.end_turn()
        for follower in tuple(self.followers):
            for node in self.nodes:
                while node.lines[follower]:
                    self.deliver_contents(node, follower)
            self.settle_down(follower)
            while follower in self.followers and follower.mirror.lacks:
                self.send_batch(follower, 1000)
                self.deliver_batch(follower)
                self.settle_down(follower)

    def settle_down(self, follower):
        while follower in self.followers and (follower.decisions or follower.asked):
            self.deliver_decisions(follower)
            self.answer(follower)

    # Failover

    def fail_over(self, kept):
        """The leader dies. The last decisions on the ring are lost, except for `kept` ones, and for
        those that some mirror has.
        """
        self.leader.queue.take_decisions()
        on_ring = [len(follower.decisions) for follower in self.followers]
        lost = min(*on_ring, max(0, max(on_ring) - kept))
        for follower in self.followers:
            for _ in range(lost):
                follower.decisions.pop()
            follower.batches.clear()
            follower.asked.clear()
            follower.synchronisation = None
        begun = [follower for follower in self.followers if follower.mirror.has_begun]
        synchronised = [one for one in begun if one.mirror.has_begun and not one.mirror.lacks]
        next_leader = (synchronised or begun or self.followers)[0]
        self.followers.remove(next_leader)
        self.promote(next_leader)
        return bool(synchronised)

    def promote(self, follower):
        mirror = follower.mirror
        while follower.decisions:
            self.deliver_decisions(follower)
        promoted = follower.do(mirror.promote)
        while promoted is None:
            for node in self.nodes:
                self.deliver_contents(node, follower)
            promoted = follower.do(mirror.promote)
        self.term += 1
        leader = self.leader = Leader(
            follower.implementation, promoted.backing, self.term, promoted.turn + 1
        )
        leader.published = [body for _, body, _ in ready(leader)]
        leader.expiring = {body for body, expires_at_ms in expiries(leader) if expires_at_ms}
        leader.queue.leads(promoted.void)
        leader.queue.decided.update(promoted.decided)
        for undecided in promoted.undecided:
            leader.contents(undecided)
        for number in self.gone:
            leader.queue.sender_ended(number, leader.queue.decided.get(number, 0))
        for node in self.nodes:
            node.lines[leader] = node.lines.pop(follower)
        for other in tuple(self.followers):
            while other.decisions and not other.mirror.has_begun:
                self.deliver_decisions(other)
            if not other.mirror.has_begun:
                # The decision with which it was to begin died with the leader.
                leader.queue.joined(other.mirror.member)
            other.mirror.ask_again()
        self.end_turn()

    # What has to be so

    def check(self):
        """All members have the leader's messages, at its positions, in its order, as marked."""
        self.deliver_all()
        expected, held = ready(self.leader), sorted(self.leader.entries)
        bodies = [body for _, body, _ in expected]
        assert len(set(bodies)) == len(bodies)
        times = expiries(self.leader)
        for entry in ready_entries(self.leader):
            expires = entry.message.body in self.leader.expiring
            assert entry.expires_at_ms == (expiry_of(entry.message) if expires else 0)
        for follower in self.followers:
            mirror = follower.mirror
            assert not mirror.is_behind
            assert mirror.lacks == []
            here = [*held, *(position for position, _, _ in expected)]
            assert not any(position in mirror.messages.unrecoverable for position in here)
            assert ready(follower) == expected
            assert expiries(follower) == times
            assert sorted(mirror.messages._unacked) == held
            assert follower.queue.unacked_count == len(held)
            assert mirror.senders.bytes_held == 0
            assert follower.queue.ready_bytes == self.leader.queue.ready_bytes
