"""Finds all records of given messages in the files of a trace, using several processes.

Files are searched in order of time, several at once (a wave). In each file, byte_finder.py looks
for the bytes that a wanted record contains, and only lines with a match are parsed. A message-id
leads to message numbers, and a dead letter to the number of the new message; numbers that are found
are then searched in the same file and in the other files of the wave.
"""

import json
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from leveret.analytics.journey.byte_finder import ByteFinder
from leveret.analytics.traces.log_blocks import LogBlock, Problem, read_blocks
from leveret.analytics.traces.trace_files import TraceFile, TraceWindow
from leveret.broker.tracing import record
from leveret.broker.tracing.block_lines import RecordBlock

Record = dict[str, Any]
WAVE_FILES_PER_PROCESS = 4
GAPS_MAX, PROBLEMS_MAX = 10_000, 1_000
"""Limits for one file: records of gaps and purges, and problems."""


class WantedMessages(NamedTuple):
    """The messages to find: those with one of these ids or numbers, in the window.

    with_gaps: also return records of gaps and of purges of whole queues.
    """

    message_ids: frozenset[str] = frozenset()
    correlation_ids: frozenset[str] = frozenset()
    numbers: frozenset[int] = frozenset()
    window: TraceWindow = TraceWindow()
    with_gaps: bool = True


class Found(NamedTuple):
    """The result for one file. lines: the wanted records, as JSON. numbers: all message numbers
    known.

    sample: from the file's header. last_us: the time of its last record; 0 if there is none.
    """

    lines: list[bytes]
    gaps: list[bytes]
    numbers: frozenset[int]
    problems: list[Problem]
    sample: int
    last_us: int
    unpacked_bytes: int


@dataclass
class SearchResult:
    """The result for all files. records, gaps: in order of time. samples: the sampling factors
    found.
    """

    records: list[Record] = field(default_factory=list)
    gaps: list[Record] = field(default_factory=list)
    numbers: set[int] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)
    samples: set[int] = field(default_factory=set)
    last_us: int = 0
    files: int = 0
    file_bytes: int = 0
    unpacked_bytes: int = 0

    def add(self, found: Found, seen: set[bytes]) -> None:
        """Add the result of a file, except for lines in `seen`."""
        for lines, records in ((found.lines, self.records), (found.gaps, self.gaps)):
            for line in lines:
                if line not in seen:
                    seen.add(line)
                    records.append(json.loads(line))
        self.records.sort(key=_order)
        self.numbers |= found.numbers
        self.problems += [problem for problem in found.problems if problem not in self.problems]
        self.samples |= {found.sample} - {0}
        self.last_us = max(self.last_us, found.last_us)
        self.unpacked_bytes += found.unpacked_bytes


def search(
    files: Sequence[TraceFile],
    wanted: WantedMessages,
    processes: int,
    is_enough: Callable[[SearchResult], bool] = lambda result: False,
    progress: Callable[[int, int], object] = lambda done, of: None,
) -> SearchResult:
    """Search files. is_enough: called after each wave, may end the search. progress: bytes done,
    total.
    """
    result, seen = SearchResult(numbers=set(wanted.numbers)), set[bytes]()
    total = sum(file.size for file in files)
    with _Pool(processes) as pool:
        for wave in _waves(files, processes):
            _search_wave(pool, wave, wanted, result, seen)
            result.files += len(wave)
            result.file_bytes += sum(file.size for file in wave)
            progress(result.file_bytes, total)
            if is_enough(result):
                break
    result.gaps.sort(key=_time_of)
    return result


def _waves(files: Sequence[TraceFile], processes: int) -> Iterator[Sequence[TraceFile]]:
    """Split files into waves, small ones first: most messages leave their queues soon."""
    at, size = 0, processes
    while at < len(files):
        yield files[at : at + size]
        at += size
        size = min(2 * size, processes * WAVE_FILES_PER_PROCESS)


def _search_wave(
    pool: "_Pool",
    wave: Sequence[TraceFile],
    wanted: WantedMessages,
    result: SearchResult,
    seen: set[bytes],
) -> None:
    sought = wanted._replace(numbers=frozenset(result.numbers))
    asked = [(file, sought) for file in wave]
    known = dict.fromkeys(wave, frozenset[int]())
    while asked:
        for (file, _), found in zip(asked, pool.scan(asked), strict=True):
            known[file] |= found.numbers
            result.add(found, seen)
        everything = frozenset(result.numbers)
        asked = [
            (
                file,
                WantedMessages(
                    numbers=everything - known[file], window=wanted.window, with_gaps=False
                ),
            )
            for file in wave
            if everything - known[file]
        ]


class _Pool:
    """A pool of processes that search files; a single process searches in this one."""

    def __init__(self, processes: int) -> None:
        self._executor = None
        if processes > 1:
            context = multiprocessing.get_context("forkserver")
            self._executor = ProcessPoolExecutor(processes, mp_context=context)

    def __enter__(self) -> "_Pool":
        return self

    def __exit__(self, *failure: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def scan(self, asked: Iterable[tuple[TraceFile, WantedMessages]]) -> Iterator[Found]:
        """Search each file."""
        if self._executor is None:
            return map(scan_file, asked)
        return self._executor.map(scan_file, asked)


def scan_file(asked: tuple[TraceFile, WantedMessages]) -> Found:
    """Search one file."""
    file, wanted = asked
    scan = _Scan(file, wanted)
    for block in read_blocks(file, scan.problems, scan.is_wanted):
        if not scan.take(block):
            break
    return scan.found()


class _Scan:
    """The search of one file."""

    def __init__(self, file: TraceFile, wanted: WantedMessages) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._wanted = wanted
        self._numbers = set(wanted.numbers)
        self._finder = ByteFinder(
            wanted.message_ids | wanted.correlation_ids, wanted.numbers, wanted.with_gaps
        )
        self._lines: list[bytes] = []
        self._gaps: list[bytes] = []
        self._sample = self._last_us = self._unpacked_bytes = 0
        self._is_first = True

    def found(self) -> Found:
        """Return the result."""
        return Found(
            self._lines, self._gaps, frozenset(self._numbers), self.problems[:PROBLEMS_MAX],
            self._sample, self._last_us, self._unpacked_bytes,
        )  # fmt: skip

    def is_wanted(self, block: RecordBlock) -> bool:
        """Tell whether a block of records may have wanted ones."""
        self._last_us = max(self._last_us, block.to_us)
        is_wanted = self._finder.may_be_in(block)
        if not is_wanted:
            self._unpacked_bytes += len(block.data)
        return is_wanted

    def take(self, block: LogBlock) -> bool:
        """Search a block. False if the file cannot be read any further."""
        data = block.data
        if self._is_first and not self._take_header(data[: data.index(b"\n")]):
            return False
        self._unpacked_bytes += len(data)
        at = 0
        while (hit := self._finder.find(data, at)) >= 0:
            start, at = data.rfind(b"\n", 0, hit) + 1, data.index(b"\n", hit) + 1
            self._take_line(data, start, at, block.line)
        self._finder.end_block()
        last = _parsed(data[data.rfind(b"\n", 0, len(data) - 1) + 1 :])
        if last is not None:
            self._last_us = max(self._last_us, _time_of(last))
        return True

    def _take_header(self, line: bytes) -> bool:
        self._is_first = False
        header = _parsed(line)
        if header is None or header.get("event") != record.HEADER:
            self._note(1, "no header; the file is read without it")
            return True
        version = header.get("version")
        if not isinstance(version, int) or version > record.VERSION:
            self._note(None, f"is of version {version}; the latest supported is {record.VERSION}")
            return False
        sample = header.get("sample")
        self._sample = sample if isinstance(sample, int) else 1
        return True

    def _take_line(self, data: bytes, start: int, stop: int, first_line: int) -> None:
        line = data[start : stop - 1]
        read = _parsed(line)
        if read is None:
            number = first_line + data.count(b"\n", 0, start)
            self._note(number, "is not a record; it may be about a message that was searched for")
        elif not self._wanted.window.holds(_time_of(read)) or not self._is_in_vhost(read):
            return
        elif read.get("event") == record.GAP or "count" in read:
            if self._wanted.with_gaps and len(self._gaps) < GAPS_MAX:
                self._gaps.append(line)
        elif self._is_wanted(read):
            self._lines.append(line)
            self._follow(read)

    def _is_in_vhost(self, read: Record) -> bool:
        return self._wanted.window.vhost in (None, read.get("vhost"))

    def _is_wanted(self, read: Record) -> bool:
        if read.get("message") in self._numbers or read.get("new_message") in self._numbers:
            return True
        properties = read.get("properties")
        if not isinstance(properties, dict):
            return False
        wanted = self._wanted
        return (
            properties.get("message_id") in wanted.message_ids
            or properties.get("correlation_id") in wanted.correlation_ids
        )

    def _follow(self, read: Record) -> None:
        leads_to = {read.get("message"), read.get("new_message")}
        if read.get("message") not in self._numbers and "properties" not in read:
            # Search forward from the dead letter; finding where it came from is another search.
            leads_to.discard(read.get("message"))
        new = {number for number in leads_to if number and isinstance(number, int)} - self._numbers
        self._numbers |= new
        self._finder.add(new)

    def _note(self, line: int | None, reason: str) -> None:
        self.problems.append(Problem(self._file.path, line, reason))


def _parsed(line: bytes) -> Record | None:
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


def _order(read: Record) -> tuple[int, bool]:
    return _time_of(read), read.get("event") != record.PUBLISH


def _time_of(read: Record) -> int:
    time_us = read.get("time_us")
    return time_us if isinstance(time_us, int) else 0
