"""Streams in memory: the interface for the stream protocol, with chunks as a leader makes them.

What is appended in a turn is one chunk, and committed at once. Nothing is on disk. Add `STREAMS` to
a node's table of kinds. A test holds back confirms and chunks with `is_held`.
"""

from dataclasses import replace

from leveret.broker.queues.contract.placement import QueueMembers
from leveret.broker.queues.contract.queue_factory import QueueFactory
from leveret.broker.queues.contract.stream import StreamStats
from leveret.broker.queues.stream_kind import STREAM_QUEUE
from leveret.cluster.streams.consumer_group import ConsumerGroup
from leveret.cluster.streams.machine.chunk_making import ChunkMaker
from leveret.cluster.streams.machine.commands import Join, Publish, StoreOffset
from leveret.cluster.streams.machine.filters import may_have
from leveret.cluster.streams.machine.stream_machine import StreamMachine
from leveret.storage.stream_log.chunks import HEAD_BYTES, USER, read_head, tracking_of
from tests.fakes.log_queue import LogQueue

SENDER = 1


class StreamQueue(LogQueue):
    """One stream. chunks: the committed ones, with their heads."""

    kind = replace(STREAM_QUEUE, is_replicated=True)

    def __init__(self, owner, specification):
        super().__init__(owner, specification)
        self.chunks = []
        self.node_names = (self.placement.node or "leveret@localhost",)
        self.users = []
        self.readers = []
        self.is_held = False
        self._groups = {}
        self._machine = StreamMachine()
        self._entry = self._number = 0
        self._commands, self._confirms = [Join(SENDER, 1, "here")], []
        self._number = 1
        self._maker = ChunkMaker(self._machine, 1)

    def __repr__(self):
        return f"<StreamQueue {self.name!r}>"

    def add_user(self, user):
        self.users.append(user)

    def remove_user(self, user):
        if user in self.users:
            self.users.remove(user)

    # Publishing

    def append(self, entries, confirmed):
        self._number += 1
        publisher, ids, values, count, data = entries
        self._commands.append(
            Publish(SENDER, self._number, publisher, ids, values, len(data), count, data)
        )
        self._confirms.append(confirmed)
        self._owner.turns.wake(self)

    def store_offset(self, name, offset):
        self._number += 1
        self._commands.append(StoreOffset(SENDER, self._number, name, offset))
        self._owner.turns.wake(self)

    def commit(self):
        """What waits is committed, as in a turn of the leader."""
        commands, self._commands = self._commands, []
        now_ms = int(self._owner.clock.wall_time_s() * 1000)
        for chunk in self._maker.make(commands, now_ms):
            head = read_head(chunk)
            self._entry += 1
            self._machine.apply(self._entry, head.next_offset, tracking_of(chunk, head))
            if head.kind == USER:
                self.chunks.append((head, chunk))
        confirms, self._confirms = self._confirms, []
        for confirmed in confirms:
            confirmed(True)
        for reader in list(self.readers):
            reader.look()

    def take_turn(self):
        if not self.is_held:
            self.commit()

    # Questions

    def sequence(self, publisher, answer):
        answer.give(self._machine.sequences.get(publisher, 0))

    def stored_offset(self, name, answer):
        self.commit()
        answer.give(self._machine.offsets.get(name))

    def stats(self, answer):
        if not self.chunks:
            answer.give(StreamStats(-1, -1, -1))
            return
        head = self.chunks[-1][0]
        answer.give(StreamStats(self.chunks[0][0].offset, head.offset, head.next_offset - 1))

    def resolve_offset(self, start, answer):
        place = self._place(start)
        offset = self.chunks[place][0].offset if place < len(self.chunks) else self.end
        answer.give(offset)

    @property
    def end(self):
        return self._machine.next_offset

    # Readers

    def open_reader(self, start, filter_values, match_unfiltered, user, answer, *, sends_files):
        reader = Reader(self, self._place(start), filter_values, match_unfiltered, user)
        self.readers.append(reader)
        answer.give(reader)

    def _place(self, start):
        """The number of the chunk that a reader begins with."""
        heads, count = [head for head, _ in self.chunks], len(self.chunks)
        match start.kind:
            case "first":
                return 0
            case "last":
                return max(0, count - 1)
            case "offset":
                return sum(head.next_offset <= start.value for head in heads)
            case "timestamp":
                return sum(head.time_ms < start.value for head in heads)
        return count

    # Groups

    def join_group(self, name, partition, consumer):
        group, consumers = self._groups.setdefault(name, (ConsumerGroup(partition), {}))
        consumers[str(id(consumer))] = consumer
        _tell(consumers, group.join(str(id(consumer))))

    def leave_group(self, name, consumer):
        group, consumers = self._groups[name]
        updates = group.leave(str(id(consumer)))
        del consumers[str(id(consumer))]
        _tell(consumers, updates)

    def stopped(self, name, consumer):
        group, consumers = self._groups[name]
        _tell(consumers, group.stopped(str(id(consumer))))

    def close(self):
        self.is_deleted = True
        confirms, self._confirms = self._confirms, []
        for confirmed in confirms:
            confirmed(False)
        for user in list(self.users):
            user.stream_deleted(self)
        return []


class Reader:
    """A reader from a chunk on."""

    def __init__(self, stream, place, filter_values, match_unfiltered, user):
        self._stream, self._user = stream, user
        self._values, self._match_unfiltered = filter_values, match_unfiltered
        self._place, self._waits = place, False
        self.next_offset = stream.chunks[place][0].offset if place < len(stream.chunks) else 0
        self.taken_ms = 0
        self.is_closed = False

    @property
    def lag(self):
        return max(0, self._stream.end - self.next_offset)

    def look(self):
        if self._waits and self._place < len(self._stream.chunks):
            self._waits = False
            self._user.ready()

    def take(self, chunks_max, bytes_max):
        found, size = [], 0
        while (
            self._place < len(self._stream.chunks) and len(found) < chunks_max and size < bytes_max
        ):
            head, chunk = self._stream.chunks[self._place]
            self._place += 1
            self.next_offset, self.taken_ms = head.next_offset, head.time_ms
            bits = chunk[HEAD_BYTES : HEAD_BYTES + head.filter_bytes]
            if self._values and not may_have(
                bits, self._values, match_unfiltered=self._match_unfiltered
            ):
                continue
            begin = HEAD_BYTES + head.filter_bytes
            found.append(chunk[:HEAD_BYTES] + chunk[begin : begin + head.entries_bytes])
            size += len(found[-1])
        self._waits = not found
        return found

    def close(self):
        self.is_closed = True
        if self in self._stream.readers:
            self._stream.readers.remove(self)


def _tell(consumers, updates):
    for update in updates:
        consumers[update.consumer].update(update.is_active)


class StreamFactory(QueueFactory):
    """The streams of one node."""

    def members(self, queue):
        nodes = queue.node_names
        return QueueMembers(leader=nodes[0], nodes=nodes, online=nodes, synchronised=nodes)


STREAMS = StreamFactory(StreamQueue.kind, StreamQueue)
