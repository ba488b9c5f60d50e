"""Writes trace logs in the broker's format from records of a test."""

import gzip
import json
from datetime import UTC, datetime
from urllib.parse import quote

from leveret.broker.tracing import record

NODE = "leveret@test"
START_US = 1_767_600_000_000_000
"""Monday, 2026-01-05, 08:00."""
SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US


def header(version=record.VERSION, **more):
    return {"event": "header", "version": version, "sample": 1, **_where(START_US), **more}


def _where(time_us, vhost="/"):
    return {"time_us": time_us, "node": NODE, "vhost": vhost}


def event(name, time_us, vhost="/", **fields):
    """Return a record with all required fields of its event."""
    defaults = {
        "connection": "client", "channel": 1, "user": "guest", "message": 0, "exchange": "",
        "routing_keys": ["key"], "queues": [], "queue": "q", "consumer_tag": "ctag",
        "delivery_tag": 1, "redelivered": False, "no_ack": False, "requeue": False,
        "reason": "maxlen", "reply_code": 312, "reply_text": "NO_ROUTE", "body_size": 10,
        "properties": {}, "new_message": 0, "until_us": time_us, "lost": 1,
        "publisher": "", "offset": 0, "messages": 1, "published_us": time_us, "lag": 0,
        "filtered": False, "first_offset": 0, "max_age_us": None, "max_bytes": None,
        "segment_bytes": 1_000_000,
    }  # fmt: skip
    found = {"event": name, **_where(time_us, vhost)}
    found |= {field: defaults[field] for field in record.EVENTS[name] if field in defaults}
    return found | fields


def lines(records):
    return "".join(json.dumps(one) + "\n" for one in records)


def partition(directory, vhost="/", time_us=START_US):
    at = datetime.fromtimestamp(time_us / 1e6, UTC)
    where = record.PARTITION.format(
        vhost=quote(vhost, safe=""), date=at.date(), hour=f"{at.hour:02}"
    )
    path = directory / where
    path.mkdir(parents=True, exist_ok=True)
    return path


def write_log(directory, records, vhost="/", name="1", head=None, time_us=START_US):
    """Write a log with a header, and return its path. time_us: sets the hour of its directory."""
    path = partition(directory, vhost, time_us) / f"{NODE}-{START_US}-{name}{record.LINES_SUFFIX}"
    text = lines([head or header(vhost=vhost), *records])
    path.write_bytes(gzip.compress(text.encode()))
    return path
