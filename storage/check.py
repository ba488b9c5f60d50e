"""Checking and repairing the files of a stopped node.

`check_store` reads every file from beginning to end, counts what is in it and lists its problems.
`repair_store` does the same and rewrites each damaged log file or segment with its intact records;
a copy of the damaged file is kept in `damaged/` in the data directory. A node can start on a
damaged store without a repair, but it then reports the same losses at each start.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from leveret.storage.checksum import crc32
from leveret.storage.disk import Disk, StoreError
from leveret.storage.formats import (
    BODIES_MAGIC,
    CLOSED,
    FILE_HEADER_BYTES,
    LOG_MAGIC,
    RUN,
    SEGMENT_MAGIC,
    STATE,
    STORED,
    Damage,
    FormatError,
    Record,
    decode_file_header,
    decode_run,
    decode_state,
    encode_file_header,
    encode_run,
    read_records,
)
from leveret.storage.log_files import synced_bytes
from leveret.storage.message_store import bodies_path
from leveret.storage.torn_end import torn_from

LOG, QUEUES, BODIES, DAMAGED = "log", "queues", "bodies", "damaged"
TORN = "bytes that the node was writing when it stopped"
MAGICS = {".log": LOG_MAGIC, ".segment": SEGMENT_MAGIC, ".bodies": BODIES_MAGIC}

Progress = Callable[[int, int], object]


class FileReport(NamedTuple):
    """What was found in one file. counts: records, by description. problems: sentences."""

    path: Path
    size: int
    counts: dict[str, int]
    problems: list[str]


def store_files(directory: Path) -> list[Path]:
    """Every file of a store but the metadata: logs, segments, bodies, each sorted."""
    found: list[Path] = []
    for name, pattern in ((LOG, "*.log"), (QUEUES, "*/*.segment"), (BODIES, "*.bodies")):
        found += sorted((directory / name).glob(pattern))
    return found


def check_store(directory: Path, progress: Progress = lambda done, total: None) -> list[FileReport]:
    """Read all files. progress: called with the bytes read so far and in total."""
    disk = Disk()
    paths = store_files(directory)
    sizes = [disk.size(path) for path in paths]
    logs = [int(path.stem) for path in paths if path.suffix == ".log"]
    reports, done = [], 0
    for path, size in zip(paths, sizes, strict=True):
        progress(done, sum(sizes))
        if path.suffix == ".log":
            reports.append(_check_log(disk, directory, path, logs))
        else:
            reports.append(check_file(disk, directory, path))
        done += size
    progress(done, sum(sizes))
    return reports + list(_missing_logs(paths))


def _missing_logs(paths: list[Path]) -> Iterator[FileReport]:
    logs = [path for path in paths if path.suffix == ".log"]
    for before, after in pairwise(logs):
        start, end = int(before.stem) + 1, int(after.stem)
        if start < end:
            problem = "it is missing"
            if end - start > 1:
                problem += f", and so are all up to {end - 1:010d}.log"
            yield FileReport(before.with_name(f"{start:010d}.log"), 0, {}, [problem])


def _check_log(disk: Disk, directory: Path, path: Path, numbers: list[int]) -> FileReport:
    """Read a log file. numbers: of all, in order.

    What the node was writing when it stopped is counted, and is no problem: nothing in there was
    confirmed (torn_end.py).
    """
    try:
        size = synced_bytes(disk, path.parent, int(path.stem), numbers)
        data = disk.read_all(path)
    except StoreError as error:
        return FileReport(path, disk.size(path), {"messages": 0}, [str(error)])
    return check_file(disk, directory, path, torn_from(data) if size is None else size)


def check_file(
    disk: Disk, directory: Path, path: Path, may_be_torn_from: int | None = None
) -> FileReport:
    """Read one file. may_be_torn_from: the offset from which on damage is no problem, if any."""
    counts = {"messages": 0}
    try:
        data = disk.read_all(path)
        decode_file_header(data, MAGICS[path.suffix])
    except (StoreError, FormatError) as error:
        return FileReport(path, disk.size(path), counts, [str(error)])
    if path.suffix == ".bodies":
        return FileReport(path, len(data), {"bytes of bodies": len(data) - FILE_HEADER_BYTES}, [])
    synced_to = len(data) if may_be_torn_from is None else may_be_torn_from
    problems: list[str] = []
    for record in read_records(data, FILE_HEADER_BYTES):
        if isinstance(record, Damage):
            found = _check_damage(data, record)
        else:
            found = list(_check_record(disk, directory, data, record, counts))
        if record.offset < synced_to:
            problems += found
        elif found:
            counts[TORN] = counts.get(TORN, 0) + record.end - record.offset
    return FileReport(path, len(data), counts, problems)


def _check_damage(data: bytes, damage: Damage) -> list[str]:
    """Zeros are space that was allocated ahead of the data."""
    if not data[damage.offset : damage.end].strip(b"\0"):
        return []
    return [f"bytes {damage.offset} to {damage.end} are no whole record"]


def _check_record(
    disk: Disk, directory: Path, data: bytes, record: Record, counts: dict[str, int]
) -> Iterator[str]:
    if record.kind == STATE:
        counts["states of queues"] = counts.get("states of queues", 0) + 1
        decode_state(record.head)
    elif record.kind == CLOSED:
        counts["closed cleanly"] = 1
    elif record.kind == RUN:
        run = decode_run(record.head)
        counts["messages"] += len(run.sizes)
        if run.flags & STORED:
            for place, (size, crc) in enumerate(zip(run.sizes, run.crcs, strict=True)):
                number, offset = run.stored[2 * place : 2 * place + 2]
                path = bodies_path(directory / BODIES, number)
                yield from _check_body(disk, path, offset, size, crc)
            return
        offset = record.body_offset
        for size, crc in zip(run.sizes, run.crcs, strict=True):
            if crc32(data[offset : offset + size]) != crc:
                yield f"a message of {size} bytes at offset {offset} is damaged"
            offset += size


def _check_body(disk: Disk, path: Path, offset: int, size: int, crc: int) -> Iterator[str]:
    try:
        body = disk.read(path, offset, size)
    except StoreError as error:
        yield f"a body cannot be read: {error}"
        return
    # Space that a sweep freed reads as zeros: the message is gone, its segment still exists.
    if crc32(body) != crc and body.strip(b"\0"):
        yield f"a body of {size} bytes at offset {offset} of {path} is damaged"


# Repairing


def repair_store(directory: Path, progress: Progress = lambda done, total: None) -> list[Path]:
    """Rewrite damaged files; returns their paths. Raises StoreError."""
    disk = Disk()
    repaired = []
    for report in check_store(directory, progress):
        if report.problems and report.path.suffix != ".bodies" and report.path.exists():
            _refuse_other_versions(report)
            _rewrite(disk, directory, report.path)
            if report.path.suffix == ".log":
                _forget_size(disk, report.path)
            repaired.append(report.path)
    return repaired


def _forget_size(disk: Disk, path: Path) -> None:
    """Clear the size of this log file in the header of the next one: it has changed."""
    number = int(path.stem) + 1
    following = path.with_name(f"{number:010d}.log")
    if not following.exists():
        return
    try:
        header = decode_file_header(disk.read(following, 0, FILE_HEADER_BYTES), LOG_MAGIC)
    except FormatError:
        # That file is damaged too, and is rewritten next.
        return
    descriptor = disk.open(following)
    try:
        disk.write(descriptor, following, encode_file_header(LOG_MAGIC, number, header.oldest), 0)
        disk.sync(descriptor, following)
    finally:
        disk.close(descriptor)


def _refuse_other_versions(report: FileReport) -> None:
    if any("version" in problem for problem in report.problems):
        raise StoreError(f"{report.path} is not damaged: {report.problems[0]}")


def _rewrite(disk: Disk, directory: Path, path: Path) -> None:
    """Copy a file to `damaged/`, and replace it by its intact records.

    Records after a damaged part move to lower offsets. Nothing refers to offsets in a segment. The
    length of a segment in a STATE may become too large, which restoring corrects.
    """
    data = disk.read_all(path)
    aside = directory / DAMAGED / path.relative_to(directory)
    disk.make_directory(aside.parent)
    _write_file(disk, aside, data)
    number = int(path.stem)
    try:
        header = decode_file_header(data, MAGICS[path.suffix])
        start = encode_file_header(header.magic, number, header.oldest)
    except FormatError:
        start = encode_file_header(MAGICS[path.suffix], number)
    records = read_records(data, FILE_HEADER_BYTES)
    whole = [_whole_part(data, record) for record in records if isinstance(record, Record)]
    new = path.with_suffix(".new")
    _write_file(disk, new, start + b"".join(whole))
    disk.rename(new, path)
    disk.sync_directory(path.parent)


def _write_file(disk: Disk, path: Path, data: bytes) -> None:
    descriptor = disk.create(path)
    try:
        disk.write(descriptor, path, data, 0)
        disk.sync(descriptor, path)
    finally:
        disk.close(descriptor)
    disk.sync_directory(path.parent)


def _whole_part(data: bytes, record: Record) -> bytes:
    """A record, without the messages in it that are damaged."""
    if record.kind != RUN:
        return data[record.offset : record.end]
    run = decode_run(record.head)
    if run.flags & STORED:
        return data[record.offset : record.end]
    offset = record.body_offset
    parts = []
    for place, (size, crc) in enumerate(zip(run.sizes, run.crcs, strict=True)):
        body = data[offset : offset + size]
        offset += size
        if crc32(body) != crc:
            continue
        targets = [(key, first + place) for key, first in run.targets]
        parts.append(
            encode_run(
                run.expires_wall_ms, run.flags, targets, run.address, run.header, [body],
                run.number_at(place),
            )
        )  # fmt: skip
        parts.append(body)
    if len(parts) == 2 * len(run.sizes):
        return data[record.offset : record.end]
    return b"".join(parts)
