"""The interface between the node's log and its clients.

One log serves several clients: the tiered queues (queue_log.py), and the groups of quorum queues
(group_log.py). A client has record kinds of its own. The log writes the
records of all clients in one batch and makes them durable with one sync.

    writing      a client gathers records and calls `Log.write_later`. The log calls `take_records`
                 when it encodes the next batch.
    restart      every record is handed to the client that has its kind, in the order in which the
                 records were written.
    retirement   the log removes its oldest file when no client needs it. `oldest_needed` says which
                 file a client still needs. In `move_on` the client writes the records that
                 it needs of the oldest file elsewhere, or again at the end of the log.

Clients do not depend on each other: the log keeps the order of one client's records and promises
nothing about the order of two clients' records within a batch.
"""

from typing import NamedTuple, Protocol

from leveret.storage.log.large_records import LogRecord
from leveret.storage.log.log_files import LogFile
from leveret.storage.messages.formats import ScannedRecord


class LogPosition(NamedTuple):
    """Where a record begins: the number of the log file, and the offset in it in bytes."""

    number: int
    offset: int


class RecordReader(Protocol):
    """A user of the log, as a restart needs it."""

    @property
    def kinds(self) -> frozenset[int]:
        """The kinds of its records (formats.py). No other client has them."""

    @property
    def removing_kinds(self) -> frozenset[int]:
        """The kinds of records that take away what other records add.

        They are not recovered if an earlier part of their batch was never written (recovery.py,
        RV5).
        """

    def recover(self, file: LogFile, data: bytes, record: ScannedRecord) -> str | None:
        """Accept a record that a restart found. data: the whole file.

        Returns a description of damage inside the record, or None. Raises FormatError if the record
        cannot be decoded; it is then reported as damaged.
        """


class LogClient(RecordReader, Protocol):
    """A user of the log. All methods are called in the event loop's thread."""

    @property
    def name(self) -> str:
        """Identifies the client in errors, and in the files of clients that write named records."""

    def take_records(self, file: LogFile, offset: int) -> list[LogRecord]:
        """Encode all records gathered since the last call, as pieces to be written in this order.

        They begin at this offset of the file, and are durable when the batch's sync has returned.
        """

    def oldest_needed(self) -> int | None:
        """The number of the oldest log file with records that a restart needs, or None."""

    async def move_on(self, file: LogFile) -> None:
        """Replace the client's records in this file, the oldest, so that it is not needed.

        On return `oldest_needed` is higher, and the replacements of the file's records are on
        disk, or in records that `take_records` has returned or will return next. The log syncs
        these before it removes the file. May wait, and may do its work in several steps.
        """
