"""A chunk that is read with a filter: which messages are taken, and how many at a time."""

import struct

from leveret.broker.amqp10.conversion import ConversionRules
from leveret.broker.amqp10.filters.message_filter import MessageFilter
from leveret.broker.amqp10.filters.sql_parser import parse_sql
from leveret.broker.amqp10.sections import Amqp10Message, data_section, encode_message
from leveret.broker.amqp10.values import Value
from leveret.cluster.streams.client.entry_reading import (
    DECODED_MAX,
    ChunkEntries,
    StoredMessageReader,
)
from leveret.storage.messages.addresses import Addresses
from leveret.storage.stream_log.chunks import USER, encode_chunk


def encoded(number):
    message = Amqp10Message()
    message.application_properties = [(Value("string", "n"), Value("int", number))]
    message.body = data_section(b"%d" % number)
    return encode_message(message)


def entry(data):
    return struct.pack(">I", len(data)) + data


def chunk_of(entries, message_count):
    return encode_chunk(USER, 0, 1, 0, len(entries), message_count, entries)


def entries(chunk, sql, first=0):
    reader = StoredMessageReader("s", Addresses(), ConversionRules(is_4=True))
    return ChunkEntries(reader, chunk, first, MessageFilter([parse_sql(sql, lambda: 0)]))


def test_messages_are_taken_that_the_filter_lets_pass():
    chunk = chunk_of([entry(encoded(number)) for number in range(50)], 50)
    assert [one.position for one in entries(chunk, "n % 10 = 3").take(100)] == [3, 13, 23, 33, 43]
    assert [one.position for one in entries(chunk, "n % 10 = 3", 20).take(2)] == [23, 33]


def test_a_filter_looks_at_few_messages_at_a_time():
    chunk = chunk_of([entry(encoded(number)) for number in range(1000)], 1000)
    filtered = entries(chunk, "n = 999")
    turns = 0
    while not (found := filtered.take(10)):
        turns += 1
        assert filtered.next_offset == turns * DECODED_MAX
    assert [one.position for one in found] == [999]
    assert turns == 999 // DECODED_MAX


def test_messages_of_batches_are_looked_at_one_by_one():
    batch = b"".join(entry(encoded(number)) for number in range(8))
    packed = struct.pack(">BHII", 0x80, 8, len(batch), len(batch)) + batch
    chunk = chunk_of([packed, entry(encoded(8))], 9)
    assert [one.position for one in entries(chunk, "n IN (2, 5, 8)").take(100)] == [2, 5, 8]
