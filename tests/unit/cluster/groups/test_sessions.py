"""The clients that a leader serves, with entries that a thread has to read."""

from leveret.cluster.groups.sessions import GroupSession, Sessions
from leveret.storage.contract.backing_queue import BeingRead
from tests.unit.cluster.groups.grouped_nodes import KeepingKind

STEPS_MAX = 100


class ManyKind(KeepingKind):
    """Effects are lists of the indexes that they need."""

    def entries_of(self, effect):
        return effect

    def without_entry(self, effect, index):
        return [one for one in effect if one != index] or None


class ReadingHost:
    """A leader whose entries are read by a thread, and are there while their reader is called."""

    def __init__(self):
        self.told = []
        self.waiting = {}
        self.gone = set()
        self._there = None

    def tell(self, session, effects, entries):
        self.told.append((effects, dict(entries)))

    def read_entry(self, index):
        if index in self.gone:
            raise KeyError(index)
        if index == self._there:
            return b"%d" % index
        raise BeingRead(str(index), self.waiting.setdefault(index, []).append)

    def is_congested(self, node):
        return False

    def step(self):
        """The thread has read an entry."""
        self._there = min(self.waiting)
        for call in self.waiting.pop(self._there):
            call()
        self._there = None


def test_an_effect_with_many_entries_that_a_thread_has_to_read_is_told():
    host = ReadingHost()
    sessions = Sessions(host, ManyKind())
    sessions.begin(GroupSession("a", 1, 7), [[1], [2, 3, 4], [5]])
    steps = 0
    while host.waiting:
        host.step()
        steps += 1
        assert steps < STEPS_MAX
    assert [effect for effects, _ in host.told for effect in effects] == [[1], [2, 3, 4], [5]]
    for effects, entries in host.told:
        for effect in effects:
            assert all(entries[index] == b"%d" % index for index in effect)
    assert steps == 5


def test_an_entry_that_is_gone_is_left_out_of_its_effect_alone():
    host = ReadingHost()
    sessions = Sessions(host, ManyKind())
    sessions.begin(GroupSession("a", 1, 7), [[1, 2, 3], [2], [4]])
    host.gone = {2}
    while host.waiting:
        host.step()
    assert [effect for effects, _ in host.told for effect in effects] == [[1, 3], [4]]
