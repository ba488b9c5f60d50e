"""When publish targets are dropped that have to be looked up again."""

from leveret.broker.sessions.outdated_targets import (
    CONNECTION_WORK,
    DELETED_MAX,
    TARGETS_OF_A_DELETION,
    OutdatedTargets,
)
from leveret.broker.sessions.targets import TARGETS_MAX, Targets
from tests.declaring import NeverTurns


class Publisher:
    """A connection that has published with a number of routing keys."""

    def __init__(self, keys, generation=1):
        self.targets, self.generation = Targets(), generation
        for number in range(keys):
            self.targets.find_by_address("e", str(number), is_mandatory=False)


def delete(outdated, count):
    for _ in range(count):
        outdated.note_deletion()


def test_they_are_dropped_after_some_deletions():
    publisher = Publisher(keys=3)
    outdated = OutdatedTargets(NeverTurns(), [publisher])
    delete(outdated, DELETED_MAX - 1)
    assert publisher.targets.count == 3
    outdated.note_deletion()
    assert publisher.targets.count == 0


def test_a_connection_without_a_vhost_is_left_alone():
    publisher = Publisher(keys=3, generation=None)
    delete(OutdatedTargets(NeverTurns(), [publisher]), DELETED_MAX)
    assert publisher.targets.count == 3


def test_a_deletion_costs_a_look_at_few_targets():
    publishers = [Publisher(keys=TARGETS_MAX) for _ in range(4)]
    turns = NeverTurns()
    outdated = OutdatedTargets(turns, publishers)
    for publisher in publishers:
        for target in publisher.targets.recent.values():
            target.generation = 1
    begin = turns.work_left
    delete(outdated, 10 * DELETED_MAX)
    looks = (begin - turns.work_left) / (4 * (TARGETS_MAX + CONNECTION_WORK))
    assert looks == 1 + 9 * DELETED_MAX * TARGETS_OF_A_DELETION // (4 * TARGETS_MAX)


def test_what_takes_many_turns_is_begun_once():
    turns = NeverTurns()
    turns.work_left = 1
    publishers = [Publisher(keys=3) for _ in range(3)]
    outdated = OutdatedTargets(turns, publishers)
    delete(outdated, 3 * DELETED_MAX)
    assert [publisher.targets.count for publisher in publishers] == [0, 3, 3]
    (work,) = turns.woken
    turns.work_left = 1000
    work.take_turn()
    assert [publisher.targets.count for publisher in publishers] == [0, 0, 0]
