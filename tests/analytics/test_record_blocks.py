"""Logs that the broker writes in blocks: damage at any byte costs the block that it is in."""

import io
import json

import pytest

from leveret.analytics.journey.search import WantedMessages, search
from leveret.analytics.lines_command import main as trace_lines
from leveret.analytics.traces.block_members import BlockMembers
from leveret.analytics.traces.log_blocks import MEMBER, EndOfData, blocks_of, read_blocks
from leveret.analytics.traces.log_parts import parts_of
from leveret.analytics.traces.log_records import read_log
from leveret.analytics.traces.log_size import LogSize, estimated_size
from leveret.analytics.traces.trace_files import EVERYTHING, TraceWindow, described
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.broker.tracing import block_format
from leveret.broker.tracing.log_blocks import LogBlocks, LogOptions
from leveret.broker.tracing.log_file import TraceLogFile
from leveret.broker.tracing.log_sink import LogSink
from leveret.broker.tracing.pattern import TracePattern
from leveret.storage.messages.message import Entry
from tests.unit.broker.tracing.stand_ins import Channel, Delivery, KeptOutput, Queue, message

BLOCKS, PER_BLOCK = 3, 2


def three_blocks():
    """Blocks of messages 10, 11; 20, 21; 30, 31, each published, delivered and acknowledged."""
    clock, output, options = VirtualClock(), KeptOutput(), LogOptions("leveret@host", "/")
    blocks = LogBlocks(output, clock, options)
    sink, channel, queue = LogSink(blocks, clock, TracePattern("#"), options), Channel(), Queue()
    for block in range(1, BLOCKS + 1):
        for number in range(block * 10, block * 10 + PER_BLOCK):
            made = message(number, message_id=f"id-{number}", headers={"n": ("I", number)})
            sink.published(channel, [made], ["orders"], [queue])
            sink.delivered(channel, queue, "ctag", [Entry(made, 0)], number, False)
            sink.acked(channel, [(number, Delivery(Entry(made, 0), queue))])
        blocks.batches.flush()
    return [data for _, data in output.batches]


def written(path, blocks):
    """Write blocks into a file; returns its path and the ends of its members."""
    file, ends = TraceLogFile(path), [0]
    for block in blocks:
        file.add(block)
        ends.append(file.size)
    file.finish()
    return path.with_name(f"{path.name}.trace.gz"), ends


def read(path):
    """The lines of a file without the header, and what could not be read."""
    problems = []
    found = read_blocks(described(str(path), path.stat().st_size), problems)
    lines = [line for block in found for line in block.data.splitlines()]
    return [line for line in lines if b'"event":"header"' not in line], problems


@pytest.fixture(scope="module")
def blocks():
    return three_blocks()


def test_a_file_has_a_header_and_the_records_of_all_blocks(tmp_path, blocks):
    path, _ = written(tmp_path / "log", blocks)
    lines, problems = read(path)
    records = [json.loads(line) for line in lines]
    assert problems == []
    numbers = [block * 10 + place for block in range(1, BLOCKS + 1) for place in range(PER_BLOCK)]
    assert [one["message"] for one in records] == [each for each in numbers for _ in range(3)]
    properties = [one["properties"] for one in records if one["event"] == "deliver"]
    assert properties == [{"headers": {"n": n}, "message_id": f"id-{n}"} for n in numbers]


class ReadInTwo(io.BytesIO):
    """A file of which the first read returns the bytes up to `border`, and the second one others.

    So does a file of any size: what is read at once ends anywhere in it.
    """

    def __init__(self, content, border):
        super().__init__(content)
        self.border = border

    def read(self, size):
        return super().read(self.border if self.tell() == 0 else size)


def test_one_read_may_end_at_any_byte(tmp_path, blocks):
    path, _ = written(tmp_path / "log", blocks)
    content, (whole, _) = path.read_bytes(), read(path)
    for border in range(len(MEMBER), len(content)):
        problems = []
        source = ReadInTwo(content, border)
        found = blocks_of(source, str(path), problems, EndOfData.FILE, BlockMembers())
        lines = [line for block in found for line in block.data.splitlines()]
        assert (lines[1:], problems) == (whole, []), border


def test_a_file_that_was_cut_anywhere_has_its_whole_blocks(tmp_path, blocks):
    path, ends = written(tmp_path / "log", blocks)
    content, (whole, _) = path.read_bytes(), read(path)
    open_file = tmp_path / "cut.trace.gz.open"
    for size in range(1, len(content)):
        open_file.write_bytes(content[:size])
        lines, problems = read(open_file)
        complete = max(place for place, end in enumerate(ends) if end <= size)
        assert lines == whole[: complete * 3 * PER_BLOCK]
        assert problems == [] or size < len(b"\x1f\x8b\x08")


def test_damage_at_any_byte_costs_no_more_than_its_block(tmp_path, blocks):
    path, ends = written(tmp_path / "log", blocks)
    content, (whole, _) = path.read_bytes(), read(path)
    damaged, of_block = tmp_path / "damaged.trace.gz", 3 * PER_BLOCK
    for at in range(len(b"\x1f\x8b\x08"), len(content)):
        damaged.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
        lines, problems = read(damaged)
        place = max(place for place, end in enumerate(ends) if end <= at)
        spared = whole[: place * of_block] + whole[(place + 1) * of_block :]
        # Some bytes of the gzip header mean nothing.
        assert lines == whole or (lines == spared and problems)


def test_a_file_of_a_newer_format_is_not_read(tmp_path, blocks):
    newer = [block.replace(b'"version":1', b'"version":9') for block in blocks]
    path, _ = written(tmp_path / "log", newer)
    lines, problems = read(path)
    assert lines == []
    assert [one.reason for one in problems] == ["is of version 9; the latest supported is 1"]


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda block: block[:-1],
        lambda block: block + b"\xff\0\0\0\0",
        lambda block: block + bytes([block_format.ACK]) + bytes(28),
        lambda block: block_format.MAGIC + b"\xff\xff\xff\xff" + block[8:],
        lambda block: block_format.MAGIC,
    ],
)
def test_an_invalid_block_is_a_problem_and_the_others_are_read(tmp_path, blocks, spoilt):
    path, _ = written(tmp_path / "log", [blocks[0], spoilt(blocks[1]), blocks[2]])
    lines, problems = read(path)
    assert [json.loads(line)["message"] // 10 for line in lines] == [1] * 6 + [3] * 6
    assert len(problems) == 1


def test_parts_of_a_file_have_all_its_records(tmp_path, blocks):
    path, _ = written(tmp_path / "log", blocks)
    file = described(str(path), path.stat().st_size)
    whole = rows_of(parts_of([file]))
    assert whole.count("header") == 1
    for part_bytes in (1, 50, 400):
        assert rows_of(parts_of([file], part_bytes)) == whole
    assert estimated_size([file]) == LogSize(len(whole) - 1, BLOCKS)


def rows_of(parts):
    """The events of the rows that parts of a file have."""
    tables = [batch for part in parts for batch in read_log(part, EVERYTHING)]
    rows = [row for table in tables for row in table.to_pylist()]
    assert [row["wrong"] for row in rows if row["wrong"]] == []
    return [row["event"] for row in rows]


def test_a_window_leaves_blocks_out(tmp_path, blocks):
    path, _ = written(tmp_path / "log", blocks)
    (part,) = parts_of([described(str(path), path.stat().st_size)])
    assert sum(batch.num_rows for batch in read_log(part, TraceWindow(from_us=1 << 60))) == 0


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (WantedMessages(message_ids=frozenset(["id-20"])), {20}),
        (WantedMessages(numbers=frozenset([11, 30])), {11, 30}),
        (WantedMessages(numbers=frozenset(range(10, 20))), {10, 11}),
        (WantedMessages(message_ids=frozenset(["id-2"])), set()),
    ],
)
def test_a_search_finds_the_records_of_messages(tmp_path, blocks, wanted, numbers):
    path, _ = written(tmp_path / "log", blocks)
    found = search([described(str(path), path.stat().st_size)], wanted, processes=1)
    assert {one["message"] for one in found.records} == numbers
    assert len(found.records) == 3 * len(numbers)
    assert (found.samples, found.problems) == ({1}, [])
    assert found.last_us == max(json.loads(line)["time_us"] for line in read(path)[0])


def test_a_search_finds_ids_that_are_not_text_and_gaps(tmp_path):
    clock, output, options = VirtualClock(), KeptOutput(), LogOptions("leveret@host", "/")
    blocks = LogBlocks(output, clock, options)
    sink = LogSink(blocks, clock, TracePattern("#"), options)
    sink.published(Channel(), [message(7, message_id="a\udcff")], ["orders"], [Queue()])
    blocks.batches.flush()
    gap = blocks.gap(5, 9, 3)
    path, _ = written(tmp_path / "log", [output.data, gap])
    wanted = WantedMessages(message_ids=frozenset(["Not UTF-8, base64 is: Yf8="]))
    found = search([described(str(path), path.stat().st_size)], wanted, processes=1)
    assert [one["message"] for one in found.records] == [7]
    assert [one["lost"] for one in found.gaps] == [3]


def test_the_lines_of_files_and_directories_are_printed(tmp_path, blocks, capfdbinary):
    path, _ = written(tmp_path / "logs" / "log", blocks)
    for place in (path, path.parent):
        assert trace_lines([str(place)]) == 0
        printed, said = capfdbinary.readouterr()
        header, *lines = printed.splitlines()
        assert json.loads(header)["event"] == "header"
        assert (lines, said) == (read(path)[0], b"")


def test_what_cannot_be_printed_is_said(tmp_path, blocks, capfdbinary):
    path, _ = written(tmp_path / "log", blocks)
    path.write_bytes(path.read_bytes()[:-9])
    assert trace_lines([str(path)]) == 1
    assert b"not read" in capfdbinary.readouterr().err
    assert trace_lines([str(tmp_path / "none")]) == 1
    assert b"none" in capfdbinary.readouterr().err
