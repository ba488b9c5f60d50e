"""A stream's log on a real disk, whose thread works when the test says so."""

from leveret.storage.disk.disk import Disk
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.stream_log.chunks import (
    OF_GROUP,
    TRACKING,
    USER,
    check_chunk,
    encode_chunk,
    entries_of,
)
from leveret.storage.stream_log.recovery import open_stream, sync_opened
from leveret.storage.stream_log.segment_files import StreamFiles
from leveret.storage.stream_log.segment_heads import SegmentHead
from leveret.storage.stream_log.stream_log import new_log

DATA, TERM_START = 0, 1
EMPTY = SegmentHead(1, 0, 1_000, [])


class StreamUnderTest:
    """log: of the stream. now_ms: the time of the next chunk."""

    def __init__(self, directory, disk=None):
        self.directory = directory
        self.disk = disk or Disk()
        self.reads = FileReads(self.disk)
        self.log = new_log(directory, self.disk, self.reads, EMPTY)
        self.now_ms = 1_000
        self.write()

    def chunk(self, *bodies, term=1, kind=USER, filter_bits=b""):
        """The next chunk, with a message for each body."""
        entries = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
        return encode_chunk(
            kind, self.log.next_offset, term, self.now_ms, len(bodies), len(bodies), [entries],
            filter_bits,
        )  # fmt: skip

    def publish(self, *bodies, term=1):
        """Append a chunk with a message for each body."""
        self.log.append(self.log.last_entry + 1, term, DATA, [self.chunk(*bodies, term=term)])

    def start_term(self, term=1):
        """Append the entry with which a leader begins."""
        chunk = self.chunk(term=term, kind=OF_GROUP + TERM_START)
        self.log.append(self.log.last_entry + 1, term, TERM_START, [chunk])

    def track(self, term=1):
        """Append a chunk without messages."""
        self.log.append(self.log.last_entry + 1, term, DATA, [self.chunk(term=term, kind=TRACKING)])

    def write(self):
        """Have the thread carry out what was gathered."""
        StreamFiles(self.directory, self.disk).carry_out(self.log.take_steps())
        self.log.written()

    def restart(self):
        """Open the files again."""
        self.log = open_stream(self.directory, self.disk, self.reads)
        sync_opened([self.log], self.directory.parent, self.disk)
        return self

    def use(self, disk):
        """Open the files again, on another disk."""
        self.disk, self.reads = disk, FileReads(disk)
        self.restart()

    def chunks(self, first=None):
        """All chunks from an entry on."""
        log = self.log
        first = log.first_entry if first is None else first
        chunks = []
        while first + len(chunks) <= log.last_entry:
            chunks += log.read(first + len(chunks), log.last_entry, 1_000)
        return chunks

    def messages(self):
        """The bodies of all messages, by their offsets."""
        found = {}
        for chunk in self.chunks():
            head = check_chunk(chunk)
            entries, offset = entries_of(chunk, head), head.offset
            for _ in range(head.entry_count):
                size = int.from_bytes(entries[:4], "big")
                found[offset] = entries[4 : 4 + size]
                entries, offset = entries[4 + size :], offset + 1
            assert not entries
        return found

    def runs(self):
        """The runs of entries, as tuples."""
        return [(run.first, run.count, run.term, run.kind) for run in self.log.runs]


def numbered(count, begin=0):
    """Messages as `StreamUnderTest.messages` gives them."""
    return {number: b"m%d" % number for number in range(begin, begin + count)}
