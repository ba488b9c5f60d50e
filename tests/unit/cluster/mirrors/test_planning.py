"""What comes next until a mirrored queue is where its policy wants it: tables of steps."""

import pytest

from leveret.cluster.gm.group import Added, Died, HasJoined, Member
from leveret.cluster.mirrors import mirror_record as records
from leveret.cluster.mirrors.planning import (
    NOT_MIRRORED,
    AddMirror,
    BeginMirroring,
    DropMirror,
    EndMirroring,
    ForgetCopy,
    NodesInView,
    TransferLeadership,
    next_step,
    read_mirroring,
    returns,
    vanished,
)

ALL = {"ha-mode": "all"}


def exactly(count):
    return {"ha-mode": "exactly", "ha-params": count}


def named(nodes):
    return {"ha-mode": "nodes", "ha-params": list(nodes)}


def member(node, life=1):
    return Member(node, life, 1)


def joined(record, node, life=1):
    new = member(node, life)
    return records.ring_changed(records.joined(record, Added(new, record.leader)), HasJoined(new))


def died(record, node):
    living = [one.id for one in record.members]
    other = next((one for one in living if one.node != node), member(node))
    return records.died(record, Died((member(node),), other), may_lead_unsynchronised=False)


def record_of(where):
    """The record of nodes that are written down as `Bac`: the leader is first, in the order in
    which they joined; a synchronised one is a capital letter.
    """
    record = None
    for one in where:
        node = one.lower()
        record = records.first("q", 7, member(node)) if record is None else joined(record, node)
        if one.isupper() and record.leader.node != node:
            record = records.synchronised(record, member(node), record.leader)
    return record


def written(record):
    """What `record_of` is given."""
    return "".join(
        one.id.node.upper() if one.is_synchronised else one.id.node
        for one in (record.find(record.leader), *record.mirrors)
    )


def step_of(record, policy, running="abcd", maintained=""):
    """The next step; of several nodes the last one is chosen."""
    mirroring = read_mirroring(policy)
    nodes = NodesInView(frozenset(running), frozenset(maintained))
    home = "a" if record is None else record.home
    return next_step(record, home, mirroring, nodes, lambda count: count - 1)


def carried_out(record, step):
    match step:
        case AddMirror(node):
            return joined(record, node, life=2)
        case DropMirror(one):
            return records.dropped(record, one)
        case TransferLeadership(one):
            return records.promoted(record, one)
        case ForgetCopy(node):
            return records.forgotten(record, node, ())
    raise AssertionError(step)


def way(where, policy, running="abcd", maintained=""):
    """The places that a queue goes through without any mirror being synchronised meanwhile."""
    record, places = record_of(where), []
    while step := step_of(record, policy, running, maintained):
        record = carried_out(record, step)
        places.append(written(record))
        assert len(places) < 20
    return places


@pytest.mark.parametrize(
    ("where", "policy", "running", "expected"),
    [
        # [A, B] to [C, D] goes by [A, C, D].
        ("AB", named("cd"), "abcd", ["ABc", "ABcd", "Acd"]),
        ("AcD", named("cd"), "abcd", ["DAc", "Dc"]),
        ("AB", named("ba"), "abcd", []),
        ("AB", named("b"), "abcd", ["BA", "B"]),
        ("AB", named("xy"), "abcd", ["A"]),
        ("ABC", named("cx"), "abcd", ["AC", "CA", "C"]),
        # All, also those that come later.
        ("A", ALL, "abc", ["Ab", "Abc"]),
        ("ABC", ALL, "abcd", ["ABCd"]),
        ("ABC", ALL, "abc", []),
        # As many as asked for, the synchronised ones first.
        ("A", exactly(3), "abcd", ["Ad", "Adc"]),
        ("AB", exactly(3), "ab", []),
        ("AbCD", exactly(3), "abcd", ["ACD"]),
        ("ABCD", exactly(2), "abcd", ["ABD", "AB"]),
    ],
)
def test_where_a_queue_goes(where, policy, running, expected):
    assert way(where, policy, running) == expected


@pytest.mark.parametrize(
    ("policy", "running", "expected"),
    [
        (ALL, "ab", BeginMirroring()),
        (ALL, "a", None),
        (exactly(2), "abc", BeginMirroring()),
        (exactly(1), "abc", None),
        (named("a"), "abc", None),
        (named("bx"), "abc", BeginMirroring()),
        ({"max-length": 5}, "abc", None),
        ({}, "abc", None),
    ],
)
def test_a_queue_begins_to_be_mirrored_when_there_is_a_node_for_it(policy, running, expected):
    assert step_of(None, policy, running) == expected


def test_a_policy_that_does_not_mirror_ends_it_at_once():
    assert step_of(record_of("ABc"), {}) == EndMirroring()
    assert step_of(record_of("A"), exactly(1)) == EndMirroring()


def test_exactly_replaces_a_mirror_that_died():
    record = died(record_of("AB"), "b")
    assert step_of(record, exactly(2), "acd") == AddMirror("d")


def test_a_mirror_that_is_back_before_it_was_replaced_joins_again():
    record = died(record_of("AB"), "b")
    assert step_of(record, exactly(2), "ab") == AddMirror("b")


def test_a_record_is_kept_while_a_node_that_is_down_has_messages():
    record = died(record_of("AB"), "b")
    assert step_of(record, ALL, "a") is None
    assert step_of(record, named("ab"), "a") is None


def test_a_node_that_is_back_and_not_wanted_gives_its_copy_up():
    record = died(record_of("ABC"), "b")
    assert step_of(record, exactly(2), "ac") is None
    assert step_of(record, exactly(2), "abc") == ForgetCopy("b")
    assert way("AB", exactly(2)) == []


def test_a_node_under_maintenance_hands_over():
    assert way("AbC", ALL, "abc", maintained="a") == ["CAb"]
    assert way("Ab", ALL, "ab", maintained="a") == []


def test_without_a_leader_a_member_can_only_return():
    record = died(record_of("Ab"), "a")
    assert step_of(record, ALL) is None
    assert [node for node in "ab" if returns(record, node)] == ["a"]
    assert not returns(None, "a")
    assert not returns(record_of("Ab"), "a")


def test_the_coordinator_reports_members_of_which_none_lives():
    record = record_of("AB")
    assert vanished(record, lambda one: one == member("b")) == ()
    assert vanished(record, lambda one: False) == (member("a"), member("b"))
    assert vanished(None, lambda one: False) == ()


def test_a_queue_without_a_policy_has_no_mirroring():
    assert read_mirroring({}) == NOT_MIRRORED
