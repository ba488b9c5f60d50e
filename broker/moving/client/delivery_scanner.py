"""The scanner of a server's output to a client: deliveries are passed on in runs.

Consecutive deliveries to one consumer are passed to the sink in one call, if their frames are
complete in the chunk and each has one body frame. The common parts, the channel and the consumer
tag, are compared as bytes; exchange and routing key are decoded when they change. The properties
stay as they are on the wire. Everything else is passed on frame by frame by the base class
(amqp/frames.py).
"""

from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64, mypyc_attr

from leveret.broker.amqp.field_table import text_of
from leveret.broker.amqp.frames import (
    BODY,
    CLASS_BASIC,
    FRAME_END,
    FRAME_OVERHEAD_BYTES,
    HEADER,
    FrameScanner,
    FrameSink,
)
from leveret.records import use_structs

_SIZE_MAX: Final = 0xFFFFFFFF
_CLASS_AND_WEIGHT: Final = CLASS_BASIC << 16
_START_BYTES: Final = 7
_BEFORE_CONSUMER_TAG: Final = 12
"""A basic.deliver frame up to its consumer tag: start, class, method, the tag's length."""
_TAG_AND_FLAG_BYTES: Final = 9
_METHOD_FRAME_BYTES_MIN: Final = _BEFORE_CONSUMER_TAG + _TAG_AND_FLAG_BYTES + 3
"""The bytes of a basic.deliver with empty texts, and its end octet."""
_HEADER_FRAME_BYTES_MIN: Final = 22
_HEADER_BYTES_MIN: Final = 14


@mypyc_attr(acyclic=True)
class ClientDelivery:
    """A message that a consumer got.

    tag: its delivery tag on the channel. properties: as on the wire, the flags and the values.
    """

    __slots__ = ("body", "exchange", "properties", "redelivered", "routing_key", "tag")

    def __init__(
        self,
        tag: int,
        redelivered: bool,
        exchange: str,
        routing_key: str,
        properties: bytes,
        body: bytes,
    ) -> None:
        self.tag = tag
        self.redelivered = redelivered
        self.exchange = exchange
        self.routing_key = routing_key
        self.properties = properties
        self.body = body


use_structs(__name__, ClientDelivery)


@mypyc_attr(allow_interpreted_subclasses=True)
class DeliverySink(FrameSink):
    """The receiver of a client's frames, in the order of the stream."""

    __slots__ = ()

    def on_deliveries(
        self, channel: int, consumer_tag: bytes, deliveries: list[ClientDelivery]
    ) -> None:
        """Consecutive deliveries to one consumer."""


class DeliveryScanner(FrameScanner):
    """Splits the input of a client's connection into frames."""

    __slots__ = ("_address", "_exchange", "_receiver", "_routing_key")

    def __init__(self, sink: DeliverySink, frame_bytes_max: int) -> None:
        """frame_bytes_max: the limit of `FrameScanner`."""
        super().__init__(sink, frame_bytes_max)
        self._receiver = sink
        # The previous delivery's exchange and routing key, as they were received and as texts.
        self._address = b"\0\0"
        self._exchange = self._routing_key = ""

    def _scan_deliveries(self, data: bytes, position: i64, stop: i64, channel: i64) -> bool:
        """Pass on a delivery and those that follow it; False if the first is incomplete.

        position, stop: where the method frame begins, and its end octet.
        """
        end: i64 = len(data)
        limit: i64 = self.frame_bytes_max or _SIZE_MAX
        if stop - position < _METHOD_FRAME_BYTES_MIN - 1:
            return False
        to_tag: i64 = _BEFORE_CONSUMER_TAG + data[position + _BEFORE_CONSUMER_TAG - 1]
        to_address: i64 = to_tag + _TAG_AND_FLAG_BYTES
        kind_and_channel: i64 = read_i64_be(data, position) >> 40
        in_common = data[position + _START_BYTES : position + to_tag]
        deliveries: list[ClientDelivery] = []
        while stop - position > to_address:
            header: i64 = stop + 1
            if end - header < _HEADER_FRAME_BYTES_MIN:
                break
            start: i64 = read_i64_be(data, header)
            size: i64 = start >> 8 & _SIZE_MAX
            body_bytes: i64 = read_i64_be(data, header + 11)
            header_stop: i64 = header + _START_BYTES + size
            if (
                start >> 40 != HEADER << 16 | channel
                or read_i32_be(data, header + _START_BYTES) != _CLASS_AND_WEIGHT
                or not _HEADER_BYTES_MIN <= size <= limit
                or header_stop >= end or data[header_stop] != FRAME_END
            ):  # fmt: skip
                break
            following: i64 = header_stop + 1
            body = b""
            if body_bytes:
                if end - following < FRAME_OVERHEAD_BYTES:
                    break
                start = read_i64_be(data, following)
                size = start >> 8 & _SIZE_MAX
                first: i64 = following + _START_BYTES
                if (
                    start >> 40 != BODY << 16 | channel or size != body_bytes or size > limit
                    or first + size >= end or data[first + size] != FRAME_END
                ):  # fmt: skip
                    break
                body = data[first : first + size]
                following = first + size + 1
            address = data[position + to_address : stop]
            if address != self._address and not self._has_decoded(address):
                break
            deliveries.append(
                ClientDelivery(
                    read_i64_be(data, position + to_tag), data[position + to_address - 1] & 1 != 0,
                    self._exchange, self._routing_key, data[header + 19 : header_stop], body,
                )
            )  # fmt: skip
            position = following
            if end - position <= to_address:
                break
            start = read_i64_be(data, position)
            stop = position + _START_BYTES + (start >> 8 & _SIZE_MAX)
            if (
                start >> 40 != kind_and_channel or stop >= end or data[stop] != FRAME_END
                or data[position + _START_BYTES : position + to_tag] != in_common
            ):  # fmt: skip
                break
        if not deliveries:
            return False
        self._position = position
        self._receiver.on_deliveries(channel, in_common[5:], deliveries)
        return True

    def _has_decoded(self, address: bytes) -> bool:
        """Decode exchange and routing key; False if they are malformed."""
        exchange_end = 1 + address[0]
        if exchange_end >= len(address):
            return False
        if exchange_end + 1 + address[exchange_end] != len(address):
            return False
        self._address = address
        self._exchange = text_of(address[1:exchange_end])
        self._routing_key = text_of(address[exchange_end + 1 :])
        return True
