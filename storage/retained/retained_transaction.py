"""One transaction on the rows of retained messages, and the sums that it keeps right.

The newest version of a topic is kept (retained_rows.py, RTV2). The sums are the numbers of messages
and bytes of each virtual host, and the digest of each bucket. They are stored in the same
transaction, so that a start need not read the rows.
"""

from collections.abc import Sequence
from enum import Enum, auto
from sqlite3 import Connection
from typing import Any, Final, NamedTuple

from leveret.storage.messages.checksum import crc32
from leveret.storage.retained.retained_rows import (
    DIGEST_MASK,
    RetainedRow,
    RetainedVersion,
    bucket_of,
    digest_of,
)

COLUMNS: Final = (
    "vhost, key, time, node, is_message, payload, qos, properties, expires_ms, checksum"
)
"""The fields of a RetainedRow, and its checksum."""


class RetainedOutcome(Enum):
    """The outcome of a change."""

    STORED = auto()
    OUTDATED = auto()
    """A newer version of the topic is stored."""
    REFUSED = auto()
    """The virtual host has reached its limit of messages or bytes."""


class RetainedTotals(NamedTuple):
    """The messages of a virtual host, and the bytes of their topics, payloads and properties."""

    messages: int = 0
    bytes: int = 0

    def changed(self, before: int | None, after: int | None) -> "RetainedTotals":
        """The totals with a message of one size in place of another; None stands for no message."""
        return RetainedTotals(
            self.messages - (before is not None) + (after is not None),
            self.bytes - (before or 0) + (after or 0),
        )


class RetainedLimits(NamedTuple):
    """The limits of a virtual host; 0 for none."""

    messages: int = 0
    bytes: int = 0

    def allow(self, totals: RetainedTotals) -> bool:
        """Whether a virtual host may have these totals."""
        return not (
            0 < self.messages < totals.messages or 0 < self.bytes < totals.bytes
        )  # fmt: skip


class Change(NamedTuple):
    """A row to store. is_local: it was made on this node, so that the limits apply."""

    row: RetainedRow
    is_local: bool = True


class Sums(NamedTuple):
    """What is known of all rows.

    totals: the totals by virtual host. digests: the digests by bucket. cuts: the version up to
    which all messages of a virtual host were removed. last_time: the highest time of a version that
    was ever stored.
    """

    totals: dict[bytes, RetainedTotals]
    digests: list[int]
    cuts: dict[bytes, RetainedVersion]
    last_time: int


class RetainedTransaction:
    """The changes of one transaction, which the caller begins and commits.

    `finish` returns the sums after it. before: those before it, which are not changed.
    """

    def __init__(self, connection: Connection, before: Sums, forget_after_ms: int) -> None:
        self._execute = connection.execute
        self._forget_after_ms = forget_after_ms
        self._before = before
        self._totals, self._cuts = dict(before.totals), dict(before.cuts)
        self._digests: dict[int, int] = {}
        self._last_time = before.last_time

    def apply(self, change: Change, limits: RetainedLimits) -> RetainedOutcome:
        """Store a row, if it is newer than the stored one and within the limits."""
        row, version = change.row, change.row.version
        cut = self._cuts.get(row.vhost)
        if cut is not None and cut >= version:
            return RetainedOutcome.OUTDATED
        found = self._execute(
            "SELECT id, time, node, is_message, size FROM rows WHERE vhost = ? AND key = ?",
            (row.vhost, row.key),
        ).fetchone()
        number, before, before_size = 0, None, None
        if found is not None:
            number, before = found[0], RetainedVersion(found[1], found[2])
            before_size = found[4] if found[3] else None
            if before >= version:
                return RetainedOutcome.OUTDATED
        total = self._totals.get(row.vhost, RetainedTotals())
        total = total.changed(before_size, row.size if row.is_message else None)
        if change.is_local and row.is_message and not limits.allow(total):
            return RetainedOutcome.REFUSED
        self._totals[row.vhost] = total
        if before is not None:
            self._execute("DELETE FROM rows WHERE id = ?", (number,))
            self._add_digest(row.vhost, row.key, before, -1)
        self._insert(row)
        self._add_digest(row.vhost, row.key, version, 1)
        self._last_time = max(self._last_time, row.time)
        if not row.key:
            self._delete_older(row.vhost, version)
        return RetainedOutcome.STORED

    def _insert(self, row: RetainedRow) -> None:
        self._execute(
            "INSERT INTO rows (vhost, key, time, node, is_message, changes_at_ms, bucket, size, "
            "expires_ms, qos, checksum, properties, payload) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                row.vhost, row.key, row.time, row.node, row.is_message,
                row.changes_at_ms(self._forget_after_ms), bucket_of(row.vhost, row.key), row.size,
                row.expires_ms, row.qos, checksum_of(row), row.properties, row.payload,
            ),
        )  # fmt: skip

    def _delete_older(self, vhost: bytes, version: RetainedVersion) -> None:
        """Delete all rows of a virtual host that are older, for the removal of all its messages."""
        where = "WHERE vhost = ? AND key > x'' AND (time, node) < (?, ?)"
        values = (vhost, version.time, version.node)
        total = self._totals[vhost]
        select = f"SELECT key, time, node, is_message, size FROM rows {where}"
        for key, time, node, is_message, size in self._execute(select, values):
            self._add_digest(vhost, key, RetainedVersion(time, node), -1)
            total = total.changed(size if is_message else None, None)
        self._execute(f"DELETE FROM rows {where}", values)
        self._totals[vhost], self._cuts[vhost] = total, version

    def sweep(self, rows: list[tuple[int, RetainedRow]]) -> None:
        """The rows with these numbers are due."""
        for number, row in rows:
            self._sweep(number, row)

    def _sweep(self, number: int, row: RetainedRow) -> None:
        """A message has expired, or a removal is to be forgotten."""
        self._execute("DELETE FROM rows WHERE id = ?", (number,))
        if row.is_message:
            self._totals[row.vhost] = self._totals[row.vhost].changed(row.size, None)
            self._insert(
                RetainedRow(row.vhost, row.key, row.time, row.node, expires_ms=row.expires_ms)
            )
            return
        self._add_digest(row.vhost, row.key, row.version, -1)
        if not row.key:
            self._cuts.pop(row.vhost, None)

    def _add_digest(self, vhost: bytes, key: bytes, version: RetainedVersion, sign: int) -> None:
        """Add the digest of a version to its bucket, or subtract it."""
        bucket = bucket_of(vhost, key)
        digest = self._digests.get(bucket, self._before.digests[bucket])
        self._digests[bucket] = (digest + sign * digest_of(vhost, key, version)) & DIGEST_MASK

    def finish(self) -> Sums:
        """Write the sums that have changed. Returns all sums after the transaction."""
        before = self._before
        for vhost, total in self._totals.items():
            if total != before.totals.get(vhost):
                self._execute("INSERT OR REPLACE INTO totals VALUES (?, ?, ?)", (vhost, *total))
        digests = before.digests.copy()
        for bucket, digest in self._digests.items():
            digests[bucket] = digest
            self._execute("INSERT OR REPLACE INTO digests VALUES (?, ?)", (bucket, digest))
        if self._last_time != before.last_time:
            self._execute("INSERT OR REPLACE INTO facts VALUES ('time', ?)", (self._last_time,))
        return Sums(self._totals, digests, self._cuts, self._last_time)


def row_of(columns: Sequence[Any]) -> RetainedRow:
    """The row of these COLUMNS."""
    vhost, key, time, node, is_message, *others = columns[:-1]
    return RetainedRow(vhost, key, time, node, bool(is_message), *others)


def checksum_of(row: RetainedRow) -> int:
    """The checksum of a row."""
    heads = b"%d %d %d %d %d %b" % (
        row.time, row.is_message, row.qos, row.expires_ms, len(row.key), row.node.encode(),
    )  # fmt: skip
    return crc32(b"".join((row.vhost, row.key, row.properties, row.payload)), crc32(heads))
