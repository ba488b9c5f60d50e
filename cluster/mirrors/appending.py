"""Publishes single messages at their positions, in runs as long as possible.

A backing queue takes a run of messages with the same address, delivery mode, priority and time of
expiry, and with consecutive numbers if they have numbers. They get consecutive positions.
"""

from leveret.storage.contract.backing_queue import BackingQueue
from leveret.storage.messages.message import Entry
from leveret.storage.messages.message_run import run_of


def append_entries(queue: BackingQueue, found: list[tuple[int, Entry]]) -> bool:
    """Publish the messages of entries at increasing positions. Returns whether some of them are
    safe only later (see `BackingQueue.publish`).
    """
    is_later = False
    start = 0
    for end in range(1, len(found) + 1):
        if end < len(found) and _follows(found[end - 1], found[end]):
            continue
        position, first = found[start]
        messages = [entry.message for _, entry in found[start:end]]
        queue.go_on_at(position)
        is_later |= queue.publish(run_of(messages), first.expires_at_ms)
        start = end
    return is_later


def _follows(before: tuple[int, Entry], after: tuple[int, Entry]) -> bool:
    """Whether two messages may be in one run."""
    one, two = before[1].message, after[1].message
    number = one.number and one.number + 1
    return (
        after[0] == before[0] + 1
        and one.address is two.address
        and number == two.number
        and before[1].expires_at_ms == after[1].expires_at_ms
        and (one.header is two.header or _are_alike(before[1], after[1]))
    )


def _are_alike(before: Entry, after: Entry) -> bool:
    one, two = before.message.header, after.message.header
    return one.is_persistent == two.is_persistent and one.priority == two.priority
