"""Reading trace logs: from files of any state to a table of sound records, and one of the rest.

Files are looked over first, one by one and in parallel (files.py): what kind of log each is, and
whether it is whole. Whole logs of the broker are read by Spark itself, which is quick; all others
(being written, cut off, or RabbitMQ's own) line by line by Python, which is careful. Both give lines
of JSON that are parsed in one place by the one schema (schema.py).
"""

from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession


class Window(NamedTuple):
    """What to read. from_us, to_us: from here and before there, microseconds since 1970."""

    from_us: int | None = None
    to_us: int | None = None
    vhost: str | None = None


class Reading(NamedTuple):
    """What was read, lazily.

    events: sound records of known events, in the window, with record.FIELDS as columns (`properties`
    as JSON text). rejected: what tables.REJECTED says, with `date`.
    """

    events: DataFrame
    rejected: DataFrame


def read_trace(session: SparkSession, directory: str, window: Window = Window()) -> Reading:
    """Read the trace logs below a directory (a local path, or a URL that Hadoop knows)."""
    raise NotImplementedError
