"""Repairing the streams of a stopped node.

In every stream, an index is made again from its segment, and bytes after the last chunk of an
earlier segment are cut off: nothing is lost with them. A damaged chunk of a stream with one member

- is replaced by a chunk without messages, which has the offsets of the lost ones: all other
  messages keep their offsets;
- is cut off at the end of the last segment, with what follows, if no whole chunk follows.

A stream with more members stays as it is, since another member has the messages. What this one has
acknowledged must not change. Its files can be removed as a whole: then the others replace it.
"""

from leveret.storage.check.check_streams import StreamCheck
from leveret.storage.check.kept_originals import KeptOriginals
from leveret.storage.check.segment_scan import DamagedChunk, ScannedSegment
from leveret.storage.stream_log.chunk_index import IndexRecord, encode_record
from leveret.storage.stream_log.chunks import OF_GROUP, encode_chunk

MESSAGES_MAX = (1 << 32) - 1


class StreamRepair:
    """Mends the stream that was checked. has_one_member: no other node has anything of it.

    snapshot_index: the last entry that the snapshot of its group covers.
    """

    def __init__(
        self, files: KeptOriginals, stream: StreamCheck, *, has_one_member: bool,
        snapshot_index: int,
    ) -> None:  # fmt: skip
        self._files = files
        self._stream = stream
        self._has_one_member = has_one_member
        self._snapshot_index = snapshot_index

    def run(self) -> None:
        """Mend each segment of which all can be mended. Raises StoreError."""
        for segment in self._stream.segments:
            may_be_mended = self._may_end(segment) and not segment.misplaced
            fillers = {
                chunk.position: _without_messages(chunk) if self._has_one_member else b""
                for chunk in segment.damaged
                if not chunk.is_last
            }
            if may_be_mended and all(fillers.values()):
                self._mend(segment, fillers)

    def _may_end(self, segment: ScannedSegment) -> bool:
        """Whether nothing is lost with what follows the last chunk, or it may be lost."""
        entry = segment.head.first_entry + segment.count
        if segment.after is not None:
            return entry == segment.after.first_entry
        is_last_batch = segment.count >= segment.synced
        return is_last_batch or (self._has_one_member and entry > self._snapshot_index)

    def _mend(self, segment: ScannedSegment, fillers: dict[int, bytes]) -> None:
        path, records = segment.paths.segment, segment.expected
        if fillers:
            records = self._rewrite(segment, fillers)
        elif segment.size > segment.end:
            self._files.keep(path)
            self._files.cut(path, segment.end)
        if fillers or segment.wrong_records or not segment.has_whole_index:
            # All chunks before the last one are on disk: no start takes them as torn.
            records = [*records[:-1], *[one._replace(begins_batch=True) for one in records[-1:]]]
            self._files.keep(segment.paths.index)
            self._files.replace(segment.paths.index, b"".join(map(encode_record, records)))

    def _rewrite(self, segment: ScannedSegment, fillers: dict[int, bytes]) -> list[IndexRecord]:
        """Write the segment with other chunks at some positions. Returns its records."""
        path, ends = segment.paths.segment, [one.place for one in segment.expected[1:]]
        data = self._files.disk.read_all(path)
        pieces, records, place = [data[: segment.head_bytes]], [], segment.head_bytes
        for position, (record, end) in enumerate(
            zip(segment.expected, [*ends, segment.end], strict=True)
        ):
            pieces.append(fillers.get(position) or data[record.place : end])
            records.append(record._replace(place=place))
            place += len(pieces[-1])
        self._files.keep(path)
        self._files.replace(path, b"".join(pieces))
        return records


def _without_messages(chunk: DamagedChunk) -> bytes:
    """A chunk with the same offsets; empty if that cannot be."""
    record = chunk.record
    if record is None or chunk.next_offset is None or record.kind >= OF_GROUP:
        return b""
    count = chunk.next_offset - record.offset
    if count > MESSAGES_MAX:
        return b""
    return encode_chunk(record.kind, record.offset, record.term, record.time_ms, 0, count, [])
