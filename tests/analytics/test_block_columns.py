"""Columns of a block are the records that its lines are."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.analytics.traces.block_columns import columns_of
from leveret.analytics.traces.log_blocks import LogBlock
from leveret.analytics.traces.parsing import ARROW_COLUMNS, parse_block
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.broker.tracing.block_lines import BlockError, RecordBlock
from leveret.broker.tracing.log_blocks import LogBlocks, LogOptions
from leveret.broker.tracing.log_sink import LogSink
from leveret.broker.tracing.pattern import TracePattern
from leveret.storage.messages.message import Entry
from tests.unit.broker.tracing.stand_ins import Channel, Delivery, KeptOutput, Queue, message

EVENTS = ("publish", "deliver", "get", "ack", "reject", "expire", "dead_letter", "purge", "return",
          "open")  # fmt: skip
texts = st.sampled_from(["", "a", "orders", "caf\u00e9", '"\\\n', "x" * 200, "not text \udcff"])
PROPERTIES = {
    "content_type": texts, "content_encoding": texts,
    "headers": st.dictionaries(texts, texts.map(lambda text: ("S", text)), max_size=2),
    "delivery_mode": st.sampled_from([1, 2]), "priority": st.integers(0, 255),
    "correlation_id": texts, "reply_to": texts, "message_id": texts,
    "timestamp": st.integers(0, 1 << 40), "type": texts, "app_id": texts, "cluster_id": texts,
}  # fmt: skip


@st.composite
def messages(draw):
    """A message with any properties, published to any exchange with any routing key."""
    names = draw(st.lists(st.sampled_from(list(PROPERTIES)), unique=True))
    properties = {name: draw(PROPERTIES[name]) for name in names}
    number, body = draw(st.integers(0, 1 << 62)), draw(st.binary(max_size=3))
    return message(number, draw(texts), draw(texts), body, **properties)


happened = st.lists(st.tuples(st.sampled_from(EVENTS), messages(), texts), min_size=1, max_size=8)


def block_of(several, **options):
    """A block with these events; of each: its name, the message, the name of a queue."""
    clock, output, made = VirtualClock(), KeptOutput(), LogOptions("leveret@host", "/", **options)
    blocks = LogBlocks(output, clock, made)
    sink, channel = LogSink(blocks, clock, TracePattern("#"), made), Channel()
    for tag, (event, one, name) in enumerate(several, 1):
        queue, entry = Queue(name), Entry(one, 0)
        settled = [(tag, Delivery(entry, queue))]
        {
            "publish": lambda one=one, queue=queue: sink.published(
                channel, [one], [one.address.routing_key], [queue]),
            "deliver": lambda tag=tag, queue=queue, entry=entry: sink.delivered(
                channel, queue, "ctag", [entry], tag, False),
            "get": lambda tag=tag, queue=queue, entry=entry: sink.delivered(
                channel, queue, None, [entry], tag, True),
            "ack": lambda settled=settled: sink.acked(channel, settled),
            "reject": lambda settled=settled: sink.rejected(channel, settled, True),
            "expire": lambda one=one, queue=queue: sink.expired(queue, one),
            "dead_letter": lambda one=one, queue=queue: sink.dead_lettered(
                queue, one, "rejected", one, ["dead"], [queue]),
            "purge": lambda queue=queue: sink.emptied(queue, "purged", 3),
            "return": lambda one=one: sink.returned(channel, [one], 312, "NO_ROUTE"),
            "open": lambda: sink.connection_opened(channel.connection),
        }[event]()  # fmt: skip
    blocks.batches.flush()
    return output.data


def rows_of(made):
    """The rows that come of lines or columns."""
    block = (
        LogBlock(made, 1, made.count(b"\n"))
        if isinstance(made, bytes)
        else LogBlock(b"", 1, len(made), made)
    )
    batches = list(parse_block(block, "file", 1, None))
    return pa.Table.from_batches(batches, ARROW_COLUMNS).to_pylist()


def rows_or_fault(made):
    """The rows, or what is wrong with a block."""
    return [str(made)] if isinstance(made, BlockError) else rows_of(made)


@given(happened, st.booleans())
def test_columns_are_what_lines_say(several, has_bodies):
    block = RecordBlock(block_of(several, has_bodies=has_bodies))
    assert rows_of(*columns_of([block])) == rows_of(block.lines())


@given(happened, st.data())
def test_columns_of_an_unusual_block_equal_its_lines(several, data):
    whole = block_of(several)
    at = data.draw(st.integers(whole.index(b"}") + 1, len(whole) - 1))
    block = RecordBlock(whole[:at] + data.draw(st.binary(max_size=2)) + whole[at + 1 :])
    try:
        lines = rows_of(block.lines())
    except BlockError:
        # The values of headers are not looked at, so columns may have what lines cannot show.
        return
    assert rows_of(*columns_of([block])) == lines


@pytest.mark.parametrize("begins", [b'{"event":"deliver', b',"exchange":'])
def test_a_text_whose_first_octet_is_damaged_is_left_to_the_lines(begins):
    whole = block_of([("deliver", message(0, "", "", b""), "a")])
    block = RecordBlock(whole.replace(begins, b"\0" + begins[1:], 1))
    assert rows_of(*columns_of([block])) == rows_of(block.lines())


@given(st.lists(happened, min_size=2, max_size=5), st.data())
def test_columns_of_several_blocks_are_the_records_of_each(several, data):
    """Also if one of the blocks is unusual, or cannot be read."""
    blocks = [block_of(one) for one in several]
    place = data.draw(st.integers(0, len(blocks) - 1))
    whole = blocks[place]
    at = data.draw(st.integers(whole.index(b"}") + 1, len(whole)))
    blocks[place] = whole[:at] + data.draw(st.binary(max_size=2)) + whole[at + 1 :]
    made = columns_of([RecordBlock(block) for block in blocks])
    each = [one for block in blocks for one in columns_of([RecordBlock(block)])]
    assert [row for one in made for row in rows_or_fault(one)] == [
        row for one in each for row in rows_or_fault(one)
    ]


def test_usual_blocks_are_made_into_columns_together():
    """A text that several blocks have is one text, and each block has numbers of its own."""
    blocks = [
        RecordBlock(block_of([("publish", message(number, message_id=f"{number}"), name)]))
        for number, name in ((1, "orders"), (2, "letters"), (3, "orders"))
    ]
    [made] = columns_of(blocks)
    assert made["message"].to_pylist() == [1, 2, 3]
    assert made["queues"].to_pylist() == [["orders"], ["letters"], ["orders"]]
    assert made["message_id"].to_pylist() == ["1", "2", "3"]


@pytest.mark.parametrize("usual", [EVENTS, ("publish", "deliver", "ack"), ("expire",)])
def test_usual_blocks_are_made_into_columns(usual):
    """Also blocks without lines of other records, which are most of those that a node writes."""
    block = RecordBlock(block_of([(event, message(7), "orders") for event in usual]))
    assert isinstance(*columns_of([block]), pa.Table)


def test_usual_records_are_made_into_columns():
    one = message(7, message_id="id", correlation_id="c", headers={"n": ("I", 1)})
    block = RecordBlock(block_of([(event, one, "orders") for event in EVENTS]))
    [made] = columns_of([block])
    assert isinstance(made, pa.Table)
    assert made["event"].to_pylist()[:4] == ["publish", "deliver", "deliver", "ack"]
    assert made["message_id"].to_pylist() == ["id"] + [None] * (len(EVENTS) - 1)
    assert made["correlation_id"].to_pylist()[0] == "c"


@pytest.mark.parametrize("id_of_message", ["not text \udcff", "\udcff" * 255])
def test_an_id_that_is_not_text_is_shown_as_lines_show_it(id_of_message):
    block = RecordBlock(block_of([("publish", message(7, message_id=id_of_message), "orders")]))
    [row] = rows_of(*columns_of([block]))
    assert row["message_id"].startswith("Not UTF-8, base64 is: ")
