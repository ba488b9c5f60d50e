"""Reading the log at a restart: each needed record is given to the client that has its kind.

Promise: each client gets its records in the order in which they were written, each once, from the
oldest needed file on. Nothing on disk is changed by reading.

Not promised: that the last records of the newest file were reported as safe. A log may end in the
middle of a record because the node stopped while it wrote; the whole records before it are read.

Damage: bytes that are not a whole record are reported with file and offset, and reading continues
at the next whole record. So a client must tolerate that a record is missing in the middle. In the
last batch of the newest file such bytes are not damage: the node was writing them when it stopped
(torn_end.py). None of that batch was confirmed, and it is not reported as a loss.

Invariants:

RV1  The last OLDEST of the newest readable file names the oldest needed file, or else that file's
     header does. Older files are stale: a file that was removed may be back after a power cut.
RV2  A record of a kind that no client has stops the start: skipping it would break the promise
     to its writer. The error names the feature that wrote it (formats.py, named records).
RV3  Files are read from the oldest to the newest, each from its beginning to its end.
RV4  The records read are synced before a file is removed or cut because of them (store.py): after
     a kill they may be in the system's memory only, and a power cut would undo them.
RV5  In a torn batch, a record that takes messages away counts only if everything before it in the
     batch is whole: a message may have gone from one queue to another in that batch (a quorum
     queue's returned messages, and its dead letters), and be in neither otherwise.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from leveret.storage.disk.disk import Disk, StoreError
from leveret.storage.log.log_client import RecordReader
from leveret.storage.log.log_files import LogFile, log_numbers, log_path, synced_bytes
from leveret.storage.log.torn_end import torn_from
from leveret.storage.messages.formats import (
    CLOSED,
    FILE_HEADER_BYTES,
    LOG_MAGIC,
    OLDEST,
    Damage,
    FormatError,
    ScannedRecord,
    VersionError,
    decode_file_header,
    decode_oldest,
    feature_of,
    read_records,
)
from leveret.storage.messages.intervals import Intervals

PROGRESS_RECORDS = 2_000
"""Progress is reported each time this many records were read."""
TORN = 0
"""The size of a file with a torn batch in it: the number of bytes that count is unknown."""


class LogReader:
    """Reads a log. clients: the registered ones, by the kinds of their records.

    files: those to be kept. stale: files that are no longer needed. next_number: that of the file
    to begin next. damage: the damaged or missing parts of each file, as sentences. torn: the data
    that the node was writing when it stopped, as sentences. records: the number read. was_closed:
    the node was stopped cleanly.
    """

    def __init__(self, directory: Path, disk: Disk, clients: Sequence[RecordReader]) -> None:
        self._directory = directory
        self._disk = disk
        self._clients = {kind: client for client in clients for kind in client.kinds}
        self.files: list[LogFile] = []
        self.stale: list[Path] = []
        self.next_number = 1
        self.damage: dict[Path, list[str]] = {}
        self.torn: list[str] = []
        self.records = 0
        self.was_closed = False
        self._has_gap = False

    def read(self, progress: Callable[[int, int], object] = lambda done, total: None) -> None:
        """Read every file that is needed. progress: called with the bytes read so far and in total.

        Raises StoreError if a file cannot be read at all, is of another version, or has records of
        a client that is not registered.
        """
        numbers = log_numbers(self._disk, self._directory)
        if not numbers:
            return
        self.next_number = numbers[-1] + 1
        needed = self._needed(numbers)
        sizes = [self._disk.size(self._path(number)) for number in needed]
        for place, number in enumerate(needed):
            size = synced_bytes(self._disk, self._directory, number, numbers)
            before, total = sum(sizes[:place]), sum(sizes)
            for offset in self._read_file(number, size):
                progress(before + offset, total)

    def _needed(self, numbers: list[int]) -> list[int]:
        """The needed files that exist; missing ones are reported."""
        oldest = self._oldest(numbers)
        present = [number for number in numbers if number >= oldest]
        self.stale = [self._path(number) for number in numbers if number < oldest]
        there = Intervals((number, number + 1) for number in present)
        for start, end in there.gaps(oldest or present[0], present[-1]):
            path = self._path(start)
            if end - start == 1:
                self._report(path, f"{path} is missing: data that only it held is lost")
            else:
                files = f"{path} to {self._path(end - 1)}"
                self._report(path, f"{files} are missing: data that only they held is lost")
        return present

    def _oldest(self, numbers: list[int]) -> int:
        """The oldest file that is needed (RV1).

        A file cannot declare itself unneeded, so a number above its own does not count.
        """
        for number in reversed(numbers):
            data = self._disk.read_all(self._path(number))
            try:
                said = [decode_file_header(data, LOG_MAGIC).oldest]
            except FormatError as error:
                self._refuse_other_version(number, error)
                continue
            for record in read_records(data, FILE_HEADER_BYTES):
                if isinstance(record, ScannedRecord) and record.kind == OLDEST:
                    said.append(decode_oldest(record.head))
            return next((oldest for oldest in reversed(said) if oldest <= number), 0)
        return 0

    def _path(self, number: int) -> Path:
        return log_path(self._directory, number)

    def _refuse_other_version(self, number: int, error: FormatError) -> None:
        """Raise an error: a file of another version is not damaged, and must not be changed."""
        if isinstance(error, VersionError):
            raise StoreError(
                f"{self._path(number)} cannot be read: {error}; start the version that wrote it"
            )

    def _report(self, path: Path, problem: str) -> None:
        self.damage.setdefault(path, []).append(problem)

    @property
    def problems(self) -> list[str]:
        """The damaged or missing parts, in the order of the files."""
        return [problem for path in sorted(self.damage) for problem in self.damage[path]]

    def _read_file(self, number: int, size: int | None) -> Iterator[int]:
        """Read a file of which `size` bytes count; None if that is unknown.

        Yields the number of bytes read from time to time.
        """
        path = self._path(number)
        data = self._disk.read_all(path)
        if size is not None and len(data) < size:
            self._report(path, f"{path} ends at offset {len(data)}, and had {size} bytes")
        data = data[:size]
        assert not self.files or self.files[-1].number < number, "RV3: files are read in order"
        file = LogFile(number, path, len(data))
        self.files.append(file)
        may_be_torn_from = torn_from(data) if size is None else len(data)
        try:
            decode_file_header(data, LOG_MAGIC)
        except FormatError as error:
            self._refuse_other_version(number, error)
            # A file whose first batch is torn may have a torn header, too.
            if data.strip(b"\0") and may_be_torn_from > FILE_HEADER_BYTES:
                self._report(path, f"{path}: {error}; its records are read all the same")
        self.was_closed = self._has_gap = False
        for record in read_records(data, FILE_HEADER_BYTES):
            is_torn = record.offset >= may_be_torn_from
            self._has_gap &= is_torn
            if isinstance(record, Damage):
                self._has_gap = is_torn
                self._note_damage(file, data, record, is_torn)
            else:
                self._hand_out(file, data, record, is_torn)
            if not self.records % PROGRESS_RECORDS:
                yield record.end

    def _note_damage(self, file: LogFile, data: bytes, damage: Damage, is_torn: bool) -> None:
        lost = damage.end - damage.offset
        if is_torn:
            # Zeros after the data are space that was allocated ahead.
            file.size = damage.offset if damage.is_end and file.size else TORN
            if data[damage.offset : damage.end].strip(b"\0"):
                where = f"{file.path} has {lost} bytes at offset {damage.offset}"
                self._note_torn(f"{where} that are not a whole record")
            return
        self._report(
            file.path,
            f"{file.path} is damaged from offset {damage.offset} to {damage.end}: "
            f"the records in these {lost} bytes are lost",
        )

    def _note_torn(self, what: str) -> None:
        self.torn.append(
            f"{what}: the node stopped while it wrote them, before anything in them was confirmed"
        )

    def _hand_out(self, file: LogFile, data: bytes, record: ScannedRecord, is_torn: bool) -> None:
        self.records += 1
        self.was_closed = record.kind == CLOSED
        if record.kind in (CLOSED, OLDEST):
            return
        client = self._clients.get(record.kind)
        if client is None:
            raise _unregistered(file, record)
        if self._has_gap and record.kind in client.removing_kinds:
            return
        try:
            problem = client.recover(file, data, record)
        except FormatError as error:
            problem = f"has a damaged record at offset {record.offset}: {error}"
        if problem is None:
            return
        if is_torn:
            self._has_gap = True
            file.size = TORN
            size = record.end - record.offset
            self._note_torn(f"{file.path} has {size} bytes at offset {record.offset} that are torn")
        else:
            self._report(file.path, f"{file.path} {problem}")


def _unregistered(file: LogFile, record: ScannedRecord) -> StoreError:
    feature = feature_of(record)
    what = f"a record of kind {record.kind} at offset {record.offset}"
    if not feature:
        return StoreError(
            f"{file.path} has {what}, which this version of Leveret does not know; "
            "start the version that wrote it"
        )
    return StoreError(
        f"{file.path} has {what}, which the feature {feature!r} wrote and which this node does not "
        f"have; start a version of Leveret that has {feature!r}, or its data would be lost"
    )
