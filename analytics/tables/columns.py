"""The parts of a table, and the columns that many tables have."""

from typing import NamedTuple

STRING, LONG, DOUBLE, BOOLEAN, TIMESTAMP, STRINGS = (
    "string",
    "bigint",
    "double",
    "boolean",
    "timestamp",
    "array<string>",
)
HOPS = "array<struct<queue:string,reason:string,exchange:string,time_us:bigint,message:bigint>>"

PARTITION, NO_DATE = "date", "1970-01-01"
"""The column by which every table is partitioned, and its value in rows without a time."""
NO_ROWS = f"{PARTITION}={NO_DATE}"
"""The directory of the file that a table without rows has, so that readers find its columns."""


class Column(NamedTuple):
    """A column. type: in Spark's DDL."""

    name: str
    type: str
    meaning: str


class Table(NamedTuple):
    """A table. columns: all but `date`."""

    name: str
    meaning: str
    columns: tuple[Column, ...]


MINUTE = Column("minute", TIMESTAMP, "start of the minute")
VHOST = Column("vhost", STRING, "the virtual host")
NODE = Column("node", STRING, "the node that wrote the record")
QUEUE = Column("queue", STRING, "the queue")
EXCHANGE = Column("exchange", STRING, "the exchange; empty for the default exchange")
MESSAGE = Column("message", LONG, "the number of the message, in the whole cluster")
ORIGIN = Column(
    "node",
    STRING,
    "where it was published or became a dead letter; null if not in the trace",
)
MESSAGE_ID = Column("message_id", STRING, "the message-id property; null if there is none")
OF_KIND = (
    Column("content_type", STRING, "the content-type property; null if there is none"),
    Column("app_id", STRING, "the app-id property, likewise"),
    Column("type", STRING, "the type property, likewise"),
)
