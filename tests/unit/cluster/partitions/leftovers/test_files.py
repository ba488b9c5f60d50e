"""The format of files with what a node has discarded."""

from itertools import pairwise

import pytest

from leveret.cluster.partitions.leftovers.files import (
    DIRECTORY,
    PIECE_BYTES,
    DiscardedReader,
    DiscardedWriter,
    NotReadable,
    files,
    note_published,
)
from leveret.cluster.partitions.leftovers.records import (
    HEAD,
    MAGIC,
    ChangeRecord,
    DeclaredRecord,
    DelayedRecord,
    EndRecord,
    ExchangeRecord,
    HeaderRecord,
    MessageRecord,
    QueueRecord,
    encode,
)

HEADER = HeaderRecord("c@host", 1_800_000_000.0, ("a@host", "b@host"))
RECORDS = [
    ChangeRecord((b"made", b"removed")),
    DeclaredRecord(b"an exchange"),
    QueueRecord(b"a queue"),
    MessageRecord(b"\x00\x06orders", b"properties", b"body", True),
    MessageRecord(b"\x00\x06orders", b"properties", b"x" * PIECE_BYTES, False),
    ExchangeRecord(b"an exchange"),
    DelayedRecord(b"\x00\x06orders", b"properties", b"body", 1_800_000_100_000),
]
END = EndRecord(changes=1, declared=1, queues=1, messages=2, exchanges=1, delayed=1)


def written(tmp_path, records=RECORDS):
    writer = DiscardedWriter(tmp_path / DIRECTORY, HEADER)
    for record in records:
        writer.add(record)
        writer.write()
    writer.finish()
    return writer.path


def read(path):
    """All records of a file after the first one, and whether it is complete."""
    reader = DiscardedReader(path)
    records = []
    while piece := reader.read():
        records += piece
    reader.close()
    return records, reader.is_complete


def test_what_was_written_is_read(tmp_path):
    path = written(tmp_path)
    assert read(path) == ([*RECORDS, END], True)
    assert DiscardedReader(path).header == HEADER
    assert path.stat().st_mode & 0o007 == 0


def test_a_piece_has_little_more_than_its_size(tmp_path):
    message = MessageRecord(b"", b"", b"x" * 1000, False)
    reader = DiscardedReader(written(tmp_path, [QueueRecord(b"")] + [message] * 1000))
    assert len(reader.read()) < 300


def test_the_whole_messages_of_a_truncated_file_are_read(tmp_path):
    path = written(tmp_path)
    content = path.read_bytes()
    ends = [len(MAGIC)]
    for record in (HEADER, *RECORDS, END):
        ends.append(ends[-1] + sum(map(len, encode(record))))
    assert ends[-1] == len(content)
    for whole, (begin, end) in enumerate(pairwise(ends[1:])):
        for size in (begin, begin + HEAD.size - 1, begin + HEAD.size, end - 1):
            path.write_bytes(content[:size])
            assert read(path) == (RECORDS[:whole], False)


def test_reading_ends_before_a_damaged_record(tmp_path):
    path = written(tmp_path)
    content = bytearray(path.read_bytes())
    content[content.index(b"\x04body") + 1] ^= 1
    path.write_bytes(content)
    assert read(path) == (RECORDS[:3], False)


@pytest.mark.parametrize("content", [b"", b"something else", MAGIC, MAGIC + b"".join(encode(END))])
def test_another_file_is_refused(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(NotReadable, match="is not a file of discarded"):
        DiscardedReader(path)


def test_files_of_one_second_have_names_of_their_own(tmp_path):
    assert list(files(tmp_path)) == []
    first, second = written(tmp_path), written(tmp_path)
    published = note_published(first)
    third = written(tmp_path)
    assert sorted(files(tmp_path)) == sorted([published, second, third])
    assert len({published.stem, second.stem, third.stem}) == 3
