"""What a mirror tells its leader, and when: not before it is on its disk."""

import pytest

from leveret.broker.queues.contract.publication import publication_of
from leveret.cluster.mirrors import frames
from leveret.cluster.mirrors.batches import Batch
from leveret.cluster.mirrors.decisions import DecisionWriter
from leveret.cluster.mirrors.kept_turns import KeptTurns
from leveret.cluster.mirrors.leader_backing_queue import LeaderBackingQueue
from leveret.cluster.mirrors.mirror_member import MirrorMember
from leveret.cluster.mirrors.replica_host import make_mirror_queue
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Entry, Message
from leveret.storage.queue.transient_queue import TransientQueue
from tests.unit.cluster.mirrors.fakes import leader_session
from tests.unit.cluster.mirrors.group_of_queues import ADDRESS, HEADERS

BORN, TERM, SENDER, GONE = 3, 2, 9, 8


class Log:
    """The log of the mirror's node, which the test has sync."""

    def __init__(self):
        self.waiting = []

    def sync(self):
        waiting, self.waiting = self.waiting, []
        for waiter, first, holder in waiting:
            waiter.confirm(first, holder)


class Logged(TransientQueue):
    """What is published is safe when the log was synced."""

    __slots__ = ("log",)

    def publish(self, run, expires_at_ms):
        super().publish(run, expires_at_ms)
        return True

    def when_safe(self, waiter, first, holder):
        self.log.waiting.append((waiter, first, holder))


class User:
    """The replica of the node. told: the frames to the leader, by their kinds. left: why."""

    identity = 99

    def __init__(self):
        self.log = Log()
        self.told = []
        self.left = []

    def make_backing(self, lacked):
        return make_mirror_queue(lacked, None, self._part)

    def _part(self, level, is_head):
        part = Logged()
        part.log = self.log
        return part

    def tell_leader(self, *pieces):
        self.told.append(b"".join(pieces))

    def is_linked(self, sender):
        return sender != GONE

    def leave(self, error):
        self.left.append(error)

    def flush_later(self):
        pass


@pytest.fixture
def user():
    return User()


@pytest.fixture
def mirror(user):
    """It lacks the first four positions, and has told its leader so."""
    mirror = MirrorMember(BORN, user, Addresses(), 0)
    writer = DecisionWriter(1)
    writer.joined(BORN, TERM, {}, [(0, 4)])
    mirror.decided(writer.take())
    mirror.report()
    assert [frame[0] for frame in user.told] == [frames.LACKS, frames.KEPT]
    user.told.clear()
    return mirror


def kept(user, mirror):
    """The turn and the batch of the last report, at the end of a round; None without one."""
    mirror.report()
    reports = [frame for frame in user.told if frame[0] == frames.KEPT]
    return frames.read_kept(reports[-1])[1:] if reports else None


def batch(number, start):
    """Two messages that the mirror lacks."""
    found = Batch(number, 1, TERM, start, start + 2)
    for position in (start, start + 1):
        found.add(position, Entry(Message(ADDRESS, HEADERS[0], b"m"), position), False)
    return b"".join(found.encode(0))


def published(turn, position, sender=SENDER):
    """The decision that one message is published, which comes with it."""
    writer = DecisionWriter(turn)
    writer.published(sender, position, 1, position, 0)
    return writer.take()


def test_a_batch_is_reported_when_it_is_on_disk_though_the_turn_was(user, mirror):
    mirror.batch(frames.BATCH, batch(1, 0))
    assert kept(user, mirror) is None
    user.log.sync()
    assert kept(user, mirror) == (1, 1)


def test_so_is_a_batch_behind_another_one_that_was_reported(user, mirror):
    mirror.batch(frames.BATCH, batch(1, 0))
    user.log.sync()
    mirror.batch(frames.BATCH, batch(2, 2))
    assert kept(user, mirror) == (1, 1)
    user.log.sync()
    assert kept(user, mirror) == (1, 2)


def test_missing_contents_are_reported_when_the_rest_is_on_disk(user, mirror):
    mirror.batch(frames.BATCH, batch(1, 0))
    mirror.leader_changed()
    mirror.report()
    assert not [frame for frame in user.told if frame[0] == frames.LACKS]
    user.log.sync()
    mirror.report()
    assert [frame for frame in user.told if frame[0] == frames.LACKS]


def test_a_turn_is_reported_when_what_it_has_published_is_on_disk(user, mirror):
    mirror.sender_begins(SENDER, 4)
    contents = publication_of([Message(ADDRESS, HEADERS[0], b"m")]).sent(SENDER, 4)
    mirror.contents(contents, 0)
    mirror.decided(published(2, 4))
    assert kept(user, mirror) is None
    user.log.sync()
    assert kept(user, mirror) == (2, 0)


def test_a_turn_without_publishes_is_reported_at_once(user, mirror):
    writer = DecisionWriter(2)
    writer.refused(SENDER, 0, 1)
    mirror.decided(writer.take())
    assert kept(user, mirror) == (2, 0)


def test_what_was_left_out_for_a_lead_that_was_taken_back_is_not_reported(user, mirror):
    mirror.sender_gone(GONE)
    mirror.decided(published(2, 4, GONE))
    mirror.decided(published(3, 5))
    assert mirror.promote() is None
    mirror.leader_changed()
    assert kept(user, mirror) is None
    assert len(user.left) == 1


def test_a_leader_that_hands_over_waits_for_its_own_log(user):
    inner = user.make_backing([])
    log = KeptTurns(inner, lambda: None)
    backing = LeaderBackingQueue(inner, log, 0, term=TERM, turn=5)
    mirror = MirrorMember(BORN, user, Addresses(), 0)
    leading = leader_session(backing, log)
    mirror.has_led(leading)
    assert kept(user, mirror) is None
    user.log.sync()
    assert kept(user, mirror) == (4, 0)
