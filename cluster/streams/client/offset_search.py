"""Finds offsets in the log of a stream's member on this node, over reads of its indexes."""

from collections.abc import Callable
from functools import partial

from leveret.broker.queues.contract.offset_specification import (
    FIRST,
    LAST,
    NEXT,
    TIMESTAMP,
    OffsetSpecification,
)
from leveret.broker.runtime.pending import Answer
from leveret.cluster.streams.client.stream_group import OwnLog
from leveret.storage.contract.backing_queue import BeingRead
from leveret.storage.disk.disk import StoreError


def find_offset(own: OwnLog, start: OffsetSpecification, answer: Answer[int]) -> None:
    """Answer with the offset of the first message that a reader gets. Refused with StoreError.

    It may be after the last message: the reader waits for it.
    """
    if start == FIRST:
        answer.give(own.log.first_offset)
    elif start == NEXT:
        answer.give(own.committed_offset)
    elif start == LAST:
        find_last_chunk(own, answer)
    elif start.kind == TIMESTAMP:
        _search(lambda: min(own.log.find_time(start.value), own.committed_offset), answer)
    else:
        answer.give(max(start.value, own.log.first_offset))


def find_last_chunk(own: OwnLog, answer: Answer[int]) -> None:
    """Answer with the first offset of the last committed chunk with messages.

    It is that after the last message if there is none.
    """
    _search(partial(own.log.find_last_messages, own.committed_entry), answer)


def _search(find: Callable[[], int], answer: Answer[int]) -> None:
    try:
        answer.give(find())
    except BeingRead as reading:
        reading.when_done(lambda: _search(find, answer))
    except StoreError as error:
        answer.refuse(error)
