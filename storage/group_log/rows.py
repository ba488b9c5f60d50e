"""Rows on disk that are changed together: the snapshots of groups, and where their entries are.

A row is bytes, and belongs to a group and a log file (`STATE`: to the group only). A round puts and
deletes rows of any number of groups. Either the whole round takes effect, or nothing of it.

**Promise.** When `change` has returned, the round is on disk, and a restart finds all rows as they
are then. After a crash during `change`, or an error, it finds them as they were before.

**Not promised.** That damaged rows can be read: their groups are named, and all other rows can be
trusted. If a whole round is damaged, no group can be trusted, because any row may be out of date.

**Mechanism.** Rounds are appended to one file and synced. A round consists of its rows and then a
record that lists them. Bytes after the last such record are an unfinished round, and are removed.
So is a last round that lacks one of its rows, since a disk writes the sectors of one round in any
order. When most of the file consists of replaced rows, all rows are written to a new file, which is
then renamed to take its place. The records have the format of formats.py, with kinds of their own.

Invariants:

RO1  The rows of a round are used only if all of them, and the record that ends it, are on disk.
RO2  Rounds have consecutive numbers in one file, from 1.
RO3  The file with the highest number is the current one. It was synced before it got its name.
"""

import struct
from pathlib import Path
from typing import NamedTuple

from leveret.storage.disk.disk import Disk, DiskFull, StoreError
from leveret.storage.messages.checksum import crc32
from leveret.storage.messages.formats import (
    FILE_HEADER_BYTES,
    RECORD_BYTES,
    Damage,
    FormatError,
    VersionError,
    decode_file_header,
    encode_file_header,
    encode_record,
    read_records,
)

MAGIC = b"LvrtGrp\0"
SUFFIX = ".groups"
STATE = 0
"""The file number of the row that belongs to the group only."""
ROW, ROUND = 32, 33
GARBAGE_BYTES_MIN = 1024 * 1024

_ROW = struct.Struct("<QQI")
_ROUND = struct.Struct("<QII")
_KEY = struct.Struct("<QQ")


class Key(NamedTuple):
    """Identifies a row."""

    group: int
    file: int


class _Place(NamedTuple):
    """Where a row's bytes are."""

    offset: int
    size: int


class _Round:
    """A round that was read. end: its end in the file. rows: those that are intact."""

    __slots__ = ("deleted", "end", "number", "put", "rows")

    def __init__(self, head: bytes, end: int, rows: dict[Key, _Place]) -> None:
        self.number, put, deleted = _ROUND.unpack_from(head)
        places = range(_ROUND.size, _ROUND.size + _KEY.size * (put + deleted), _KEY.size)
        keys = [Key(*_KEY.unpack_from(head, at)) for at in places]
        self.put, self.deleted = keys[:put], keys[put:]
        self.end = end
        self.rows = rows

    @property
    def is_whole(self) -> bool:
        """Whether all rows of the round are intact (RO1)."""
        return all(key in self.rows for key in self.put)


class GroupRows:
    """All rows. Call `load` first, then `change` and `read`; for one thread at a time.

    damaged: the groups with a row that cannot be read. is_doubtful: no group can be trusted.
    problems: descriptions of the damage, as sentences.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._directory = directory
        self._disk = disk
        self._places: dict[Key, _Place] = {}
        self._number = self._end = self._round = self._used = 0
        self.damaged: set[int] = set()
        self.is_doubtful = self._has_failed = False
        self.problems: list[str] = []

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:010d}{SUFFIX}"

    @property
    def path(self) -> Path:
        """The path of the current file."""
        return self._path(self._number)

    @property
    def keys(self) -> set[Key]:
        """The keys of all rows."""
        return set(self._places)

    # Reading

    def load(self, changes_files: bool = True) -> dict[Key, bytes]:
        """Read all rows. Raises StoreError if the file cannot be read, or another version wrote it.

        changes_files: whether files that are not needed are removed.
        """
        numbers = row_file_numbers(self._disk, self._directory)
        if not numbers:
            return {}
        self._number = numbers[-1]
        data = self._disk.read_all(self.path)
        try:
            decode_file_header(data, MAGIC)
        except VersionError as error:
            raise StoreError(
                f"{self.path} cannot be read: {error}; start the version that wrote it"
            ) from error
        except FormatError as error:
            self.problems.append(f"{self.path}: {error}; its rows are read all the same")
        self._read_rounds(data)
        if changes_files:
            if len(data) > self._end:
                self._disk.truncate(self.path, self._end)
            for number in numbers[:-1]:
                self._disk.remove(self._path(number))
            for name in self._disk.names_in(self._directory):
                if name.endswith(SUFFIX + ".new"):
                    self._disk.remove(self._directory / name)
        found = {}
        for key, place in self._places.items():
            found[key] = data[place.offset : place.offset + place.size]
        return found

    def _read_rounds(self, data: bytes) -> None:
        self._end = FILE_HEADER_BYTES
        rows: dict[Key, _Place] = {}
        last: _Round | None = None
        for record in read_records(data, FILE_HEADER_BYTES):
            if isinstance(record, Damage):
                continue
            if record.kind == ROW:
                group, file, crc = _ROW.unpack_from(record.head)
                if crc32(data[record.body_offset : record.end]) == crc:
                    place = _Place(record.body_offset, record.end - record.body_offset)
                    rows[Key(group, file)] = place
            elif record.kind == ROUND:
                if last is not None:
                    self._take_round(last)
                last, rows = _Round(record.head, record.end, rows), {}
        if last is not None and (last.is_whole or last.number == 1):  # RO3
            self._take_round(last)
        if not self._round:
            self.is_doubtful = True
            self.problems.append(f"{self.path} has no rows that can be read")
        self._used = sum(place.size for place in self._places.values())

    def _take_round(self, found: "_Round") -> None:
        if found.number != self._round + 1:
            self.is_doubtful = True
            self.problems.append(
                f"{self.path} has lost rounds {self._round + 1} to {found.number - 1}"
            )
        self._round, self._end = found.number, found.end
        for key in found.put:
            if key in found.rows:
                self._places[key] = found.rows[key]
            else:
                self._places.pop(key, None)
                self.damaged.add(key.group)
                self.problems.append(f"{self.path}: a row of group {key.group} is damaged")
        for key in found.deleted:
            self._places.pop(key, None)

    def read(self, key: Key) -> bytes:
        """A row. Raises KeyError if there is none, StoreError if it cannot be read."""
        place = self._places[key]
        return self._disk.read(self.path, place.offset, place.size)

    # Changing

    def change(self, put: dict[Key, bytes], delete: set[Key]) -> None:
        """Write a round. For a worker's thread. Raises StoreError.

        After DiskFull it may be called again. After any other error it is unknown what is on disk.
        """
        if self._has_failed:
            raise StoreError(f"{self.path} is no longer written: an earlier sync failed")
        try:
            self._change(put, delete)
        except DiskFull:
            raise
        except BaseException:
            self._has_failed = True
            raise

    def _change(self, put: dict[Key, bytes], delete: set[Key]) -> None:
        garbage = self._end - self._used
        if not self._number or garbage > max(GARBAGE_BYTES_MIN, self._used):
            self._rewrite(put, delete)
            return
        records, places = _encode_round(self._round + 1, self._end, put, delete)
        descriptor = self._disk.open(self.path)
        try:
            self._disk.write(descriptor, self.path, records, self._end)
            self._disk.passed("groups.written")
            self._disk.sync(descriptor, self.path)
        finally:
            self._disk.close(descriptor)
        self._disk.passed("groups.synced")
        self._round += 1
        self._end += len(records)
        self._take_over(places, delete)

    def _rewrite(self, put: dict[Key, bytes], delete: set[Key]) -> None:
        """Write all rows, with the changes, to a new file (RO3)."""
        kept = {
            key: self.read(key) for key in self._places if key not in put and key not in delete
        } | put
        records, places = _encode_round(1, FILE_HEADER_BYTES, kept, set())
        number = self._number + 1
        path, new = self._path(number), self._directory / f"{number:010d}{SUFFIX}.new"
        descriptor = self._disk.create(new)
        try:
            self._disk.write(descriptor, new, encode_file_header(MAGIC, number) + records, 0)
            self._disk.sync(descriptor, new)
        finally:
            self._disk.close(descriptor)
        self._disk.passed("groups.written")
        self._disk.rename(new, path)
        self._disk.sync_directory(self._directory)
        self._disk.passed("groups.synced")
        old, self._number = self._number, number
        self._round, self._end = 1, FILE_HEADER_BYTES + len(records)
        self._places = {}
        self._take_over(places, set())
        if old:
            self._disk.remove(self._path(old))

    def _take_over(self, places: dict[Key, _Place], delete: set[Key]) -> None:
        self._places.update(places)
        for key in delete:
            self._places.pop(key, None)
        self._used = sum(place.size for place in self._places.values())


def _encode_round(
    number: int, offset: int, put: dict[Key, bytes], delete: set[Key]
) -> tuple[bytes, dict[Key, _Place]]:
    """The records of a round, and the places of its rows. offset: of the round in the file."""
    pieces: list[bytes] = []
    places = {}
    for key, row in put.items():
        pieces += (encode_record(ROW, _ROW.pack(*key, crc32(row)), len(row)), row)
        places[key] = _Place(offset + RECORD_BYTES + _ROW.size, len(row))
        offset = places[key].offset + len(row)
    keys = b"".join([_KEY.pack(*key) for key in (*put, *sorted(delete))])
    pieces.append(encode_record(ROUND, _ROUND.pack(number, len(put), len(delete)) + keys))
    return b"".join(pieces), places


def row_file_numbers(disk: Disk, directory: Path) -> list[int]:
    """The numbers of the files with rows in a directory, in order."""
    names = [Path(name) for name in disk.names_in(directory)]
    return [int(name.stem) for name in names if name.suffix == SUFFIX and name.stem.isdigit()]
