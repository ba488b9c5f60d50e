"""The page about the tables (docs/reference/analytics-tables.md): columns, types, units and keys.

`python -m leveret.analytics.tables.description > docs/reference/analytics-tables.md` writes it.
Pure.
"""

from leveret.analytics.tables.columns import (
    BOOLEAN,
    DOUBLE,
    HOPS,
    LONG,
    PARTITION,
    STRING,
    STRINGS,
    TIMESTAMP,
    Column,
    Table,
)
from leveret.analytics.tables.tables import TABLES

KEYS: dict[str, tuple[str, ...]] = {
    "traffic": ("minute", "vhost", "kind", "name"),
    "latency": ("minute", "vhost", "queue"),
    "latency_histogram": ("minute", "vhost", "queue", "measure", "up_to_us"),
    "depth": ("minute", "vhost", "queue"),
    "queue_activity": ("at_us", "vhost", "queue"),
    "unattended": ("vhost", "queue", "since_us"),
    "fan_out": (PARTITION, "vhost", "exchange", "queues"),
    "outcomes": (PARTITION, "vhost", "queue", "fate"),
    "fates": ("vhost", "message", "queue"),
    "redeliveries": ("minute", "vhost", "queue"),
    "poison": ("vhost", "message", "queue"),
    "dead_letters": ("vhost", "new_message"),
    "dead_letter_paths": ("vhost", "last_message"),
    "unroutable": ("minute", "vhost", "exchange", "routing_key"),
    "routing_keys": (PARTITION, "vhost", "exchange", "routing_key"),
    "consumers": (PARTITION, "vhost", "queue", "connection", "channel", "consumer_tag"),
    "consumer_activity": ("at_us", "vhost", "queue", "connection", "channel", "consumer_tag"),
    "held_kinds": ("at_us", "vhost", "queue", "exchange", "routing_key", "up_to_bytes"),
    "publishers": ("at_us", "vhost", "queue", "user", "connection"),
    "priorities": ("at_us", "vhost", "queue", "priority"),
    "replies": ("at_us", "vhost", "user", "connection"),
    "kinds": (
        PARTITION, "vhost", "queue", "user", "content_type", "app_id", "type", "up_to_bytes",
    ),
    "stream_activity": ("at_us", "vhost", "queue"),
    "stream_consumers": ("at_us", "vhost", "queue", "connection", "channel", "consumer_tag"),
    "stream_offsets": ("at_us", "vhost", "queue", "name", "user", "connection"),
    "sizes": (PARTITION, "vhost", "exchange", "up_to_bytes"),
    "connection_churn": ("minute", "vhost"),
    "connections": (PARTITION, "vhost", "connection"),
    "duplicates": ("vhost", "queue", "message_id"),
    "topology": (
        PARTITION, "vhost", "source_kind", "source", "target_kind", "target", "dead_letters",
    ),
    "anomalies": ("minute", "vhost", "kind", "name", "measure"),
    "gaps": (),
    "rejected": (),
    "trust": (),
    "summary": (PARTITION, "vhost", "node", "event", "sample"),
}  # fmt: skip
"""For each table the columns that identify a row; none if two rows can be equal."""

_TIMES = {
    "at_us", "time_us", "first_us", "last_us", "since_us", "until_us", "came_us", "delivered_us",
    "ended_us", "opened_us", "closed_us", "last_delivery_us", "last_ack_us", "oldest_us",
    "pause_end_us", "mark_us",
}  # fmt: skip
"""Columns that are times; others whose names end with `_us` are durations."""
_BYTES = {
    "bytes", "bytes_in", "bytes_out", "body_size", "up_to_bytes", "max_bytes", "segment_bytes",
    "lost_bytes",
}  # fmt: skip
_UNITS = {
    "message": "message number", "first_message": "message number", "share": "0 to 1",
    "last_message": "message number", "new_message": "message number", "rate": "per second",
    "end_offset": "offset", "first_offset": "offset", "next_offset": "offset",
    "stored_offset": "offset", "score": "robust standard deviations",
    "value": "that of the measure", "usual": "that of the measure",
}  # fmt: skip
_RANKS = {"channel", "priority", "hop", "line", "place", "place_by_speed", "place_by_unacked"}
"""Numbers that count nothing."""

_INTRODUCTION = f"""\
# The tables of an analysis

`leveret analyze` writes these tables as Parquet files ([analytics.md](../operate/analytics.md)). An
example reads them with pandas, DuckDB and PySpark:
[read_tables.py](../operate/examples/read_tables.py).

Each table has one more column, `{PARTITION}`, by whose values its files are in directories: the day
(UTC) of the row's time. Names, types, units and keys are stable within a major version of Leveret.
A minor version may add tables, and columns to tables.

| type | Parquet | pandas | DuckDB | PySpark |
|---|---|---|---|---|
| {STRING} | BYTE_ARRAY, UTF-8 | object | VARCHAR | StringType |
| {LONG} | INT64 | int64; float64 if some are null | BIGINT | LongType |
| {DOUBLE} | DOUBLE | float64 | DOUBLE | DoubleType |
| {BOOLEAN} | BOOLEAN | bool | BOOLEAN | BooleanType |
| {TIMESTAMP} | INT64, in µs, UTC | datetime64[us, UTC] | TIMESTAMPTZ | TimestampType |
| {STRINGS} | LIST of BYTE_ARRAY | object: arrays | VARCHAR[] | ArrayType(StringType) |
| date | names of directories | category | DATE | DateType |

`path` of dead_letter_paths is `{HOPS}`.

Message numbers are unique in a cluster. If the log is a sample of one message in N, numbers of
messages and bytes are multiplied by N.
"""


def page() -> str:
    """Return the page."""
    return "\n".join([_INTRODUCTION, *map(_described, TABLES)])


def unit_of(column: Column) -> str:
    """Return the unit of a column; empty for names and texts."""
    name = column.name
    if name in _UNITS:
        return _UNITS[name]
    if column.type == TIMESTAMP:
        return "time, to a minute"
    if name.endswith("_us"):
        return "µs since 1970" if name in _TIMES else "µs"
    if name in _BYTES:
        return "bytes"
    return "number" if column.type == LONG and name not in _RANKS else ""


def _described(table: Table) -> str:
    key = KEYS[table.name]
    names = ", ".join(f"`{name}`" for name in key)
    rows = [
        f"| `{column.name}` | {column.type} | {unit_of(column)} | {column.meaning} |"
        for column in table.columns
    ]
    return "\n".join([
        f"## {table.name}", "", f"{table.meaning}.", "",
        f"Key: {names}." if key else "No key: each row is a fault by itself.", "",
        "| column | type | unit | meaning |", "|---|---|---|---|", *rows, "",
    ])  # fmt: skip


if __name__ == "__main__":
    print(page(), end="")
