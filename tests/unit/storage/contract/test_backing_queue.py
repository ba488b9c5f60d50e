"""Every backing queue and every cursor has the members of its protocol, with the same parameters.

What the members do is tested by tests/storage/backing_contract.
"""

import pytest

from leveret.broker.queues.classic.priority import PriorityQueue
from leveret.storage.contract.backing_queue import BackingQueue, Cursor
from leveret.storage.messages.message import Entry, Message
from leveret.storage.queue.tiered_cursor import TieredCursor
from leveret.storage.queue.tiered_queue import TieredQueue
from leveret.storage.queue.transient_queue import TransientCursor, TransientQueue
from tests.storage.backing_contract.decorators import MirroredQueue, UnchangedQueue
from tests.unit.storage.fakes import ADDRESS, PERSISTENT_HEADER
from tests.unit.storage.protocols import members, missing

QUEUES = [TransientQueue, TieredQueue, PriorityQueue, UnchangedQueue, MirroredQueue]


@pytest.mark.parametrize("implementation", QUEUES)
def test_a_backing_queue_has_every_member_of_the_protocol(implementation):
    assert missing(BackingQueue, implementation) == []


@pytest.mark.parametrize("implementation", [TransientCursor, TieredCursor])
def test_a_cursor_has_every_member_of_the_protocol(implementation):
    assert missing(Cursor, implementation) == []


def test_a_missing_member_and_other_parameters_are_found():
    class Almost(TransientQueue):
        fetch = None

        def ack(self, entry):
            """Takes one entry instead of a sequence."""

    class Nothing:
        """Has no member."""

    assert missing(BackingQueue, Almost) == ["ack", "fetch"]
    assert missing(BackingQueue, Nothing) == members(BackingQueue)


def test_the_position_in_a_queue_without_priorities_is_that_of_the_entry():
    entry = Entry(Message(ADDRESS, PERSISTENT_HEADER, b""), 7)
    assert TransientQueue().position_of(entry) == 7
