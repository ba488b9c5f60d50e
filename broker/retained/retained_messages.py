"""The retained messages of a node: what connections, management and the cluster call.

Changes gather until the end of the round of turns, or while a transaction is written, and are
written as one, with one sync for all publishers. Of several changes of one topic only the last is
written. A search is submitted behind the changes that wait, so it finds them.

    put, remove ──> waiting ──> transaction ──> on disk ──> copies on the other nodes ──> answers

A node that retains nothing has no file and no thread: both are made by the first change, or by a
start that finds the file.

Invariants:

RTN1  At most one transaction of changes is in flight, unless a search has to find later ones.
RTN2  Each answer is given once: when the transaction and the copies of its change have ended.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from leveret.broker.amqp.field_table import bytes_of
from leveret.broker.retained.retained_message import RetainedMessage, has_wildcard
from leveret.broker.retained.retained_work import RetainedWork, WorkInMemory
from leveret.broker.runtime.clock import Clock, Timer
from leveret.broker.runtime.pending import Answer, given
from leveret.storage.retained.retained_file import (
    FoundPage,
    RetainedFile,
    RetainedFileError,
    RowsPage,
)
from leveret.storage.retained.retained_rows import HybridClock, RetainedRow, RetainedVersion
from leveret.storage.retained.retained_transaction import (
    Change,
    RetainedLimits,
    RetainedOutcome,
    RetainedTotals,
)
from leveret.storage.retained.topic_keys import TopicFilter, key_of, topic_of

FIND_WORK: Final = 10
"""The work of a message that a search has found (broker/runtime/turns.py)."""
BEHIND_BYTES: Final = 8 * 1024 * 1024
"""The bytes that wait to be written above which publishers wait for their answers."""
ROW_BYTES: Final = 500
"""The approximate memory of a change that waits, without its payload."""
FORGET_AFTER_MS: Final = 7 * 24 * 3600 * 1000
"""How long a removal is kept: a node that was away for longer may bring the message back."""
SWEEP_PAUSE_MS: Final = 1000
NOT_DUE: Final = 1 << 62

Found: TypeAlias = Callable[[str, RetainedMessage], Answer[None] | None]
"""Called with each topic and its message. The search waits for the answer if it returns one."""

Result = TypeVar("Result")

logger = logging.getLogger("leveret.retained")


class RetainedLimitReached(Exception):
    """A message is not retained, because its virtual host has as many as the settings allow."""


class RemoteCopies(Protocol):
    """The copies on other nodes."""

    def store(self, rows: list[RetainedRow]) -> Answer[None]:
        """Store some rows on all linked nodes; the answer is given when these have them."""


class Waiting:
    """Changes that gather for one transaction. bytes: the size of their rows."""

    def __init__(self) -> None:
        self.changes: dict[tuple[bytes, bytes], Change] = {}
        self.answers: dict[tuple[bytes, bytes], list[Answer[None]]] = {}
        self.bytes = 0

    def add(self, change: Change, answer: Answer[None]) -> None:
        """Add a change, in place of an older one of its topic."""
        row = change.row
        place = (row.vhost, row.key)
        before = self.changes.get(place)
        if before is None or before.row.version < row.version:
            self.changes[place] = change
            self.bytes += row.size + (ROW_BYTES if before is None else -before.row.size)
        self.answers.setdefault(place, []).append(answer)


class RetainedMessages:
    """The retained messages of all virtual hosts.

    finds_wildcards: filters with wildcards find messages, too; RabbitMQ finds only exact topics.
    limits: those of each virtual host. copies: the copies on other nodes; None without a cluster.
    make_work: opens the file. call_soon: schedules a call for the end of the round.
    """

    def __init__(self, clock: Clock, node: str = "", *, finds_wildcards: bool = False) -> None:
        self.finds_wildcards = finds_wildcards
        self.limits = RetainedLimits()
        self.copies: RemoteCopies | None = None
        self.make_work: Callable[[], RetainedWork] = lambda: WorkInMemory(FORGET_AFTER_MS)
        self.call_soon: Callable[[Callable[[], object]], object] = lambda callback: callback()
        self._clock = clock
        self._node = node
        self._work: RetainedWork | None = None
        self._hybrid = HybridClock()
        self._waiting = Waiting()
        self._writing_count = self._written_bytes = 0
        self._is_scheduled = self._is_closed = False
        self._rooms: list[Answer[None]] = []
        self._timer: Timer | None = None
        self._due_ms = NOT_DUE

    # Opening and closing

    def open(self) -> None:
        """Open the file. Raises RetainedFileError."""
        if self._work is None:
            self._work = self.make_work()
            self._hybrid.see(self._work.file.sums.last_time)
            self._sweep()

    @property
    def work(self) -> RetainedWork:
        """The open file, which is made if it is missing. Raises RetainedFileError."""
        self.open()
        assert self._work is not None, "open raises, or opens"
        return self._work

    @property
    def is_open(self) -> bool:
        """Whether there is a file."""
        return self._work is not None

    def close(self) -> None:
        """Write the changes that wait, and close the file. Waits for the disk."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._work is not None:
            self._submit()
            self._work.close()

    # Changing

    @property
    def is_behind(self) -> bool:
        """Whether much waits to be written, here or on other nodes."""
        return self._waiting.bytes + self._written_bytes > BEHIND_BYTES

    def room(self) -> Answer[None] | None:
        """Given when publishers may go on; None if they may go on now."""
        if not self.is_behind:
            return None
        room: Answer[None] = Answer()
        self._rooms.append(room)
        return room

    def _written_so_far(self, waiting: Waiting) -> None:
        """A transaction, and the copies of its changes, have ended."""
        self._written_bytes -= waiting.bytes
        if self._rooms and not self.is_behind:
            rooms, self._rooms = self._rooms, []
            for room in rooms:
                room.give(None)

    def put(self, vhost: str, topic: str, message: RetainedMessage) -> Answer[None]:
        """Retain a message in place of the topic's last one; `find` finds it at once.

        The answer is given when it survives a power cut, on this node and on all linked nodes. It
        is refused with RetainedLimitReached, or with RetainedFileError if the disk fails.
        """
        assert topic, "the empty topic stands for all topics"
        payload, qos, properties, expires_ms = message
        now = self._hybrid.next(self._now_ms())
        return self._change(
            RetainedRow(
                bytes_of(vhost), key_of(topic), now, self._node, True, payload, qos, properties,
                expires_ms,
            )
        )  # fmt: skip

    def remove(self, vhost: str, topic: str) -> Answer[None]:
        """Remove the topic's message, if there is one. The answer is given as for `put`."""
        if not self.is_open:
            return given(None)
        now = self._hybrid.next(self._now_ms())
        return self._change(RetainedRow(bytes_of(vhost), key_of(topic), now, self._node))

    def remove_all(self, vhost: str) -> Answer[None]:
        """Remove all messages of a virtual host. The answer is given as for `put`."""
        return self.remove(vhost, "")

    def merge(self, rows: Iterable[RetainedRow]) -> Answer[None]:
        """Store the rows of another node that are newer. The answer is given as for `put`.

        They are written in one transaction, so the answer for the last one is that for all.
        """
        last: Answer[None] = given(None)
        for row in rows:
            self._hybrid.see(row.time)
            last = self._change(row, is_local=False)
        return last

    def _change(self, row: RetainedRow, *, is_local: bool = True) -> Answer[None]:
        answer: Answer[None] = Answer()
        self._waiting.add(Change(row, is_local), answer)
        if not self._is_scheduled and not self._writing_count:
            self._is_scheduled = True
            self.call_soon(self._submit)
        return answer

    def _submit(self) -> None:
        """Write the waiting changes as one transaction."""
        self._is_scheduled = False
        waiting, self._waiting = self._waiting, Waiting()
        if not waiting.changes:
            return
        self._writing_count += 1
        self._written_bytes += waiting.bytes
        changes, limits = list(waiting.changes.values()), self.limits
        try:
            work = self.work
        except RetainedFileError as error:
            self._written(waiting, None, error)
            return
        work.submit(
            lambda file: file.apply(changes, limits),
            lambda outcomes, error: self._written(waiting, outcomes, error),
        )

    def _written(
        self, waiting: Waiting, outcomes: list[RetainedOutcome] | None, error: Exception | None
    ) -> None:
        self._writing_count -= 1
        if outcomes is None:
            self._written_so_far(waiting)
            assert error is not None
            logger.error("%d retained messages are not stored: %s", len(waiting.changes), error)
            _refuse(waiting.answers.values(), error)
        else:
            self._store_copies(waiting, outcomes)
        if self._waiting.changes:
            self._submit()

    def _store_copies(self, waiting: Waiting, outcomes: list[RetainedOutcome]) -> None:
        stored, safe = [], []
        for change, outcome in zip(waiting.changes.values(), outcomes, strict=True):
            row = change.row
            answers = waiting.answers[row.vhost, row.key]
            if outcome is RetainedOutcome.REFUSED:
                _refuse([answers], self._limit_reached(row))
                continue
            safe += answers
            if outcome is RetainedOutcome.STORED:
                self._note_due(row.changes_at_ms(FORGET_AFTER_MS))
                if change.is_local:
                    stored.append(row)
        copies = self.copies if stored else None
        copied = given(None) if copies is None else copies.store(stored)
        copied.when_given(lambda: self._safe(waiting, safe))

    def _safe(self, waiting: Waiting, answers: list[Answer[None]]) -> None:
        self._written_so_far(waiting)
        for answer in answers:
            answer.give(None)

    def _limit_reached(self, row: RetainedRow) -> RetainedLimitReached:
        return RetainedLimitReached(
            f"the message of topic '{topic_of(row.key)}' ({row.size} bytes) is not retained: "
            f"vhost '{row.vhost.decode(errors='replace')}' may have "
            f"{self.limits.messages or 'any number of'} retained messages "
            f"(mqtt.retained.max_messages) with {self.limits.bytes or 'any number of'} bytes "
            "(mqtt.retained.max_bytes); remove some, or raise the limit"
        )

    # Searching

    def find(self, vhost: str, topic_filter: str, found: Found) -> Iterator[int | Answer[Any]]:
        """Find the messages whose topics match a filter, in the steps of long_work.py.

        Messages that have expired are left out. The topics come in no promised order; those that
        are put or removed during the search may be found or not. If the file cannot be read, the
        search ends with an error in the log.
        """
        if self.finds_wildcards or not has_wildcard(topic_filter):
            yield from self.find_all(vhost, topic_filter, found)

    def find_all(self, vhost: str, topic_filter: str, found: Found) -> Iterator[int | Answer[Any]]:
        """The same, with wildcards even if the setting forbids them."""
        wanted = TopicFilter(topic_filter)
        start: bytes | None = wanted.start
        while start is not None:
            if not (self._waiting.changes or self._writing_count or self.counts(vhost).messages):
                return
            answer = self._page(bytes_of(vhost), wanted, start)
            yield answer
            try:
                page = answer.result()
            except RetainedFileError as error:
                logger.error("no retained messages are found for a subscription: %s", error)
                return
            start = page.start
            for row in page.rows:
                message = RetainedMessage(row.payload, row.qos, row.properties, row.expires_ms)
                waits = found(topic_of(row.key), message)
                if waits is not None:
                    yield waits
                yield FIND_WORK

    def _page(self, vhost: bytes, wanted: TopicFilter, start: bytes) -> Answer[FoundPage]:
        self._submit()
        now_ms = self._now_ms()
        return self._job(lambda file: file.find(vhost, wanted, start, now_ms))

    # For the comparison with other nodes

    @property
    def digests(self) -> list[int]:
        """The digest of each bucket (storage/retained/retained_rows.py)."""
        return self.work.file.sums.digests

    def versions(self, bucket: int) -> Answer[list[RetainedVersion]]:
        """The versions in a bucket. The answer is refused with RetainedFileError."""
        return self._job(lambda file: file.versions(bucket))

    def rows_but(self, bucket: int, known: list[RetainedVersion], after: int) -> Answer[RowsPage]:
        """The next rows of a bucket, without those of known versions (retained_file.py)."""
        return self._job(lambda file: file.rows_but(bucket, known, after))

    def _job(self, job: Callable[[RetainedFile], Result]) -> Answer[Result]:
        answer: Answer[Result] = Answer()
        try:
            self.work.submit(job, partial(_give_result, answer))
        except RetainedFileError as error:
            answer.refuse(error)
        return answer

    def counts(self, vhost: str) -> RetainedTotals:
        """The messages of a virtual host, and the bytes of their topics, payloads, properties."""
        if self._work is None:
            return RetainedTotals()
        return self._work.file.sums.totals.get(bytes_of(vhost), RetainedTotals())

    def all_counts(self) -> RetainedTotals:
        """The same of all virtual hosts."""
        if self._work is None:
            return RetainedTotals()
        totals = self._work.file.sums.totals.values()
        return RetainedTotals(sum(one.messages for one in totals), sum(one.bytes for one in totals))

    # Expiry

    def _now_ms(self) -> int:
        return int(self._clock.wall_time_s() * 1000)

    def _note_due(self, due_ms: int) -> None:
        """A row is stored that expires, or is to be forgotten, at this time; 0 for never."""
        if due_ms and due_ms < self._due_ms and not self._is_closed:
            self._due_ms = due_ms
            if self._timer is not None:
                self._timer.cancel()
            delay_ms = max(SWEEP_PAUSE_MS, due_ms - self._now_ms())
            self._timer = self._clock.call_later_ms(delay_ms, self._sweep)

    def _sweep(self) -> None:
        self._timer, self._due_ms = None, NOT_DUE
        now_ms = self._now_ms()
        self.work.submit(lambda file: file.sweep(now_ms), self._swept)

    def _swept(self, result: tuple[int, int] | None, error: Exception | None) -> None:
        if result is None:
            logger.error("failed to remove expired retained messages: %s", error)
            self._note_due(self._now_ms() + SWEEP_PAUSE_MS)
        else:
            self._note_due(result[1])


def _refuse(lists: Iterable[list[Answer[None]]], error: Exception) -> None:
    for answers in lists:
        for answer in answers:
            answer.refuse(error)


def _give_result(answer: Answer[Result], result: Result | None, error: Exception | None) -> None:
    if error is not None:
        answer.refuse(error)
    else:
        assert result is not None, "a job returns a result or raises"
        answer.give(result)
