"""The messages that a session has delivered and the client has not settled yet.

Delivery tags grow by one, so the tags of a ``multiple`` ack are a range. A dict keeps the records;
the lowest tag that may still be open is remembered, so that no tag is looked at twice, neither by a
million single acks nor by one ack of a million.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import chain, islice, takewhile

from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.sessions.unacked_record import SettlingConsumer, Unacked
from leveret.storage.messages.message import Entry

SETTLE_WORK = 4
"""The work of settling one delivery, in the units of broker/runtime/turns.py."""
GIVEN_BACK_AT_ONCE = 500
TAKEN_BACK_MAX = 65_536
"""Deliveries taken back from cancelled consumers that may still be settled, without effect."""
PUT_BACK_AT_ONCE, PUT_BACK_WORK = 4000, 2
"""Records that are opened again in one step of two milliseconds, and the work of each."""


class UnackedMessages:
    """Unsettled deliveries by their tags, in the order of the tags."""

    __slots__ = ("_lowest", "_taken_back", "records")

    def __init__(self) -> None:
        self._taken_back: dict[int, None] = {}
        self.records: dict[int, Unacked] = {}
        """Written directly on the message path: one dict store a message. In the order of tags."""
        self._lowest = 1

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[tuple[int, Unacked]]:
        return iter(list(self.records.items()))

    @property
    def last_tag(self) -> int:
        """The highest tag that is open. There must be one."""
        return next(reversed(self.records))

    def take(self, delivery_tag: int) -> Unacked | None:
        """Remove one record; None if the tag is not open."""
        if delivery_tag == self._lowest:
            self._lowest += 1
        return self.records.pop(delivery_tag, None)

    def take_up_to(self, delivery_tag: int) -> list[tuple[int, Unacked]] | None:
        """Remove the records up to this tag, in order; None if the tag itself is not open.

        Tag 0 stands for all open tags.
        """
        records = self.records
        if delivery_tag == 0:
            return self.take_all()
        if delivery_tag not in records:
            return None
        if delivery_tag - self._lowest > 4 * len(records):
            tags = sorted(tag for tag in records if tag <= delivery_tag)
            self._lowest = delivery_tag + 1
            return [(tag, records.pop(tag)) for tag in tags]
        taken: list[tuple[int, Unacked]] = []
        for tag in range(self._lowest, delivery_tag + 1):
            record = records.get(tag)
            if record is not None:
                del records[tag]
                taken.append((tag, record))
        self._lowest = delivery_tag + 1
        return taken

    def take_back(self, consumer: SettlingConsumer) -> list[tuple[int, Unacked]]:
        """Remove the records of a consumer, in order. Their tags may still be settled later."""
        taken = [
            (tag, record) for tag, record in self.records.items() if record.consumer is consumer
        ]
        for tag, _ in taken:
            del self.records[tag]
            self._taken_back[tag] = None
        for tag in list(islice(self._taken_back, max(0, len(self._taken_back) - TAKEN_BACK_MAX))):
            del self._taken_back[tag]
        return taken

    def last_open_before(self, delivery_tag: int) -> int:
        """The highest open tag below this one; 0 if there is none."""
        last = 0
        for tag in self.records:
            if tag >= delivery_tag:
                break
            last = tag
        return last

    def forget_taken_back(self, delivery_tag: int) -> bool:
        """Forget that a delivery was taken back; whether it was."""
        if delivery_tag not in self._taken_back:
            return False
        del self._taken_back[delivery_tag]
        return True

    def take_all(self) -> list[tuple[int, Unacked]]:
        """Remove every record, in order."""
        return list(self.hand_over())

    def hand_over(self) -> Iterator[tuple[int, Unacked]]:
        """Remove every record at once, and return them in order."""
        records, self.records = self.records, {}
        return iter(records.items())

    def open_tags(self, delivery_tag: int) -> Iterator[int] | None:
        """The possibly open tags up to this one, for `take_next`; None if this one is not open."""
        if delivery_tag not in self.records:
            return None
        if delivery_tag - self._lowest > 4 * len(self.records):
            return takewhile(lambda tag: tag <= delivery_tag, list(self.records))
        return iter(range(self._lowest, delivery_tag + 1))

    def take_next(self, tags: Iterator[int], count: int) -> list[tuple[int, Unacked]] | None:
        """Remove the open records of the next `count` tags; None if no tags are left."""
        records = self.records
        looked_at = list(islice(tags, count))
        if not looked_at:
            return None
        self._lowest = max(self._lowest, looked_at[-1] + 1)
        return [(tag, records.pop(tag)) for tag in looked_at if tag in records]

    def putting_back(self, taken: Iterator[tuple[int, Unacked]], next_tag: int) -> Iterator[int]:
        """The steps of opening taken records again; each step yields its work.

        next_tag: of the next delivery. Until the last step none of the records is open; others may
        be added in between, but none is removed. Short runs of tags are sorted, and then merged.
        """
        closed: dict[int, Unacked] = {}
        runs: list[list[int]] = [list(self.records)]
        while part := list(islice(taken, PUT_BACK_AT_ONCE)):
            closed.update(part)
            runs.append(sorted([tag for tag, _ in part]))
            yield PUT_BACK_WORK * len(part)
        if not closed:
            return
        records: dict[int, Unacked] = {}
        tags = chain(merge(*runs), self._tags_from(next_tag))
        while True:
            some_tags = list(islice(tags, PUT_BACK_AT_ONCE))
            for tag in some_tags:
                record = self.records.get(tag)
                records[tag] = closed.pop(tag) if record is None else record
            if len(some_tags) < PUT_BACK_AT_ONCE:
                # All records are open, and nothing can be added before this step ends.
                break
            yield PUT_BACK_WORK * PUT_BACK_AT_ONCE
        self._lowest = min(self._lowest, next(iter(records)))
        self.records = records

    def _tags_from(self, tag: int) -> Iterator[int]:
        """The open tags from this one on, in order, including those added during the iteration."""
        while tag <= next(reversed(self.records), 0):
            if tag in self.records:
                yield tag
            tag += 1

    def oldest(self) -> Unacked | None:
        """The record with the lowest tag."""
        return next(iter(self.records.values()), None)


def giving_back(
    unsettled: Iterator[tuple[int, Unacked]],
    give_back: Callable[[list[tuple[int, Unacked]]], object],
) -> Iterator[int]:
    """The steps that requeue the unsettled messages of an ended session (runtime/long_work.py).

    A queue gets those with the lowest tags before it delivers again, and the rest faster than it
    delivers.
    """
    while taken := list(islice(unsettled, GIVEN_BACK_AT_ONCE)):
        give_back(taken)
        yield SETTLE_WORK * len(taken)


def by_queue(taken: Iterable[tuple[int, Unacked]]) -> Iterable[tuple[QueueClient, list[Entry]]]:
    """The entries of each queue, in the order of their tags."""
    entries: dict[QueueClient, list[Entry]] = {}
    for _, record in taken:
        entries.setdefault(record.queue, []).append(record.entry)
    return entries.items()
