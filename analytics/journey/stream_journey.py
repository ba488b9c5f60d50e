"""The journey of one message through a stream: the records that tell of its offset, as a text.

A record of a stream is about a chunk, so the message is one of those that it has: those of the
commit, of what each consumer has read, of the offsets that were stored, and of retention.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from leveret.analytics.formatting import duration, moment, plural, shown
from leveret.analytics.traces.log_blocks import Problem, read_blocks
from leveret.analytics.traces.trace_files import TraceFile, TraceWindow
from leveret.broker.tracing import record
from leveret.broker.tracing.block_lines import RecordBlock

Record = dict[str, Any]


class StreamMessage(NamedTuple):
    """A message of a stream. vhost: None if there is one stream of this name."""

    stream: str
    offset: int
    vhost: str | None = None


def records_of(
    files: Iterable[TraceFile], wanted: StreamMessage, window: TraceWindow, problems: list[Problem]
) -> list[Record]:
    """Return the records about a message, in order of time. problems: gets what is unreadable."""
    name = json.dumps(wanted.stream, ensure_ascii=False).encode("utf-8", "replace")

    def may_have(block: RecordBlock) -> bool:
        return window.overlaps(block.from_us, block.to_us) and name in block.data

    found: list[Record] = []
    for file in files:
        for block in read_blocks(file, problems, may_have):
            found += _wanted_in(block.data, name, wanted, window)
    found.sort(key=_time_us)
    return _first_ones(found)


def _wanted_in(
    data: bytes, name: bytes, wanted: StreamMessage, window: TraceWindow
) -> Iterator[Record]:
    at = 0
    while (hit := data.find(name, at)) >= 0:
        start, at = data.rfind(b"\n", 0, hit) + 1, data.find(b"\n", hit) + 1 or len(data)
        try:
            read = json.loads(data[start:at])
        except (ValueError, RecursionError):
            continue
        if (
            isinstance(read, dict)
            and read.get("queue") == wanted.stream
            and wanted.vhost in (None, read.get("vhost"))
            and window.holds(_time_us(read))
            and _is_about(read, wanted.offset)
        ):
            yield read


def _is_about(read: Record, offset: int) -> bool:
    match read.get("event"):
        case record.COMMIT | record.READ:
            first = _number(read, "offset")
            return first <= offset < first + _number(read, "messages")
        case record.PLACE:
            return _number(read, "offset") == offset
        case record.STORE_OFFSET:
            return _number(read, "offset") >= offset
        case record.RETAIN:
            return _number(read, "first_offset") > offset
    return False


def _first_ones(found: list[Record]) -> list[Record]:
    """Leave out what was known before: a later offset under the same name, later retention."""
    seen: set[tuple[object, object, object]] = set()
    kept: list[Record] = []
    for read in found:
        event = read["event"]
        key = event, read.get("vhost"), read.get("consumer_tag")
        if event in (record.STORE_OFFSET, record.RETAIN, record.COMMIT):
            if key in seen:
                continue
            seen.add(key)
        kept.append(read)
    return kept


def stream_lines(found: Sequence[Record], wanted: StreamMessage) -> list[str]:
    """Return the text of a journey, which has at least one record."""
    vhost = shown(found[0].get("vhost"))
    lines = [f"Message at offset {wanted.offset} of stream {shown(wanted.stream)}, vhost {vhost}"]
    begins = _number(found[0], "published_us") or _time_us(found[0])
    for read in found:
        since = f"+{duration(max(0, _time_us(read) - begins))}"
        lines.append(f"  {moment(_time_us(read))}  {since:>12}  {_WORDS[read['event']](read)}")
    events = {read["event"] for read in found}
    unknown = []
    if record.COMMIT not in events:
        unknown.append("its commit is not in the files that were searched")
    if record.READ not in events:
        unknown.append("no consumer has read it in the files that were searched")
    if unknown:
        lines += ["  Not known:", *(f"    - {words}" for words in unknown)]
    return lines


def _committed(read: Record) -> str:
    took = duration(max(0, _time_us(read) - _number(read, "published_us")))
    return (
        f"committed {took} after its leader got it, on {shown(read.get('node'))}, in a chunk of"
        f" {plural(_number(read, 'messages'), 'message')} from offset {read.get('offset')} on,"
        f" {plural(_number(read, 'body_size'), 'byte')}"
    )


def _read(read: Record) -> str:
    last = _number(read, "offset") + _number(read, "messages") - 1
    return (
        f"read by consumer {shown(read.get('consumer_tag'))}, with offsets {read.get('offset')} to"
        f" {last}; {plural(_number(read, 'lag'), 'message')} behind ({_who(read)})"
    )


def _stored(read: Record) -> str:
    return (
        f"consumer {shown(read.get('consumer_tag'))} has stored offset {read.get('offset')}"
        f" ({_who(read)})"
    )


def _removed(read: Record) -> str:
    return f"removed by retention: the stream begins with offset {read.get('first_offset')}"


def _placed(read: Record) -> str:
    number = read.get("message")
    return f"it is message {number}, of which `leveret journey TRACE_DIR {number}` tells more"


_WORDS = {
    record.COMMIT: _committed,
    record.READ: _read,
    record.PLACE: _placed,
    record.STORE_OFFSET: _stored,
    record.RETAIN: _removed,
}


def _who(read: Record) -> str:
    return f"user {shown(read.get('user', ''))}, connection {shown(read.get('connection', ''))}"


def _number(read: Record, name: str) -> int:
    value = read.get(name)
    return value if isinstance(value, int) else 0


def _time_us(read: Record) -> int:
    return _number(read, "time_us")
