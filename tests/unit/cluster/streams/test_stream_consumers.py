"""Consumers of AMQP 0-9-1 of a stream, and readers of the stream protocol."""

import gzip

import pytest

from leveret.broker.amqp.content_header import header_with
from leveret.broker.queues.contract.offset_specification import (
    FIRST,
    LAST,
    NEXT,
    OFFSET,
    TIMESTAMP,
    OffsetSpecification,
)
from leveret.broker.queues.contract.stream import StreamEntries
from leveret.broker.queues.contract.stream_arguments import ALL_MESSAGES, StreamFilter
from leveret.broker.runtime.pending import Answer
from leveret.cluster.streams.client.member_questions import HELD_MS
from leveret.cluster.streams.client.stream_readers import RETRY_MS
from leveret.storage.disk.disk import StoreError
from leveret.storage.stream_log.chunks import HEAD_BYTES, read_head
from tests.fakes.stream_group import StreamUse, WorkerByHand
from tests.unit.broker.queues.fakes import FakeConsumer


@pytest.fixture
def use(tmp_path):
    return StreamUse(tmp_path / "stream")


@pytest.fixture(params=["here", "elsewhere"])
def client(use, request):
    """The client of the node with the member, and that of a node without one."""
    return use.queue if request.param == "here" else use.elsewhere()


def reading(use, client, start, credit=1000, wanted=ALL_MESSAGES):
    consumer = FakeConsumer(credit=credit)
    consumer.start, consumer.wanted = start, wanted
    return use.consuming(consumer, client)


def filled(use, count=5):
    """Messages m0, m1 ..., one in each chunk."""
    for number in range(count):
        use.publish(b"m%d" % number)
    return use


def at(offset):
    return OffsetSpecification(OFFSET, offset)


def offsets(consumer):
    return [entry.position for entry in consumer.entries]


# Where a consumer begins


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (FIRST, [0, 1, 2, 3, 4]), (at(0), [0, 1, 2, 3, 4]), (at(3), [3, 4]), (LAST, [4]),
        (NEXT, []), (at(5), []), (at(7), []),
    ],
)  # fmt: skip
def test_a_consumer_begins_where_it_says(use, client, start, expected):
    consumer = reading(use, filled(use) and client, start)
    assert offsets(consumer) == expected


def test_a_consumer_gets_what_comes_later(use, client):
    filled(use, 1)
    consumers = [reading(use, client, start) for start in (NEXT, at(4))]
    filled(use, 5)
    assert [offsets(one) for one in consumers] == [[1, 2, 3, 4, 5], [4, 5]]


def test_an_empty_stream_begins_with_its_first_message(use, client):
    consumers = [reading(use, client, start) for start in (FIRST, LAST, NEXT, at(0))]
    filled(use, 2)
    assert [offsets(one) for one in consumers] == [[0, 1]] * 4


def test_a_time_begins_at_a_chunk(use, client):
    for number in range(4):
        use.member.wall_ms = 1_000 + 100 * number
        use.publish(b"a", b"b")
    for time_ms, expected in ((0, 0), (1_100, 2), (1_101, 4), (1_300, 6)):
        consumer = reading(use, client, OffsetSpecification(TIMESTAMP, time_ms))
        assert offsets(consumer)[0] == expected
    assert offsets(reading(use, client, OffsetSpecification(TIMESTAMP, 1_301))) == []


def test_an_offset_inside_a_chunk_leaves_out_those_before_it(use, client):
    use.publish(b"a", b"b", b"c")
    assert offsets(reading(use, client, at(1))) == [1, 2]
    assert offsets(reading(use, client, LAST)) == [0, 1, 2]


def test_what_is_not_committed_is_not_read(use):
    consumer = reading(use, use.queue, FIRST)
    use.group.is_slow = True
    use.publish(b"1")
    assert consumer.bodies == []
    use.group.commit()
    use.settle()
    assert consumer.bodies == [b"1"]


# Credit


def test_a_consumer_gets_no_more_than_it_has_room_for(use, client):
    consumer = reading(use, filled(use) and client, FIRST, credit=2)
    assert (offsets(consumer), consumer.is_waiting) == ([0, 1], True)
    consumer.credit = 2
    client.credit(consumer)
    use.settle()
    assert offsets(consumer) == [0, 1, 2, 3]


def test_settling_returns_nothing(use):
    consumer = reading(use, filled(use).queue, FIRST)
    for settle in (use.queue.ack, use.queue.requeue, use.queue.discard):
        settle(consumer.entries)
    use.settle()
    assert offsets(consumer) == [0, 1, 2, 3, 4]


def test_a_cancelled_consumer_gets_nothing_more(use, client):
    consumer = reading(use, filled(use) and client, FIRST, credit=1)
    use.asked(client.cancel, consumer, False)
    consumer.credit = 5
    client.credit(consumer)
    filled(use, 1)
    assert offsets(consumer) == [0]
    assert not use.member.is_watched or client is not use.queue


def test_a_large_chunk_is_given_in_parts(use, client):
    consumer = reading(use, client, FIRST, credit=7)
    use.publish(*[b"%d" % number for number in range(2_000)])
    assert offsets(consumer) == list(range(7))
    consumer.credit = 10_000
    client.credit(consumer)
    use.settle()
    assert offsets(consumer) == list(range(2_000))


# What a message looks like


def test_a_delivery_has_its_offset_in_a_header(use, client):
    headers = {"own": ("S", "x"), "x-stream-offset": ("l", 99)}
    header = header_with(content_type="text/plain", headers=headers, delivery_mode=2)
    use.publish(b"a", b"b", header=header)
    use.publish(b"c" * 1_000)
    consumer = reading(use, client, FIRST)
    first, second, third = (entry.message for entry in consumer.entries)
    assert first.header.properties == {
        "content_type": "text/plain", "delivery_mode": 2,
        "headers": {"own": ("S", "x"), "x-stream-offset": ("l", 0)},
    }  # fmt: skip
    assert second.header.headers["x-stream-offset"] == ("l", 1)
    assert third.header.properties == {"headers": {"x-stream-offset": ("l", 2)}}
    assert (first.address.exchange, first.address.routing_key) == ("", "q")
    assert consumer.bodies == [b"a", b"b", b"c" * 1_000]
    assert not any(entry.redelivered for entry in consumer.entries)


def test_what_a_stream_client_has_stored_is_read(use, client):
    """Sections of AMQP 1.0 of every form, and bytes that are none."""
    data = b"\0\x53\x75\xa0\x01a"
    stored = {
        b"\0\x53\x75\xb0\0\0\0\x01a": b"a",
        data + data: b"aa",
        data + b"\0\x53\x78\xc1\x01\0": b"a",
        b"\0\x53\x70\x45" + data: b"a",
        b"\0\x53\x70\xc0\x02\x01\x41" + data: b"a",
        b"no message": b"no message",
        b"": b"",
        b"\0\x53\x75\xa0\xffa": b"\0\x53\x75\xa0\xffa",
        b"\0\x53\x77\xa1\x01a": b"\0\x53\x77\xa1\x01a",
    }
    for message in stored:
        use.queue.append(
            StreamEntries(b"", (), (), 1, [len(message).to_bytes(4, "big") + message]),
            lambda confirmed: None,
        )
    use.settle()
    assert reading(use, client, FIRST).bodies == list(stored.values())


@pytest.mark.parametrize("compression", [0, 1, 4])
def test_batches_are_unpacked_if_that_is_possible(use, client, compression):
    bodies = [b"\0\x53\x75\xa0\x01%d" % number for number in range(3)]
    data = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    packed = gzip.compress(data) if compression == 1 else data
    entry = bytes((0x80 | compression << 4,)) + (3).to_bytes(2, "big")
    entry += len(data).to_bytes(4, "big") + len(packed).to_bytes(4, "big") + packed
    use.queue.append(StreamEntries(b"", (), (), 3, [entry]), lambda confirmed: None)
    use.publish(b"after")
    consumer = reading(use, client, FIRST, credit=2)
    consumer.credit = 10
    client.credit(consumer)
    use.settle()
    expected = [(3, b"after")]
    if compression != 4:
        expected = [(0, b"0"), (1, b"1"), (2, b"2"), *expected]
    assert list(zip(offsets(consumer), consumer.bodies, strict=True)) == expected


# Filters


def test_chunks_without_the_wanted_values_are_left_out(use, client):
    for value in ("a", "b", None, "a"):
        headers = {} if value is None else {"x-stream-filter-value": ("S", value)}
        use.publish(str(value).encode(), header=header_with(headers=headers))
    of_a = reading(use, client, FIRST, wanted=StreamFilter((b"a",)))
    unfiltered = reading(use, client, FIRST, wanted=StreamFilter((b"b",), True))
    assert of_a.bodies == [b"a", b"a"]
    assert unfiltered.bodies == [b"b", b"None"]
    use.publish(b"later", header=header_with(headers={"x-stream-filter-value": ("S", "a")}))
    assert of_a.bodies == [b"a", b"a", b"later"]


# Retention, threads and members


def test_a_consumer_that_retention_overtakes_goes_on_with_what_is_left(use, client):
    use.member.log.segment_bytes = 300
    filled(use, 20)
    consumer = reading(use, client, FIRST, credit=2)
    while len(use.member.log.segments) > 2:
        use.member.log.remove_segments(1)
    use.member.log._recent.clear()
    use.member.write()
    first = use.member.log.first_offset
    consumer.credit = 100
    client.credit(consumer)
    use.settle()
    assert offsets(consumer)[-1] == 19
    assert [one for one in offsets(consumer) if one >= first] == list(range(first, 20))
    assert offsets(reading(use, client, at(0)))[0] == first


def test_a_thread_reads_what_is_not_in_memory(tmp_path):
    worker = WorkerByHand()
    use = StreamUse(tmp_path / "stream", worker)
    filled(use, 50)
    use.member.log._recent.clear()
    consumer = FakeConsumer()
    consumer.start = at(10)
    use.queue.subscribe(consumer, answer := Answer())
    use.settle()
    assert answer.is_given
    assert consumer.entries == []
    use.publish(b"later")
    worker.work()
    use.settle()
    while worker.jobs:
        worker.work()
        use.settle()
    assert offsets(consumer) == list(range(10, 51))


def test_a_log_that_cannot_be_read_ends_its_consumers(use):
    filled(use, 3)
    use.member.log._recent.clear()
    consumer = FakeConsumer()
    consumer.start = FIRST
    use.member.disk.read = _failing
    use.consuming(consumer)
    assert consumer.is_without_queue
    assert consumer.was_told


def _failing(*_):
    raise StoreError("the disk has failed")


def test_a_question_for_chunks_is_answered_without_any_after_a_while(use):
    elsewhere = use.elsewhere()
    consumer = reading(use, elsewhere, NEXT)
    for _ in range(3):
        use.vhost.clock.advance(HELD_MS)
        use.settle()
    filled(use, 1)
    assert offsets(consumer) == [0]


def test_a_lost_question_is_asked_again(use):
    elsewhere = use.elsewhere()
    filled(use, 1)
    use.group.own_log = None
    consumer = FakeConsumer()
    consumer.start = FIRST
    elsewhere.subscribe(consumer, Answer())
    use.settle()
    use.group.own_log = use.member
    use.vhost.clock.advance(RETRY_MS)
    use.settle()
    assert offsets(consumer) == [0]


def test_a_node_that_loses_its_member_goes_on_with_another(use):
    consumer = reading(use, filled(use, 2).queue, FIRST)
    elsewhere = use.elsewhere()
    use.group.of_leader, use.group.own_log = elsewhere, None
    elsewhere._service.own_log = elsewhere.readers.group.own_log = use.member
    elsewhere.member_changed()
    use.queue.member_changed()
    use.settle()
    filled(use, 1)
    assert offsets(consumer) == [0, 1, 2]


# Figures


def test_a_consumer_has_an_offset_and_a_lag(use, client):
    use.vhost.clock.advance(5_000)
    consumer = reading(use, filled(use) and client, FIRST, credit=2)
    (figures,) = client.figures.consumers()
    assert (figures.offset, figures.lag) == (2, 3)
    assert figures.lag_ms > 0
    consumer.credit = 100
    client.credit(consumer)
    use.settle()
    (figures,) = client.figures.consumers()
    assert (figures.offset, figures.lag, figures.lag_ms) == (5, 0, 0)


# The stream protocol


class User:
    readies = 0
    error = None

    def ready(self):
        self.readies += 1

    def failed(self, error):
        self.error = error


def test_a_reader_takes_chunks_as_clients_get_them(use, client):
    use.publish(b"a", header=header_with(headers={"x-stream-filter-value": ("S", "v")}))
    user = User()
    reader = use.asked(client.open_reader, FIRST, (), False, user)
    chunks = reader.take(10, 1_000_000)
    if not chunks:
        assert user.readies == 1
        chunks = reader.take(10, 1_000_000)
    (chunk,) = chunks
    head = read_head(chunk)
    assert (head.offset, head.message_count, head.filter_bytes) == (0, 1, 0)
    assert len(chunk) == HEAD_BYTES + head.entries_bytes
    assert reader.take(10, 1_000_000) == []
    assert (reader.next_offset, reader.lag) == (1, 0)
    before = user.readies
    filled(use, 2)
    assert user.readies == before + 1
    assert reader.lag >= 1


def test_a_reader_takes_chunks_within_limits(use):
    filled(use, 5)
    reader = use.asked(use.queue.open_reader, FIRST, (), False, User())
    assert len(reader.take(2, 1_000_000)) == 2
    assert len(reader.take(10, 1)) == 1
    assert len(reader.take(10, 1_000_000)) == 2


def test_a_reader_fails_when_the_stream_is_deleted(use):
    user = User()
    reader = use.asked(use.queue.open_reader, FIRST, (), False, user)
    use.queue.delete_now()
    assert "no queue 'q'" in str(user.error)
    assert reader.take(1, 1) == []


def test_the_offsets_of_a_stream(use, client):
    assert use.asked(client.stats) == (-1, -1, -1)
    use.publish(b"a", b"b")
    use.publish(b"c", b"d")
    use.queue.store_offset(b"c", 1)
    use.settle()
    assert use.asked(client.stats) == (0, 2, 3)
    assert use.asked(client.resolve_offset, LAST) == 2


def test_garbage_of_another_node_is_not_answered(use):
    answers = []
    use.queue.asked(b"garbage", answers.append)
    assert answers == [None]
