"""The latencies of messages that were delivered together. Pure."""

from collections.abc import Iterable

from leveret.broker.moving.client.delivery_scanner import ClientDelivery
from leveret.mgmt.perf.histogram import LatencyHistogram
from leveret.mgmt.perf.messages import STAMP_BYTES, STAMP_FIELD

DAY_US = 86_400_000_000
"""A message with an older timestamp was not published by this tool."""


def note_latencies(
    deliveries: Iterable[ClientDelivery], now_ns: int, latencies: LatencyHistogram
) -> None:
    """Record the time since the timestamps. Messages of a batch have the same one."""
    stamp, alike = b"", 0
    for delivery in deliveries:
        found = _stamp_of(delivery)
        if found != stamp:
            _note(latencies, stamp, alike, now_ns)
            stamp, alike = found, 0
        alike += 1
    _note(latencies, stamp, alike, now_ns)


def _stamp_of(delivery: ClientDelivery) -> bytes:
    """The timestamp of a message in its header, or in its body; less than 8 bytes for none."""
    at = delivery.properties.find(STAMP_FIELD)
    if at < 0:
        return delivery.body[:STAMP_BYTES]
    at += len(STAMP_FIELD)
    return delivery.properties[at : at + STAMP_BYTES]


def _note(latencies: LatencyHistogram, stamp: bytes, count: int, now_ns: int) -> None:
    if len(stamp) != STAMP_BYTES:
        return
    waited_us = (now_ns - int.from_bytes(stamp, "big")) // 1000
    if 0 <= waited_us < DAY_US:
        latencies.add(waited_us, count)
