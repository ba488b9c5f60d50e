"""Settles the deliveries of a session as the dispositions of its client say. Compiled.

Deliveries that the client accepts and settles are acknowledged in runs: those of consecutive
dispositions that came from one queue are acknowledged together, at the latest when all frames of a
read are handled.
"""

from typing import Final

from mypy_extensions import i64

from leveret.broker.protocols.amqp10.modified_messages import modification_of
from leveret.broker.protocols.amqp10.outgoing_link import OutgoingLink
from leveret.broker.protocols.amqp10.performatives import (
    Accepted,
    Disposition,
    Modified,
    Outcome,
    Rejected,
)
from leveret.broker.protocols.amqp10.transfer_frames import SERIAL, forward
from leveret.broker.queues.contract.modifications import Modification
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.settling import apply_settling
from leveret.broker.sessions.transaction import ACK, DISCARD, FAIL, REQUEUE
from leveret.broker.sessions.unacked import SETTLE_WORK
from leveret.broker.sessions.unacked_record import Unacked
from leveret.storage.messages.message import Entry

SETTLED_AT_ONCE: Final = 2000


class LinkSettling:
    """The settlements of one session. It has no reference to it, so no cycle is made."""

    __slots__ = ("_entries", "_link", "_queue", "_turns")

    def __init__(self, session: Session) -> None:
        self._turns = session.vhost.turns
        self._entries: list[Entry] = []
        self._queue: QueueClient | None = None
        self._link: OutgoingLink | None = None

    def accept(self, session: Session, first: i64, last: i64) -> bool:
        """The client accepts and settles the deliveries from `first` to `last`.

        Returns False, and does nothing, if there are too many for one turn, or if each disposition
        has to be traced.
        """
        if session.vhost.tracer is not None:
            return False
        count: i64 = (last - first) % SERIAL + 1
        if count > SETTLED_AT_ONCE:
            return False
        newest: i64 = session.next_delivery_tag - 1
        tag: i64 = newest - (newest - 1 - first) % SERIAL
        end: i64 = tag + count
        self._turns.work_left -= SETTLE_WORK * int(count)
        unacked = session.unacked
        while tag < end:
            record = unacked.take(int(tag))
            if record is not None:
                self._add(record)
            tag += 1
        return True

    def _add(self, record: Unacked) -> None:
        link = record.consumer
        if record.queue is not self._queue or link is not self._link:
            self.flush()
            self._queue = record.queue
            self._link = link if isinstance(link, OutgoingLink) else None
        self._entries.append(record.entry)

    def flush(self) -> None:
        """Acknowledge the accepted deliveries."""
        entries, queue, link = self._entries, self._queue, self._link
        self._queue = self._link = None
        if not entries or queue is None:
            return
        self._entries = []
        queue.ack(entries)
        if link is not None:
            link.settled_at_once(len(entries))

    async def settle(self, session: Session, disposition: Disposition) -> None:
        """Settle deliveries with any outcome. Raises ChannelFault and SessionEnds."""
        turns = self._turns
        state = disposition.state
        action = _action_of(state)
        modification: Modification | None = None
        if isinstance(state, Modified):
            delays = session.services.config.is_as_rabbitmq_4_3
            modification = modification_of(state, delays=delays)
        first, last = disposition.first, disposition.last
        tags = _open_tags(session, first, first if last is None else last)
        for at in range(0, len(tags), SETTLED_AT_ONCE):
            some = tags[at : at + SETTLED_AT_ONCE]
            taken: list[tuple[int, Unacked]] = []
            for tag in some:
                record = session.unacked.take(tag)
                if record is not None:
                    taken.append((tag, record))
            turns.work_left -= SETTLE_WORK * len(some)
            if taken:
                apply_settling(session, action, taken, modification)
                if action is ACK:
                    _count_acked(session, taken)
            if at + SETTLED_AT_ONCE < len(tags):
                await turns.give_way()


def _count_acked(session: Session, taken: list[tuple[int, Unacked]]) -> None:
    """Count accepted deliveries by the kind of their queue, for metrics."""
    given = session.services.counts.given_in_amqp10
    for _, record in taken:
        given[record.queue.kind.module].acked += 1


def _open_tags(session: Session, first: int, last: int) -> list[int]:
    """The delivery tags that a disposition may settle."""
    newest = session.next_delivery_tag - 1
    begin = newest + 1 + forward(first, newest % SERIAL)
    end = newest + 1 + forward(last, newest % SERIAL)
    records = session.unacked.records
    if end - begin < len(records):
        return [tag for tag in range(max(1, begin), end + 1) if tag in records]
    return [tag for tag in records if begin <= tag <= end]


def _action_of(outcome: Outcome | None) -> str:
    if isinstance(outcome, Accepted):
        return ACK
    if isinstance(outcome, Rejected):
        return DISCARD
    if isinstance(outcome, Modified):
        if outcome.undeliverable_here:
            return DISCARD
        if outcome.delivery_failed:
            return FAIL
    return REQUEUE
