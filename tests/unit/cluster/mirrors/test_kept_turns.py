"""When a leader confirms what was published to it."""

import pytest

from leveret.cluster.gm.group import Member
from leveret.cluster.mirrors.kept_turns import KeptTurns
from leveret.storage.queue.transient_queue import TransientQueue

B, C = Member("b@host", 1, 1), Member("c@host", 1, 1)


class Log(TransientQueue):
    """The queue on the leader's node, whose log the test has sync."""

    def __init__(self):
        super().__init__()
        self.waiting = []

    def when_safe(self, waiter, first, holder):
        self.waiting.append((waiter, first, holder))

    def sync(self):
        waiting, self.waiting = self.waiting, []
        for waiter, first, holder in waiting:
            waiter.confirm(first, holder)


class Publisher:
    def __init__(self):
        self.confirmed = []

    def confirm(self, first, holder):
        self.confirmed.append((first, holder))


@pytest.fixture
def log():
    return Log()


@pytest.fixture
def kept(log):
    """Of a leader with the mirrors b and c, from turn 1 on."""
    kept = KeptTurns(log, lambda: None)
    kept.joined(B, 1)
    kept.joined(C, 1)
    return kept


@pytest.fixture
def publisher():
    return Publisher()


def test_a_run_waits_for_every_mirror_and_the_log(kept, log, publisher):
    kept.when_kept(1, True, publisher, 7, "queue")
    kept.kept(B, 1)
    log.sync()
    assert not publisher.confirmed
    kept.kept(C, 1)
    assert publisher.confirmed == [(7, "queue")]


def test_messages_that_are_not_logged_wait_for_the_mirrors_only(kept, publisher):
    kept.when_kept(1, False, publisher, 1, "queue")
    kept.kept(B, 1)
    kept.kept(C, 1)
    assert publisher.confirmed == [(1, "queue")]


def test_a_report_covers_all_turns_before(kept, publisher):
    for turn in (1, 2, 3):
        kept.when_kept(turn, False, publisher, turn, "queue")
    kept.kept(B, 2)
    kept.kept(C, 3)
    assert [first for first, _ in publisher.confirmed] == [1, 2]
    assert len(kept) == 1


def test_a_mirror_that_joins_is_waited_for_from_its_turn_on(log, publisher):
    kept = KeptTurns(log, lambda: None)
    kept.joined(B, 1)
    kept.when_kept(4, False, publisher, 4, "queue")
    kept.joined(C, 5)
    kept.when_kept(5, False, publisher, 5, "queue")
    kept.kept(B, 5)
    assert [first for first, _ in publisher.confirmed] == [4]
    kept.kept(C, 5)
    assert [first for first, _ in publisher.confirmed] == [4, 5]


def test_a_removed_mirror_is_waited_for_until_that_is_stable(kept, publisher):
    kept.when_kept(1, False, publisher, 1, "queue")
    kept.kept(B, 1)
    assert not publisher.confirmed
    kept.removed(C)
    assert publisher.confirmed == [(1, "queue")]
    kept.kept(C, 9)
    assert kept.turn == 1


def test_nothing_is_confirmed_while_the_lead_is_in_doubt(kept, publisher):
    kept.in_doubt()
    kept.when_kept(0, False, publisher, 1, "queue")
    kept.kept(B, 1)
    kept.kept(C, 1)
    assert not publisher.confirmed
    kept.removed(B)
    kept.removed(C)
    assert not publisher.confirmed
    kept.is_stable()
    assert publisher.confirmed == [(1, "queue")]


def test_without_mirrors_the_log_decides(log, publisher):
    kept = KeptTurns(log, lambda: None)
    kept.when_kept(1, False, publisher, 1, "queue")
    kept.when_kept(1, True, publisher, 2, "queue")
    assert [first for first, _ in publisher.confirmed] == [1]
    log.sync()
    assert [first for first, _ in publisher.confirmed] == [1, 2]


def test_runs_are_confirmed_in_their_order(kept, log, publisher):
    kept.when_kept(1, True, publisher, 1, "queue")
    kept.when_kept(1, False, publisher, 2, "queue")
    kept.kept(B, 1)
    kept.kept(C, 1)
    assert not publisher.confirmed
    log.sync()
    assert [first for first, _ in publisher.confirmed] == [1, 2]
