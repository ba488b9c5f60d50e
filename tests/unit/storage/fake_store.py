"""A store around one queue, without a loop, a thread or a log: everything happens at once."""

from pathlib import Path

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.storage.bodies.message_store import MessageStore
from leveret.storage.disk.disk import Disk
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.log.log import Log
from leveret.storage.messages.intervals import NO_POSITION
from leveret.storage.messages.message import Address, Message
from leveret.storage.messages.message_run import run_of
from leveret.storage.queue.queue_log import QueueLog
from leveret.storage.queue.tiered_queue import TieredQueue
from tests.unit.storage.fakes import write_out

ADDRESS = Address("x", "key", encode_address("x", "key"))
PERSISTENT = read_header(encode_properties({"delivery_mode": 2}))
TRANSIENT = read_header(encode_properties({}))
EMBED_BELOW = 100


class FakeQueueLog(QueueLog):
    """runs, dirty: what is to be written."""

    def __init__(self):
        self.runs = []
        self.dirty = []

    def append_run(self, queue, position, messages, body_bytes, expires_wall_ms, times=None):
        self.runs.append((position, len(messages), expires_wall_ms))

    def note_dirty(self, queue):
        self.dirty.append(queue)


class FakeLog(Log):
    """batch: the one that gathers. written: the last that is on disk."""

    def __init__(self, queue_log):
        self.batch, self.written = 1, 0
        self._queue_log = queue_log

    def write(self):
        """The batch is on disk, with the progress of the queues."""
        self.written = self.batch
        self.batch += 1
        dirty, self._queue_log.dirty = self._queue_log.dirty, []
        for queue in dirty:
            queue.take_progress()


class FakeStore:
    """A `QueueStore` without files. removed: the paths of segments that were to be removed."""

    make_header = staticmethod(read_header)
    embed_below = EMBED_BELOW
    wall_offset_ms = 1_000_000

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.disk = Disk()
        self.disk.make_directory(directory / "bodies")
        self.reads = FileReads(self.disk)
        self.bodies = MessageStore(directory / "bodies", self.disk, self.reads)
        self.queue_log = FakeQueueLog()
        self.log = FakeLog(self.queue_log)
        self.disk_reads = self.disk_writes = 0
        self.removed = []
        self.forgotten = []
        self.shrunk = []

    def address(self, encoded):
        return ADDRESS

    def expires_at_ms(self, expires_wall_ms):
        return expires_wall_ms and expires_wall_ms - self.wall_offset_ms

    def note_memory(self, queue):
        pass

    def note_shrunk(self, queue):
        self.shrunk.append(queue)

    def forget(self, queue):
        self.forgotten.append(queue)

    def remove_segments(self, paths, is_logged, removed):
        for path in paths:
            self.disk.remove(path)
        self.removed += [path.name for path in paths]
        removed()

    def queue(self, is_durable=True):
        return TieredQueue(self, 256, self.directory / "256", "queue 'q'", is_durable, False)


def publish(queue, *bodies, header=PERSISTENT, expires_at_ms=0, number=0):
    messages = [
        Message(ADDRESS, header, body, None, number and number + place)
        for place, body in enumerate(bodies)
    ]
    return queue.publish(run_of(messages), expires_at_ms)


def publish_numbered(queue, count, **options):
    """Messages whose bodies are 0, 1, 2 and so on, from the queue's next position."""
    first = queue.next_position
    publish(queue, *[b"%d" % number for number in range(first, first + count)], **options)


def write_slice(store, queue, bytes_max=1 << 20, end=NO_POSITION):
    """Have the next slice in segments; None if there was nothing to write."""
    found = queue.plan_slice(bytes_max, end)
    if found is not None:
        write_out(store.disk, found.writes)
        queue.slice_written(found)
    return found


def page_out(store, queue, bytes_max=1 << 30):
    """Have everything in segments, and drop `bytes_max` bytes of it from memory."""
    store.log.write()
    while write_slice(store, queue) is not None:
        pass
    return queue.page_out(bytes_max)


def bodies(entries):
    return [entry.message.body for entry in entries]


def positions(entries):
    return [entry.position for entry in entries]
