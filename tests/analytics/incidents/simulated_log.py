"""Writes the records of a simulated broker as a trace log, in the broker's layout."""

import gzip
from datetime import UTC, datetime
from urllib.parse import quote

import msgspec

from leveret.broker.tracing import record

NODE = "leveret@incidents"
MIDNIGHT_US = 1_767_571_200_000_000
"""Monday, 2026-01-05, 00:00 UTC: the day of the other logs of tests (logs.py). To find anomalies, a
name has a row for each minute from its first one to the last one of all.
"""
SECOND_US, HOUR_US = 1_000_000, 3_600_000_000
GZIP_LEVEL = 1
ENCODER = msgspec.json.Encoder()
"""There are a million records: json would take three seconds longer."""


def write(directory, records):
    """Write a file for each hour that has records of a vhost, which are in order of time."""
    hours = {}
    for one in records:
        hours.setdefault(one["time_us"] // HOUR_US, []).append(one)
    for hour, of_hour in hours.items():
        _write_hour(directory, hour, of_hour)


def _write_hour(directory, hour, records):
    begins, vhost = datetime.fromtimestamp(hour * 3600, UTC), records[0]["vhost"]
    partition = record.PARTITION.format(
        vhost=quote(vhost, safe=""), date=begins.date(), hour=f"{begins.hour:02}"
    )
    folder = directory / partition
    folder.mkdir(parents=True, exist_ok=True)
    first_us = records[0]["time_us"]
    header = {
        "event": record.HEADER, "node": NODE, "vhost": vhost, "version": record.VERSION,
        "sample": 1, "time_us": first_us,
    }  # fmt: skip
    text = b"".join(map(ENCODER.encode_lines, ([header], records)))
    path = folder / f"{NODE}-{first_us}-1{record.LINES_SUFFIX}"
    path.write_bytes(gzip.compress(text, GZIP_LEVEL))
