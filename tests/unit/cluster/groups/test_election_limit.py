"""How many members of a node are in an election at once."""

from types import SimpleNamespace

from leveret.cluster.groups.election_limit import STANDING_MAX, ElectionLimit


class Times:
    """A clock that a test sets. woken: what it calls."""

    def __init__(self):
        self.time_ms = 1
        self.wakes = []

    def now_ms(self):
        return self.time_ms

    def wake_at(self, at_ms, wake):
        self.wakes.append(wake)


class Member:
    """A member that stands for election when it is woken."""

    def __init__(self, limit):
        self.limit = limit
        self.raft = SimpleNamespace(campaign=None)
        self.has_stood = False

    def wake(self, now_ms):
        self.has_stood = self.limit.may_stand(self)
        self.raft.campaign = object()


def test_a_removed_member_does_not_wait_any_longer():
    times = Times()
    limit = ElectionLimit(times)
    standing = [Member(limit) for _ in range(STANDING_MAX)]
    waiting = [Member(limit) for _ in range(3)]
    for member in (*standing, *waiting):
        member.wake(times.now_ms())
    assert [member.has_stood for member in waiting] == [False] * 3
    limit.forget(waiting[1])
    for member in standing:
        limit.forget(member)
    times.wakes.pop()(times.now_ms())
    assert [member.has_stood for member in waiting] == [True, False, True]
