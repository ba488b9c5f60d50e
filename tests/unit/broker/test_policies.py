"""Policies: applying a change to very many objects."""

from leveret.broker.policies.policy_table import Applier


def numbers(seen, count, bad=None):
    for number in range(count):
        if number == bad:
            raise ValueError("there is something wrong with this one")
        seen.append(number)
        yield


def test_the_rest_of_the_node_has_its_turns_in_between():
    later, seen = [], []
    applier = Applier(later.append, 2)
    applier.start(numbers(seen, 5))
    assert seen == [0, 1]
    while later:
        later.pop()()
    assert seen == [0, 1, 2, 3, 4]


def test_changes_are_done_one_after_the_other():
    later, seen = [], []
    applier = Applier(later.append, 2)
    applier.start(numbers(seen, 3))
    applier.start(numbers(seen, 2))
    while later:
        later.pop()()
    assert seen == [0, 1, 2, 0, 1]


def test_work_that_fails_does_not_hold_up_what_comes_after_it():
    later, seen = [], []
    applier = Applier(later.append, 2)
    applier.start(numbers(seen, 5, bad=1))
    applier.start(numbers(seen, 2))
    while later:
        later.pop()()
    assert seen == [0, 0, 1]
