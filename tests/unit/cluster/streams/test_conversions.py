"""Messages of AMQP 0-9-1 in a stream, by the rules of RabbitMQ 3 and of 4."""

import pytest

from leveret.broker.amqp.content_header import header_with
from leveret.broker.amqp10.conversion import ConversionRules
from leveret.broker.queues.contract.offset_specification import FIRST
from leveret.broker.queues.contract.stream import StreamEntries
from leveret.cluster.streams.client.entry_reading import (
    DECODED_MAX,
    ChunkEntries,
    StoredMessageReader,
)
from leveret.storage.messages.addresses import Addresses
from leveret.storage.stream_log.chunks import USER, encode_chunk
from tests.fakes.stream_group import StreamUse
from tests.unit.broker.queues.fakes import FakeConsumer

HEADERS = {
    "text": ("S", "x"), "bytes": ("x", b"\xff"), "CC": ("A", [("S", "other")]),
    "table": ("F", {"a": ("I", 1)}), "x-own": ("S", "y"),
}  # fmt: skip


def read_back(use, **properties):
    """The properties of a message that was published with some."""
    use.publish(b"body", header=header_with(**properties))
    consumer = FakeConsumer()
    consumer.start = FIRST
    (entry,) = use.consuming(consumer).entries
    assert entry.message.body == b"body"
    return entry.message.header.properties


@pytest.mark.parametrize("is_as_3", [True, False])
def test_what_comes_back(tmp_path, is_as_3):
    properties = read_back(StreamUse(tmp_path / "s", is_as_3=is_as_3), headers=HEADERS)
    headers = {"text": ("S", "x"), "x-own": ("S", "y"), "x-stream-offset": ("l", 0)}
    if is_as_3:
        assert properties == {"headers": {**headers, "bytes": ("x", b"\xff")}}
        return
    more = {"bytes": ("S", "\udcff"), "CC": ("A", [("S", "other")])}
    assert properties == {"delivery_mode": 1, "headers": headers | more}


def test_a_body_of_sections_stays_as_it_is(tmp_path):
    use = StreamUse(tmp_path / "s")
    body = b"\0\x53\x77\xa1\x01a"
    use.publish(body, header=header_with(type="amqp-1.0"))
    consumer = FakeConsumer()
    consumer.start = FIRST
    (entry,) = use.consuming(consumer).entries
    assert entry.message.body == body
    assert entry.message.header.properties["type"] == "amqp-1.0"


@pytest.mark.parametrize("is_as_3", [True, False])
@pytest.mark.parametrize("message", [b"\0\x53\x75\xa0\x04body", b"no message of AMQP 1.0"])
def test_what_stream_clients_store_is_addressed_to_the_stream(tmp_path, message, is_as_3):
    use = StreamUse(tmp_path / "s", is_as_3=is_as_3)
    entry = len(message).to_bytes(4, "big") + message
    use.queue.append(StreamEntries(b"", (), (), 1, [entry]), lambda confirmed: None)
    use.settle()
    consumer = FakeConsumer()
    consumer.start = FIRST
    (read,) = use.consuming(consumer).entries
    assert read.message.address.exchange == ""
    assert read.message.address.routing_key == use.queue.name
    is_persistent = read.message.header.properties.get("delivery_mode") == 2
    assert is_persistent == (message.endswith(b"body") and not is_as_3)


def test_messages_that_have_to_be_decoded_are_given_in_small_parts():
    """They take longer than others, and a turn is bounded."""
    with_uuid = b"\0\x53\x73\xc0\x12\x01\x98" + bytes(16) + b"\0\x53\x75\xa0\x01a"
    plain = b"\0\x53\x75\xa0\x01a"
    reader = StoredMessageReader("s", Addresses(), ConversionRules(is_4=True))
    for message, sizes in ((with_uuid, [DECODED_MAX, 36, 0]), (plain, [100, 0])):
        entries = [len(message).to_bytes(4, "big") + message] * 100
        chunk = ChunkEntries(reader, encode_chunk(USER, 0, 1, 0, 100, 100, entries, b"", b""), 0)
        assert [len(chunk.take(512)) for _ in sizes] == sizes
