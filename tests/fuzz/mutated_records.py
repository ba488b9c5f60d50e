"""Mutated records of the store, in rounds from a seed: logs, segments, and whole stores.

Most records of a round are in log files and segments that are in memory only, and are read as a
restart reads them. Of half of the changed records the checksum is made right again, so that the
bytes come to the decoders. At the end of the round a store on a disk is damaged, without that, and
started. A case is one record that was changed.

Whatever the bytes are, reading a log or a segment raises nothing but the errors that it names, and
every message that a store delivers has the body that was published.
"""

import asyncio
import random
import tempfile
from pathlib import Path
from zlib import crc32

from leveret.broker.amqp.content_header import read_stored
from leveret.broker.amqp.properties import encode_properties
from leveret.storage.contract.backing_queue import Unreadable
from leveret.storage.disk.disk import Disk, FileMissing, StoreError
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.log.log_files import log_path
from leveret.storage.log.recovery import LogReader
from leveret.storage.messages.formats import (
    BODIES_MAGIC,
    CLOSED,
    LOG_MAGIC,
    RECORD_BYTES,
    SEGMENT_MAGIC,
    STORED,
    FormatError,
    StateRecord,
    encode_file_header,
    encode_oldest,
    encode_progress,
    encode_record,
    encode_run,
    encode_state,
    encode_stored_run,
)
from leveret.storage.messages.intervals import Intervals
from leveret.storage.metadata.metadata import NoMetadata
from leveret.storage.queue.queue_keys import LEVELS
from leveret.storage.queue.queue_log import QueueLog
from leveret.storage.queue.queue_recovery import QueueRecovery
from leveret.storage.queue.segment_entries import SegmentEntries, stored_body
from leveret.storage.segments.segments import Lost, SegmentWriter, segment_path
from leveret.storage.store.store import Store
from tests.fuzz.mutated_frames import EVERY_PROPERTY
from tests.fuzz.mutation import mutated
from tests.storage.reading import ready_entries

FILES_OF_A_ROUND = 200
CHECKSUM_AT = RECORD_BYTES - 4
KEY = LEVELS
"""The key of the queue with the storage id 1."""
BODY = b"the body of message %d"


def properties_of(number: int) -> bytes:
    """Properties that differ from message to message."""
    if number % 3:
        return encode_properties({"delivery_mode": 2, "message_id": str(number)})
    return encode_properties({**EVERY_PROPERTY, "message_id": str(number)})


def run_of(first: int, count: int, **changes: object) -> bytes:
    """A RUN with its bodies, at positions of one queue."""
    bodies = [BODY % number for number in range(first, first + count)]
    arguments = {
        "expires_wall_ms": 0, "flags": 1, "targets": [(KEY, first)], "address": b"\1x\3key",
        "header": properties_of(first), "bodies": bodies, **changes,
    }  # fmt: skip
    return encode_run(**arguments) + b"".join(bodies)


def stored_run_of(first: int, places: list[tuple[int, int, int, int]]) -> bytes:
    """A RUN with its bodies in the message store."""
    return encode_stored_run(0, 1, (KEY, first), b"\0\1q", properties_of(first), places)


STATE = StateRecord(KEY, 4, 3, 1000, 0, 900, True, [0, 1], Intervals([(0, 2), (3, 4)]))
PLACES = [(1, 40, 20, 1), (1, 60, 4097, 2)]
RECORDS = [
    encode_oldest(1),
    run_of(4, 1),
    run_of(5, 1, expires_wall_ms=2_000_000_000_000),
    run_of(6, 3),
    run_of(9, 2, targets=[(KEY, 9), (2 * KEY, 0), (3 * KEY, 7)], number=77),
    run_of(11, 1, flags=0, number=2**62),
    run_of(12, 20),
    stored_run_of(32, PLACES),
    stored_run_of(34, PLACES[:1]),
    encode_progress(KEY, 6, 10, Intervals([(4, 5), (7, 8)])),
    encode_progress(2 * KEY, 0, 0, Intervals()),
    encode_state(STATE),
    encode_record(CLOSED, b""),
]
ALL_BYTES = b"".join(RECORDS)


def damaged_record(chance: random.Random, record: bytes, is_forged: bool = True) -> bytes:
    """A record with changes. is_forged: half of the time its checksum and its sizes are right."""
    if not is_forged or chance.random() < 0.5:
        return mutated(chance, record, ALL_BYTES)
    start, head_bytes = RECORD_BYTES, int.from_bytes(record[5:9], "little")
    head = mutated(chance, record[start : start + head_bytes], ALL_BYTES) if head_bytes else b"\0"
    frame = record[:5] + len(head).to_bytes(4, "little") + record[9:CHECKSUM_AT]
    checksum = crc32(head, crc32(frame)).to_bytes(4, "little")
    return frame + checksum + head + record[start + head_bytes :]


def damaged_records(chance: random.Random, is_forged: bool = True) -> tuple[bytes, int]:
    """Records, some of them changed, and how many were."""
    found, cases = [], 0
    for record in chance.choices(RECORDS, k=8):
        if chance.random() < 0.7:
            found.append(damaged_record(chance, record, is_forged))
            cases += 1
        else:
            found.append(record)
    return b"".join(found), cases


class MemoryDisk(Disk):
    """Files that are in memory, to be read."""

    def __init__(self, files: dict[Path, bytes]) -> None:
        super().__init__()
        self.files = files

    def names_in(self, directory):
        return sorted(path.name for path in self.files if path.parent == directory)

    def read_all(self, path):
        return self._file(path)

    def read(self, path, offset, size):
        return self._file(path)[offset : offset + size]

    def read_from(self, _descriptor, path, offset, size):
        return self.read(path, offset, size)

    def size(self, path):
        return len(self.files.get(path, b""))

    def open(self, path):
        self._file(path)
        return -1

    def _file(self, path):
        if path not in self.files:
            raise FileMissing(f"{path} is missing")
        return self.files[path]

    def keep_open(self, _descriptor):
        return False

    def close(self, _descriptor):
        pass

    def will_read(self, _descriptor, _offset, _size):
        pass


# Logs


def new_store(directory: Path) -> Store:
    """A store that was not opened."""
    store = Store(directory, NoMetadata(), read_stored, embed_below=300, log_file_bytes=20_000)
    # Readers wait for the disk.
    store.reads.worker = None
    return store


def read_log(chance: random.Random, store: Store) -> int:
    """Read one or two damaged log files. Returns the number of changed records."""
    directory, cases, files = Path("/log"), 0, {}
    count = 1 + int(chance.random() * 2)
    for number in range(1, count + 1):
        data, changed = damaged_records(chance)
        before = len(files[log_path(directory, 1)]) if files else 0
        header = encode_file_header(LOG_MAGIC, number, 1, before)
        if chance.random() < 0.05:
            header = mutated(chance, header)
        files[log_path(directory, number)] = header + data
        cases += changed
    recovery = QueueRecovery(store._messages_of)
    queues = QueueLog(store.log, store.pager, store._sync_segments, recovery)
    try:
        LogReader(directory, MemoryDisk(files), [queues]).read()
    except StoreError:
        return cases
    for key, found in recovery.found.items():
        found.live_entries()
        found.state_to_restore(key)
    return cases


# Segments


class Source:
    """What the reader of segments needs of a store."""

    def __init__(self, store: Store, disk: Disk) -> None:
        self.disk, self.disk_reads = disk, 0
        self.bodies, self.make_header = store.bodies, store.make_header
        self.address, self.expires_at_ms = store.address, store.expires_at_ms
        self.reads = FileReads(disk)


def read_segment(chance: random.Random, store: Store) -> int:
    """Read a damaged segment. Returns the number of changed records."""
    directory = Path("/queues/256")
    data, cases = damaged_records(chance)
    header = encode_file_header(SEGMENT_MAGIC, 0)
    if chance.random() < 0.05:
        header = mutated(chance, header)
    disk = MemoryDisk({segment_path(directory, 0): header + data})
    writer = SegmentWriter(directory)
    writer.number, writer.tail_bytes = 0, len(header + data)
    entries = SegmentEntries(Source(store, disk), writer)
    first = int(chance.random() * 12)
    for _ in range(RECORDS_MAX):
        try:
            run = entries.find(first)
        except (FormatError, FileMissing, Unreadable):
            break
        if run is None:
            break
        if isinstance(run, Lost):
            continue
        assert entries.head
        if run.flags & STORED:
            for place in range(len(run.sizes)):
                stored_body(run, place)
        else:
            entries.bodies(run)
        entries.pass_over(run)
        first = max(first, run.targets[0][1] + len(run.sizes))
    else:
        raise AssertionError("the reader does not come to the end of the segment")
    entries.close()
    return cases


RECORDS_MAX = 1000
"""More than a segment of a case has, and the damage between them."""


# Whole stores


def whole_store(directory: Path, chance: random.Random) -> int:
    """Write the files of a store, with damage. Returns the number of changed records."""
    log, queue, bodies = directory / "log", directory / "queues" / str(KEY), directory / "bodies"
    for folder in (log, queue, bodies):
        folder.mkdir(parents=True)
    large = [BODY % number + bytes(400) for number in (2, 3)]
    bodies_header = encode_file_header(BODIES_MAGIC, 1)
    offset, places = len(bodies_header), []
    for body in large:
        places.append((1, offset, len(body), crc32(body)))
        offset += len(body)
    segment = [run_of(0, 2), stored_run_of(2, places), run_of(4, 2)]
    segment_bytes = len(encode_file_header(SEGMENT_MAGIC, 0)) + len(b"".join(segment))
    state = StateRecord(KEY, 6, 0, 1000, 0, segment_bytes, False, [], Intervals([(4, 5)]))
    records = [
        encode_oldest(1), encode_state(state), run_of(6, 1), run_of(7, 3), encode_oldest(1),
        encode_progress(KEY, 1, 0, Intervals([(7, 8)])), run_of(10, 1),
    ]  # fmt: skip
    cases = 0
    for place in range(len(records)):
        if chance.random() < 0.3:
            records[place], cases = damaged_record(chance, records[place], False), cases + 1
    for place in range(len(segment)):
        if chance.random() < 0.3:
            segment[place], cases = damaged_record(chance, segment[place], False), cases + 1
    if chance.random() < 0.2:
        large[0] = mutated(chance, large[0])
    log_path(log, 1).write_bytes(encode_file_header(LOG_MAGIC, 1, 1) + b"".join(records))
    segment_path(queue, 0).write_bytes(encode_file_header(SEGMENT_MAGIC, 0) + b"".join(segment))
    (bodies / "0000000001.bodies").write_bytes(bodies_header + b"".join(large))
    return cases


async def start_store(chance: random.Random, directory: Path) -> int:
    """Start a damaged store and take every message. Returns the number of changed records."""
    cases = whole_store(directory, chance)
    store = new_store(directory)
    try:
        store.open()
        queue = store.queue(1, 0, "q", True, False)
        store.all_restored()
        for entry in ready_entries(queue):
            check_body(entry)
        while queue.ready_count:
            for entry in queue.fetch(10, ack_required=True):
                check_body(entry)
    except (StoreError, Unreadable):
        pass
    await store.close()
    return cases


def check_body(entry: object) -> None:
    """A message has the body that was published at its position."""
    expected = BODY % entry.position
    assert entry.message.body in (expected, expected + bytes(400)), entry


async def _round(chance: random.Random) -> int:
    cases = 0
    with tempfile.TemporaryDirectory(dir=_memory_directory()) as name:
        store = new_store(Path(name) / "unused")
        for _ in range(FILES_OF_A_ROUND):
            cases += read_log(chance, store)
            cases += read_segment(chance, store)
        await store.close()
        cases += await start_store(chance, Path(name) / "damaged")
    return cases


def _memory_directory() -> str | None:
    """Where files are not written to a disk, if there is such a place."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def record_round(seed: int, number: int) -> int:
    """One round; returns the number of records that were changed."""
    return asyncio.run(_round(random.Random(f"records {seed} {number}")))
