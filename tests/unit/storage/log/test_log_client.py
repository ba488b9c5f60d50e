"""Every client of the log has the members of `LogClient`, and record kinds of its own."""

import pytest

from leveret.storage.log.log import Log
from leveret.storage.log.log_client import LogClient, LogPosition
from leveret.storage.messages.formats import CLOSED, OLDEST
from leveret.storage.queue.queue_log import QueueLog
from leveret.storage.queue.queue_recovery import QueueRecovery
from tests.unit.storage.fakes import NotesClient
from tests.unit.storage.protocols import missing


def unused_log():
    """A log of which nothing is asked."""
    return Log.__new__(Log)


def queue_log():
    return QueueLog(unused_log(), None, None, QueueRecovery(None))


@pytest.mark.parametrize("make", [queue_log, lambda: NotesClient(None)])
def test_a_client_has_every_member_of_the_protocol(make):
    assert missing(LogClient, make()) == []


def test_a_client_shares_no_kind_with_the_log():
    assert not queue_log().kinds & {CLOSED, OLDEST}


def test_positions_are_in_the_order_in_which_records_were_written():
    assert LogPosition(1, 900) < LogPosition(2, 40) < LogPosition(2, 80)
