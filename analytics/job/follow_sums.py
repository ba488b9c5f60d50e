"""Tables of sums that a follow keeps: each trigger adds rows, which are summed up from time to
time.

A table is summed up when it has twice as many rows as after the last time. So summing up takes time
in proportion to the added rows, and reading a table in proportion to its sums.
"""

from typing import NamedTuple

from leveret.analytics.tables import (
    event_tables,
    flow_tables,
    plausible,
    queue_histories,
    queue_levels,
    reply_tables,
    stream_tables,
)

ROWS_MIN = 50_000
"""A table with fewer rows is not summed up."""


class Summed(NamedTuple):
    """A table of sums. query: makes rows of new records. Other columns than these are its key.

    sums, least, most: columns that are added up, or of which the least or most counts. counted: the
    column of sums that is 0 in rows that do not count.
    """

    query: str
    sums: tuple[str, ...]
    least: tuple[str, ...] = ()
    most: tuple[str, ...] = ()
    counted: str = ""

    def summed(self, table: str) -> str:
        """Return a query for the rows of a table, one for each key."""
        parts = [
            f"{function}({name}) as {name}"
            for function, names in (("sum", self.sums), ("min", self.least), ("max", self.most))
            for name in names
        ]
        excluded = ", ".join((*self.sums, *self.least, *self.most))
        having = f" having sum({self.counted}) != 0" if self.counted else ""
        return (
            f"select * exclude ({excluded}), {', '.join(parts)} from {table} group by all{having}"
        )


_ACKNOWLEDGED = """
    select to_date(timestamp_micros(seen_us)) as date, queue_key, sum(weight * n) as messages
    from changed_fates where is_quiet group by 1, 2
"""
_HELD = """
    select to_date(timestamp_micros(delivered)) as date, queue_key, consumer_key,
        sum(if(is_acked, weight * n, 0)) as acknowledged,
        sum(weight * n * (ended - delivered)) as unacked_us
    from changed_holds where ended is not null group by 1, 2, 3
"""
_TOOK = """
    select to_date(timestamp_micros(delivered)) as date, queue_key, consumer_key,
        ended - delivered as took, sum(n) as messages
    from changed_holds where is_acked group by 1, 2, 3, 4
"""
_OF_SECOND = (
    "ready", "unacked", "came", "gone", "delivered", "redelivered", "acknowledged", "rejected",
    "requeued", "sent_back", "expired", "dropped", "bytes",
)  # fmt: skip

SUMMED = {
    "flows_by_key": Summed(
        flow_tables.FLOWS_BY_KEY, ("records", "messages", "bytes"), ("first_us",),
        ("last_us", "sample"),
    ),
    "seconds": Summed(queue_levels.SECONDS, _OF_SECOND, most=("size_max",)),
    "stream_steps": Summed(
        stream_tables.STREAM_STEPS, ("messages", "bytes"), ("first_us",),
        ("last_us", "next_offset", "end_offset", "first_offset", "published_us", "is_filtered",
         "max_age_us", "max_bytes", "segment_bytes"),
    ),
    "sizes": Summed(event_tables.SIZES, ("messages", "bytes")),
    "publishers": Summed(event_tables.PUBLISHERS, ("messages",), ("first_us",), ("last_us",)),
    "priority_steps": Summed(event_tables.PRIORITY_STEPS, ("came", "delivered")),
    "kinds": Summed(event_tables.KINDS, ("messages",)),
    "delivered_kinds": Summed(queue_histories.DELIVERED_KINDS, ("messages",)),
    "requests": Summed(reply_tables.REQUESTS, ("requests",)),
    "reply_steps": Summed(reply_tables.REPLY_STEPS, ("replies",), ("first_us",), ("last_us",)),
    "days": Summed(plausible.DAYS, ("records",), ("first_us",), ("last_us",)),
    "acknowledged": Summed(_ACKNOWLEDGED, ("messages",), counted="messages"),
    "held_sums": Summed(_HELD, ("acknowledged", "unacked_us")),
    "took": Summed(_TOOK, ("messages",), counted="messages"),
}  # fmt: skip
"""By the name of the table in the state."""
