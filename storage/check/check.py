"""Checking the files of a stopped node.

`check_store` reads every file and lists the damage: the parts that a restart would have to leave
out. It applies the rules of a restart. The same reader reads the log (recovery.py); it knows the
needed files and the batch that was being written when the node stopped. The log names the messages
of each queue that are in segments and not gone, and the check looks for these (check_segments.py).
In the message store it reads only their bodies.

So a check finds no problem in the files of a node that was stopped, killed or cut off from power at
any moment, although files are removed and cut in several steps: a restart does not need the
leftovers of such a step. In particular, a restart does not need

- log files before the oldest needed one, and the torn end of the newest one;
- segments, or bytes at the end of one, that the last STATE of the queue does not count, and those
  whose messages are all gone;
- bodies of messages that are gone, whether their space was freed or not, though their segment is
  there as long as another message in it is not gone; files of bodies that nothing refers to;
- segments of queues that are not declared, and bodies that only these refer to;
- log files that are kept for quorum queues, of which no entry is needed;
- the end of a stream's last segment, and what check_streams.py lists besides.

repair.py repairs the damage.
"""

from collections.abc import Callable, Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from leveret.storage.check.check_groups import GroupsCheck, MessagesIn
from leveret.storage.check.check_segments import (
    MESSAGES,
    BodiesCheck,
    FileReport,
    QueueReport,
    check_queue,
    unneeded,
)
from leveret.storage.check.check_streams import StreamsCheck
from leveret.storage.disk.disk import Disk, StoreError
from leveret.storage.group_log.group_records import QUORUM_RECORDS
from leveret.storage.group_log.group_store import QUORUM
from leveret.storage.log.log_client import RecordReader
from leveret.storage.log.log_files import LogFile
from leveret.storage.log.recovery import LogReader
from leveret.storage.messages.formats import (
    NAMED_KINDS,
    PROGRESS,
    RUN,
    STATE,
    ScannedRecord,
)
from leveret.storage.messages.message import Address, Message
from leveret.storage.queue.queue_keys import storage_id_of
from leveret.storage.queue.queue_recovery import FoundQueue, QueueRecovery
from leveret.storage.segments.segments import segment_numbers, segment_path
from leveret.storage.stream_groups.stream_entries import STREAM_RECORDS
from leveret.storage.stream_groups.stream_group_store import LOGS, STREAMS

LOG, QUEUES, BODIES = "log", "queues", "bodies"
STATES = "states of queues"
READ = (f"{LOG}/*.log", f"{QUEUES}/*/*.segment", f"{STREAMS}/{LOGS}/*/*.segment")
"""The files that a check reads whole: most of the bytes of a store."""

Progress = Callable[[int, int], object]


class StoreReport(NamedTuple):
    """The result of a check. queues: those with damaged segments.

    log: the queues as a restart reads them from the log; None if it cannot be read. groups: those
    of quorum queues. streams: those of streams.
    """

    files: list[FileReport]
    queues: list[QueueReport]
    log: LogReader | None
    groups: GroupsCheck
    streams: StreamsCheck

    @property
    def problems(self) -> list[str]:
        """All problems of all files, as sentences."""
        return [problem for report in self.files for problem in report.problems]


class DeclaredIds(NamedTuple):
    """The storage ids of durable queues, and of exchanges that store messages.

    movable: the ids of queues that a cluster may have moved from this node to another one.
    """

    here: Collection[int]
    movable: Collection[int] = ()


def check_store(
    directory: Path,
    declared: DeclaredIds | None = None,
    progress: Progress = lambda done, total: None,
    messages_in: MessagesIn = lambda entry: 0,
) -> StoreReport:
    """Read all files. Raises StoreError if an existing file cannot be read.

    progress: called with the bytes read so far and in total. messages_in: counts the messages in an
    entry of a group.

    declared: if None, all queues that have files or log records count as declared.
    """
    return _StoreCheck(directory, declared, progress, messages_in).run()


class _StoreCheck:
    def __init__(
        self, directory: Path, declared: DeclaredIds | None, progress: Progress,
        messages_in: MessagesIn,
    ) -> None:  # fmt: skip
        self._directory = directory
        self._declared = declared
        self._progress = progress
        self._disk = Disk()
        self._bodies = BodiesCheck(self._disk, directory / BODIES)
        self._records = _CountedRecords()
        log = directory / LOG
        self._groups = GroupsCheck(self._disk, log, directory / QUORUM, messages_in)
        self._streams = StreamsCheck(self._disk, log, directory / STREAMS)
        files = [directory.glob(pattern) for pattern in READ]
        self._total = sum(self._disk.size(path) for found in files for path in found)
        self._done = 0

    def run(self) -> StoreReport:
        readers: list[RecordReader] = [
            self._records, self._groups, self._streams, _OtherRecords(),
        ]  # fmt: skip
        reader = LogReader(self._directory / LOG, self._disk, readers)
        try:
            reader.read(lambda done, _: self._progress(done, self._total))
        except StoreError as error:
            # Other files cannot be checked: a node does not start on this log either.
            file = FileReport(self._directory / LOG, 0, {}, [str(error)])
            return StoreReport([file], [], None, self._groups, self._streams)
        files, queues = list(self._log_reports(reader)), []
        oldest = reader.files[0].number if reader.files else reader.next_number
        self._done = sum(report.size for report in files)
        for report in chain(self._groups.reports(oldest), self._streams.reports(oldest)):
            files.append(report)
            self._done += report.size
            self._progress(self._done, self._total)
        for key in self._keys():
            reports, queue = self._check_queue(key)
            files += reports
            if queue is not None:
                queues.append(queue)
            self._done += sum(report.size for report in reports)
            self._progress(self._done, self._total)
        files += self._bodies.reports()
        return StoreReport(files, queues, reader, self._groups, self._streams)

    def _log_reports(self, reader: LogReader) -> Iterator[FileReport]:
        for path in reader.stale:
            yield unneeded(self._disk, path)
        damage = dict(reader.damage)
        for file in reader.files:
            counts = self._records.counts.get(file.number, {MESSAGES: 0})
            for groups in (self._groups, self._streams):
                for what, count in groups.counts.get(file.number, {}).items():
                    counts[what] = counts.get(what, 0) + count
            if reader.was_closed and file is reader.files[-1]:
                counts["closed cleanly"] = 1
            size = self._disk.size(file.path)
            yield FileReport(file.path, size, counts, damage.pop(file.path, []))
        for path, problems in damage.items():
            yield FileReport(path, 0, {}, problems)

    def _keys(self) -> list[int]:
        """The keys of all queues that have segments, or messages that should be in segments."""
        names = self._disk.names_in(self._directory / QUEUES)
        with_state = [key for key, found in self._records.found.items() if found.flushed_to]
        return sorted({int(name) for name in names if name.isdigit()}.union(with_state))

    def _check_queue(self, key: int) -> tuple[list[FileReport], QueueReport | None]:
        directory = self._directory / QUEUES / str(key)
        declared, id = self._declared, storage_id_of(key)
        is_here = declared is None or id in declared.here
        if is_here or (declared is not None and id in declared.movable):
            found = self._records.found.get(key, FoundQueue())
            return check_queue(self._disk, self._bodies, directory, key, found, is_here)
        numbers = segment_numbers(self._disk, directory)
        return [unneeded(self._disk, segment_path(directory, number)) for number in numbers], None


class _AnyHeader:
    """Stands for the properties of any message: a check does not look at them."""

    raw = stored = b""
    priority = None
    is_persistent = True

    def as_persistent(self) -> "_AnyHeader":
        """The same object: a check does not look at properties."""
        return self


_ANY_MESSAGE = Message(Address("", "", b""), _AnyHeader(), b"")


class _CountedRecords:
    """Reads the records of queues as a restart does, and counts them by file number."""

    kinds = frozenset({RUN, PROGRESS, STATE})
    removing_kinds = frozenset({PROGRESS, STATE})

    def __init__(self) -> None:
        self._recovery = QueueRecovery(lambda run, bodies: [_ANY_MESSAGE] * len(bodies))
        self.found = self._recovery.found
        self.counts: dict[int, dict[str, int]] = {}

    def recover(self, file: LogFile, data: bytes, record: ScannedRecord) -> str | None:
        """Accept and count a record. Returns a description of damage in it, or None."""
        counts = self.counts.setdefault(file.number, {MESSAGES: 0})
        if record.kind == RUN:
            run, problem = self._recovery.take_run(data, record)
            counts[MESSAGES] += len(run.sizes)
            return problem
        self._recovery.take(record)
        if record.kind == STATE:
            counts[STATES] = counts.get(STATES, 0) + 1
        return None


class _OtherRecords:
    """Accepts the records of all other features: each checks its own when the node starts."""

    kinds = frozenset(NAMED_KINDS) - {QUORUM_RECORDS.kind, STREAM_RECORDS.kind}
    removing_kinds: frozenset[int] = frozenset()

    def recover(self, file: LogFile, data: bytes, record: ScannedRecord) -> str | None:
        """Accept any record."""
        return None
