"""Records of a trace log: events are written as JSON with the fields in record.py."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.broker.amqp.content_header import make_header, read_header
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.broker.tracing import record
from leveret.broker.tracing.block_lines import RecordBlock
from leveret.broker.tracing.log_blocks import BLOCK_BYTES, LogBlocks, LogOptions
from leveret.broker.tracing.log_sink import LogSink
from leveret.broker.tracing.pattern import TracePattern
from leveret.storage.messages.message import Entry, Message
from tests.unit.broker.tracing.stand_ins import (
    Channel,
    Connection,
    Delivery,
    KeptOutput,
    Queue,
    message,
)

WHO = {
    "node": "leveret@host", "vhost": "/", "connection": "127.0.0.1:4711 -> 127.0.0.1:5672",
    "channel": 1, "user": "guest",
}  # fmt: skip
WHERE = {"node": "leveret@host", "vhost": "/"}


class Log:
    """A sink, and the records that it has written."""

    def __init__(self, pattern="#", **options):
        self.clock = VirtualClock()
        self.output = KeptOutput()
        self.options = LogOptions("leveret@host", options.pop("vhost", "/"), **options)
        blocks = LogBlocks(self.output, self.clock, self.options)
        self.batches = blocks.batches
        self.sink = LogSink(blocks, self.clock, TracePattern(pattern), self.options)

    @property
    def now_us(self):
        return int(self.clock.wall_time_s() * 1_000_000)

    @property
    def records(self):
        return [record for block in self.blocks for record in records_of(block)]

    @property
    def blocks(self):
        self.batches.flush()
        return [RecordBlock(data) for _, data in self.output.batches]


def records_of(block):
    return [json.loads(line) for line in block.lines().splitlines()]


def check_fields(one):
    optional = {"body", "message", "count"}
    assert set(one) - optional == set(record.EVENTS[one["event"]]) - optional
    types = {
        record.STRING: (str, type(None)), record.LONG: int, record.BOOLEAN: bool,
        record.STRINGS: list, record.JSON: dict,
    }  # fmt: skip
    for field in record.FIELDS:
        assert isinstance(one.get(field.name, None), types[field.type]) or field.name not in one


def test_a_run_of_publishes_has_a_record_for_each():
    log = Log()
    first = message(7, "events", "a.b", b"x" * 3, delivery_mode=2)
    second = type(first)(first.address, first.header, b"y" * 5, None, 8)
    log.sink.published(Channel(), [first, second], ["a.b"], [Queue("q1"), Queue("q2")])
    expected = {
        "event": "publish", "time_us": log.now_us, **WHO, "message": 7, "exchange": "events",
        "routing_keys": ["a.b"], "queues": ["q1", "q2"], "body_size": 3,
        "properties": {"delivery_mode": 2},
    }  # fmt: skip
    assert log.records == [expected, {**expected, "message": 8, "body_size": 5}]


def test_deliveries_count_up_their_tags():
    log = Log()
    entries = [Entry(message(7), 0), Entry(message(9), 1, redelivered=True)]
    log.sink.delivered(Channel(), Queue(), "ctag", entries, 41, False)
    expected = {
        "event": "deliver", "time_us": log.now_us, **WHO, "message": 7, "queue": "orders",
        "exchange": "", "routing_keys": ["orders"], "consumer_tag": "ctag", "delivery_tag": 41,
        "redelivered": False, "no_ack": False, "body_size": 4, "properties": {},
    }  # fmt: skip
    again = {**expected, "message": 9, "delivery_tag": 42, "redelivered": True}
    assert log.records == [expected, again]


def test_basic_get_has_no_consumer_tag():
    log = Log()
    log.sink.delivered(Channel(), Queue(), None, [Entry(message(), 0)], 1, True)
    assert (log.records[0]["consumer_tag"], log.records[0]["no_ack"]) == (None, True)


def test_everything_else_that_happens_has_its_record():
    log, channel, queue = Log(), Channel(), Queue()
    settled = [(3, Delivery(Entry(message(7), 0), queue))]
    letter = message(8, "dlx", "dead")
    log.sink.acked(channel, settled)
    log.sink.rejected(channel, settled, True)
    log.sink.requeued(settled)
    log.sink.delayed(queue, message(7), 1_700_000_000_123)
    log.sink.expired(queue, message(7))
    log.sink.dropped(queue, message(7), "maxlen")
    log.sink.emptied(queue, "purge", 5)
    log.sink.emptied(queue, "purge", 0)
    log.sink.dead_lettered(queue, message(7), "expired", letter, ["dead"], [Queue("graves")])
    log.sink.returned(channel, [message(7, "x", "k")], 312, "NO_ROUTE")
    log.sink.connection_opened(channel.connection)
    log.sink.connection_closed(channel.connection)
    time = {"time_us": log.now_us}
    about = {**time, **WHERE, "message": 7, "queue": "orders"}
    assert log.records == [
        {"event": "ack", **about, **WHO, "delivery_tag": 3},
        {"event": "reject", **about, **WHO, "delivery_tag": 3, "requeue": True},
        {"event": "requeue", **about},
        {"event": "delay", **about, "until_us": 1_700_000_000_123_000},
        {"event": "expire", **about},
        {"event": "drop", **about, "reason": "maxlen"},
        {"event": "drop", **time, **WHERE, "queue": "orders", "reason": "purge", "count": 5},
        {
            "event": "dead_letter", **about, "reason": "expired", "new_message": 8,
            "exchange": "dlx", "routing_keys": ["dead"], "queues": ["graves"],
        },
        {
            "event": "return", **time, **WHO, "message": 7, "exchange": "x",
            "routing_keys": ["k"], "reply_code": 312, "reply_text": "NO_ROUTE",
        },
        {"event": "open", **time, **WHO, "channel": 0},
        {"event": "close", **time, **WHO, "channel": 0},
    ]  # fmt: skip
    for one in log.records:
        check_fields(one)


def test_what_an_exchange_has_refused_has_the_reason():
    log, channel = Log(), Channel()
    log.sink.published(channel, [message(7)], ["k"], [])
    log.sink.published(channel, [message(8)], ["k"], [], "duplicate")
    log.sink.returned(channel, [message(8)], 312, "NO_ROUTE", "duplicate")
    assert [one.get("reason") for one in log.records] == [None, "duplicate", "duplicate"]


def test_the_header_of_a_log_is_a_record_too():
    log = Log(sample=10)
    log.sink.published(Channel(), [message(20)], ["orders"], [])
    header = json.loads(log.blocks[0].header_line())
    assert header == {
        "event": "header", "time_us": log.now_us, **WHERE, "version": 1, "sample": 10,
    }  # fmt: skip
    check_fields(header)


NAMES = st.text(max_size=20) | st.binary(max_size=20).map(
    lambda data: data.decode("utf-8", "surrogateescape")
)
HEADERS = st.dictionaries(
    st.text(max_size=5),
    st.one_of(
        st.tuples(st.just("S"), NAMES),
        st.tuples(st.just("I"), st.integers(-(2**31), 2**31 - 1)),
        st.tuples(st.just("t"), st.booleans()),
        st.tuples(st.just("x"), st.binary(max_size=8)),
        st.tuples(st.just("V"), st.none()),
        st.tuples(st.just("D"), st.tuples(st.integers(0, 9), st.integers(0, 2**31 - 1))),
        st.tuples(st.just("A"), st.lists(st.tuples(st.just("S"), NAMES), max_size=3)),
    ),
    max_size=4,
)


@given(NAMES, NAMES, NAMES, HEADERS, st.binary(max_size=50))
def test_whatever_clients_call_things_each_line_is_a_record(name, key, user, headers, body):
    log = Log(has_bodies=True, vhost=name)
    channel = Channel(connection=Connection(name, user))
    made = message(7, name[:60], key, body, headers=headers, content_type=key)
    queue = Queue(name)
    for _ in range(2):
        log.sink.published(channel, [made], [key], [queue])
        log.sink.delivered(channel, queue, key, [Entry(made, 0)], 1, False)
    log.sink.acked(channel, [(1, Delivery(Entry(made, 0), queue))])
    assert len(log.records) == 5
    for one in log.records:
        check_fields(one)
        if "body" in one:
            assert base64.b64decode(one["body"]) == body


@pytest.mark.parametrize("sample", [1, 2, 10])
def test_a_sampled_message_keeps_all_its_events(sample):
    log, channel, queue = Log(sample=sample), Channel(), Queue()
    for number in range(1, 101):
        made = message(number)
        log.sink.published(channel, [made], ["orders"], [queue])
        log.sink.delivered(channel, queue, "ctag", [Entry(made, 0)], number, False)
        log.sink.acked(channel, [(number, Delivery(Entry(made, 0), queue))])
    expected = [number for number in range(1, 101) if number % sample == 0]
    for event in ("publish", "deliver", "ack"):
        assert [one["message"] for one in log.records if one["event"] == event] == expected


def test_what_was_published_before_the_trace_is_in_no_sample():
    log = Log(sample=10)
    log.sink.delivered(Channel(), Queue(), "ctag", [Entry(message(0), 0)], 1, False)
    assert log.records == []


def test_a_dead_letter_is_in_the_sample_with_either_of_its_messages():
    log = Log(sample=10)
    for old, new in ((10, 11), (11, 20), (12, 13)):
        log.sink.dead_lettered(Queue(), message(old), "expired", message(new), [], [])
    assert [(one["message"], one["new_message"]) for one in log.records] == [(10, 11), (11, 20)]


def test_bodies_are_cut_at_the_wanted_size():
    log = Log(has_bodies=True, body_bytes_max=2)
    log.sink.published(Channel(), [message(body=b"hello")], ["orders"], [])
    assert (log.records[0]["body"], log.records[0]["body_size"]) == ("aGU=", 5)


def test_the_keys_of_cc_and_bcc_are_those_of_their_message():
    log, channel, cc = Log(), Channel(), {"headers": {"CC": ("A", [("S", "c")])}}
    blind = message(**cc)
    blind.header = make_header(blind.header.properties, ["b"])
    open_copy = Message(blind.address, read_header(blind.header.raw), b"", None, 8)
    for made, keys in ((blind, ["orders", "c", "b"]), (open_copy, ["orders", "c"])) * 2:
        log.sink.published(channel, [made], keys, [])
        log.sink.delivered(channel, Queue(), "ctag", [Entry(made, 0)], 1, False)
    said = [one["routing_keys"] for one in log.records]
    assert said == ([["orders", "c", "b"]] * 2 + [["orders", "c"]] * 2) * 2


@pytest.mark.parametrize(
    ("pattern", "events"),
    [
        ("#", ["publish", "deliver", "ack", "expire"]), ("publish.#", ["publish"]),
        ("*.orders", ["deliver", "ack", "expire"]), ("*.a.*", ["publish"]), ("nothing", []),
    ],
)  # fmt: skip
def test_a_pattern_chooses_events(pattern, events):
    log, channel, queue = Log(pattern), Channel(), Queue()
    made = message(7, "a.b")
    for _ in range(2):
        log.sink.published(channel, [made], ["k"], [queue])
        log.sink.delivered(channel, queue, "ctag", [Entry(made, 0)], 1, False)
        log.sink.acked(channel, [(1, Delivery(Entry(made, 0), queue))])
        log.sink.expired(queue, made)
    assert [one["event"] for one in log.records] == events * 2


def test_records_wait_for_half_a_second_at_most():
    log = Log()
    log.sink.published(Channel(), [message()], ["orders"], [])
    log.clock.advance(0.4)
    assert log.output.batches == []
    log.clock.advance(0.2)
    assert len(log.output.batches) == 1


def test_a_batch_is_of_one_hour():
    log = Log()
    log.clock.advance(3600 - log.now_us / 1_000_000 % 3600 - 0.2)
    for _ in range(2):
        log.sink.published(Channel(), [message()], ["orders"], [])
        log.clock.advance(0.3)
    log.batches.flush()
    hours = [time_us // 3_600_000_000 for time_us, _ in log.output.batches]
    assert len(hours) == 2
    assert hours[1] == hours[0] + 1


def test_what_a_full_output_does_not_take_is_a_gap_when_there_is_room():
    log = Log()
    log.output.is_full = True
    began_us = log.now_us
    for _ in range(3):
        log.sink.published(Channel(), [message()], ["orders"], [])
        log.clock.advance(1)
    assert log.output.data == b""
    assert log.batches.lost_in_all == 3
    ended_us = log.now_us
    log.output.is_full = False
    log.clock.advance(1)
    (gap,) = log.records
    check_fields(gap)
    assert (gap["event"], gap["lost"], gap["time_us"]) == ("gap", 3, began_us)
    assert began_us < gap["until_us"] <= ended_us
    log.sink.published(Channel(), [message()], ["orders"], [])
    assert [one["event"] for one in log.records] == ["gap", "publish"]


def test_the_end_of_a_trace_hands_over_what_there_is():
    log = Log()
    log.sink.published(Channel(), [message()], ["orders"], [])
    log.sink.detached()
    assert log.output.is_closed
    assert len(log.records) == 1


def test_many_records_are_handed_over_together_and_in_order():
    log, channel, count = Log(), Channel(), 50_000
    made = [message(number) for number in range(count)]
    for first in range(0, count, 10):
        log.sink.published(channel, made[first : first + 10], ["orders"], [])
    sizes = [len(data) for _, data in log.output.batches]
    assert len(sizes) > 1
    assert all(BLOCK_BYTES <= size < BLOCK_BYTES + 10_000 for size in sizes)
    assert [one["message"] for one in log.records] == list(range(count))
    assert log.batches.written == count
