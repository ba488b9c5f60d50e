"""The files of a trace directory: which there are, what kind of log each is, and if it is whole.

Names say little: a log may have been copied, renamed or unpacked. So the kind is told from what a
file begins with, and each compressed file is inflated once to see whether it is whole, which takes
a small part of the time that parsing takes. All of it is done by Spark's workers.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from pyspark.sql import SparkSession

from analytics.gzip_lines import MAGIC, Damage, inflate, lines_of
from broker.tracing import record

SLICES_PER_CORE = 4
"""Tasks for each core when files are looked at one by one, so that a large one is no bottleneck."""

LEVERET, RABBITMQ_JSON, RABBITMQ_TEXT, UNKNOWN = "leveret", "rabbitmq_json", "rabbitmq_text", ""
_RABBITMQ_TYPES = ("published", "received")
_BEGINNING_BYTES = 1 << 16
_PARTITION = re.compile(r"/vhost=([^/]*)/date=([^/]*)/hour=([^/]*)/")


class LogFile(NamedTuple):
    """A file, and what was found in it. is_whole: Spark may read it as it is.

    reason: why nothing of it can be used; empty if it can. sample: what its header says.
    """

    path: str
    kind: str
    is_whole: bool
    sample: int = 1
    reason: str = ""


def list_files(session: SparkSession, directory: str) -> list[str]:
    """The files below a directory, hidden ones left out. Raises FileNotFoundError."""
    if is_local(directory):
        root = Path(directory.removeprefix("file://"))
        if not root.exists():
            raise FileNotFoundError(f"there is no {directory}")
        found = [root] if root.is_file() else [path for path in root.rglob("*") if path.is_file()]
        return sorted(str(path.resolve()) for path in found if path.name[0] not in "._")
    return sorted(_list_by_hadoop(session, directory))


def is_local(path: str) -> bool:
    """It is a path of this machine, and not a URL of another file system."""
    return "://" not in path or path.startswith("file://")


def _list_by_hadoop(session: SparkSession, directory: str) -> Iterator[str]:
    context: Any = session.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(directory)
    system = path.getFileSystem(context._jsc.hadoopConfiguration())
    if not system.exists(path):
        raise FileNotFoundError(f"there is no {directory}")
    found = system.listFiles(path, True)
    while found.hasNext():
        name = found.next().getPath().toString()
        if name.rsplit("/", 1)[1][:1] not in "._":
            yield name


def is_in_window(path: str, from_hour: str, to_hour: str, vhost: str | None) -> bool:
    """Whether a file's directory can hold records of a window; true if its name says nothing.

    from_hour, to_hour: the first and the last, as 2026-01-31T07.
    """
    found = _PARTITION.search(path)
    if found is None:
        return True
    of_vhost, date, hour = found.groups()
    return from_hour <= f"{date}T{hour}" <= to_hour and vhost in (None, unquote(of_vhost))


def look_over(session: SparkSession, paths: list[str]) -> list[LogFile]:
    """What is in each file. The work is done by Spark's workers."""
    context = session.sparkContext
    local = [path for path in paths if is_local(path)]
    distant = [path for path in paths if not is_local(path)]
    found: list[LogFile] = []
    if local:
        slices = min(len(local), SLICES_PER_CORE * context.defaultParallelism)
        found += context.parallelize(local, slices).map(_look_at_path).collect()
    if distant:
        contents = context.binaryFiles(",".join(distant), len(distant))
        found += contents.map(lambda file: look_at(file[0], file[1])).collect()
    return [LogFile(*file) for file in found]


def _look_at_path(path: str) -> LogFile:
    with Path(path).open("rb") as file:
        beginning = file.read(_BEGINNING_BYTES)
        is_compressed = beginning.startswith(MAGIC)
        return look_at(path, beginning + file.read() if is_compressed else beginning)


def look_at(path: str, data: bytes) -> LogFile:
    """What is in a file. data: all of it, or the beginning if it is not compressed."""
    if not data:
        is_empty_yet = path.endswith(record.OPEN_SUFFIX)
        return LogFile(path, UNKNOWN, False, reason="" if is_empty_yet else "is empty")
    if not data.startswith(MAGIC):
        return _with_kind(path, data[:_BEGINNING_BYTES], is_whole=False)
    beginning, is_whole = b"", path.endswith(".gz")
    last = b""
    for piece in inflate(data):
        if isinstance(piece, Damage):
            is_whole = False
            continue
        last = piece
        if len(beginning) < _BEGINNING_BYTES:
            beginning += piece[:_BEGINNING_BYTES]
    return _with_kind(path, beginning, is_whole and last.endswith(b"\n"))


def _with_kind(path: str, beginning: bytes, is_whole: bool) -> LogFile:
    """What the first lines say."""
    for line in beginning.split(b"\n")[:20]:
        if b": Message published" in line or b": Message received" in line:
            return LogFile(path, RABBITMQ_TEXT, False)
        found = _json_object(line)
        if found.get("type") in _RABBITMQ_TYPES:
            return LogFile(path, RABBITMQ_JSON, False)
        if "event" in found:
            return _leveret(path, is_whole, found)
    return LogFile(path, UNKNOWN, False, reason="is no trace log: no line of it looks like one")


def _leveret(path: str, is_whole: bool, first: dict[str, Any]) -> LogFile:
    if first.get("event") != record.HEADER:
        return LogFile(path, LEVERET, is_whole)
    version, sample = first.get("version"), first.get("sample")
    if not isinstance(version, int) or version > record.VERSION:
        reason = f"is of version {version}, and versions up to {record.VERSION} are known"
        return LogFile(path, LEVERET, False, reason=reason)
    return LogFile(path, LEVERET, is_whole, sample if isinstance(sample, int) else 1)


def _json_object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def read_pieces(path: str, data: bytes | None) -> Iterator[bytes | Damage]:
    """The content of a file, inflated if need be. data: of a file that is not local."""
    if data is None:
        with Path(path).open("rb") as file:
            start = file.read(len(MAGIC))
            if start == MAGIC:
                yield from inflate(start + file.read())
                return
            yield start
            while piece := file.read(_BEGINNING_BYTES):
                yield piece
    elif data.startswith(MAGIC):
        yield from inflate(data)
    else:
        yield data


def numbered_lines(path: str, data: bytes | None = None) -> Iterator[tuple[int, str | Damage]]:
    """The lines of a file with their numbers from 1, and what is damaged."""
    number = 0
    for line in lines_of(read_pieces(path, data)):
        if isinstance(line, Damage):
            yield number, line
        else:
            number += 1
            yield number, line.decode("utf-8", "replace")
