"""Changes of records as bytes: what each leads to, and with which text it is refused."""

import pytest

from leveret.cluster.gm.group import Added, Died, HasJoined, Member
from leveret.cluster.mirrors.planning import ALWAYS, WHEN_SYNCED, Mirroring
from leveret.cluster.mirrors.record_changes import (
    AwaitedNodeReturned,
    ChangeOutcome,
    Drop,
    DropCopy,
    InRing,
    MirroredQueueFacts,
    MirroringBegan,
    MirroringEnded,
    NodeForgotten,
    Promote,
    Rename,
    Synchronised,
    Vanish,
    complete,
    decode_record,
    encode,
)
from leveret.cluster.rpc.refused import Refused

A, B = Member("a", 1, 1), Member("b", 1, 1)
QUEUE = MirroredQueueFacts("queue 'q' in vhost '/'", "a", True, True, Mirroring("all"))


def after(*changes, queue=QUEUE):
    """The outcome of changes, one after the other, of a queue without mirrors."""
    outcome = ChangeOutcome(b"", queue.node)
    for change in changes:
        outcome = complete(outcome.record, encode(change), queue._replace(node=outcome.node))
    return outcome


BEGAN = MirroringBegan(A, 7)
MIRRORED = (
    BEGAN, InRing(Added(B, A)), InRing(HasJoined(B)), Synchronised(B, A)
)  # fmt: skip


def test_a_queue_begins_to_be_mirrored():
    outcome = after(BEGAN)
    record = decode_record(outcome.record)
    assert (outcome.node, record.leader, record.group.identity) == ("a", A, 7)
    assert after(BEGAN, MirroringBegan(A, 8)) == outcome


@pytest.mark.parametrize(
    ("changes", "queue", "text"),
    [
        ([MirroringBegan(B, 7)], QUEUE, "queue 'q' in vhost '/' is on node a, not on b"),
        ([BEGAN, MirroringBegan(B, 8)], QUEUE, "queue 'q' in vhost '/' is mirrored already"),
        ([BEGAN], QUEUE._replace(may_be_mirrored=False), "only classic, shared queues"),
        ([Drop(B, A)], QUEUE, "queue 'q' in vhost '/' is not mirrored"),
        ([BEGAN, InRing(Died((A,), A)), MirroringEnded(A)], QUEUE, "waits for node a"),
        ([BEGAN, Promote(B, A)], QUEUE, "b:1.1 cannot lead the queue"),
        ([BEGAN, InRing(HasJoined(B))], QUEUE, "b:1.1 is not a living member"),
    ],
)  # fmt: skip
def test_an_impossible_change_is_refused_with_a_reason(changes, queue, text):
    with pytest.raises(Refused, match=text):
        after(*changes, queue=queue)


def test_a_joining_member_has_a_new_copy():
    outcome = after(*MIRRORED[:2])
    assert (outcome.new_copy, outcome.incarnation) == ("b", B.incarnation)
    assert after(*MIRRORED[:3]).new_copy == ""


def test_the_home_follows_the_leader():
    assert after(*MIRRORED, Promote(B, A)).node == "b"
    assert after(*MIRRORED, InRing(Died((A,), B))).node == "b"
    assert after(*MIRRORED, Drop(B, A), InRing(Died((A,), A))).node == "a"


def test_the_current_policy_says_which_members_may_lead():
    """A mirror that lacks messages leads after a crash, or a stop, as the policy says."""
    way = {
        (on_failure, is_stopped): after(
            *MIRRORED[:3], InRing(Died((A,), B if not is_stopped else A), is_stopped),
            queue=QUEUE._replace(mirroring=Mirroring("all", on_failure=on_failure)),
        ).node
        for on_failure in (ALWAYS, WHEN_SYNCED)
        for is_stopped in (False, True)
    }  # fmt: skip
    assert way == {
        (ALWAYS, False): "b", (ALWAYS, True): "a", (WHEN_SYNCED, False): "a",
        (WHEN_SYNCED, True): "a",
    }  # fmt: skip


def test_a_queue_comes_back_after_all_were_gone():
    outcome = after(*MIRRORED, Vanish((A, B), ("b",)), AwaitedNodeReturned(Member("b", 2, 1)))
    assert decode_record(outcome.record).leader == Member("b", 2, 1)
    assert (outcome.node, outcome.new_copy) == ("b", "")


def test_a_queue_that_is_not_durable_does_not_wait_for_a_node():
    brief = QUEUE._replace(is_durable=False)
    assert after(*MIRRORED, Vanish((A, B), ("b",)), queue=brief) is None
    assert after(*MIRRORED, InRing(Died((A,), B)), queue=brief).node == "b"


def test_a_queue_is_lost_with_the_last_node_that_had_it():
    assert after(BEGAN, NodeForgotten("a", ())) is None


def test_mirroring_ends_on_the_leaders_node():
    assert after(*MIRRORED, Promote(B, A), MirroringEnded(B)) == ChangeOutcome(b"", "b")


@pytest.mark.parametrize("change", [MirroringEnded(A), NodeForgotten("b", ()), Rename("a", "x")])
def test_a_queue_without_mirrors_stays_as_it_is(change):
    assert after(change) == ChangeOutcome(b"", "a")


def test_a_node_has_another_name():
    assert after(*MIRRORED, Rename("a", "x")).node == "x"


class TestALeaderBefore:
    """A change that it planned with the old record comes after another member leads."""

    HANDED_OVER = (*MIRRORED, Promote(B, A))

    @pytest.mark.parametrize(
        "change", [Drop(A, A), Promote(A, A), MirroringEnded(A), DropCopy("b", A)]
    )
    def test_it_decides_nothing(self, change):
        with pytest.raises(Refused, match="a:1.1 no longer leads the queue"):
            after(*self.HANDED_OVER, change)

    def test_the_queue_may_wait_for_it(self):
        waits = (*MIRRORED, Vanish((A, B), ()))
        for change in (Drop(B, A), Promote(B, A), MirroringEnded(A), DropCopy("b", A)):
            with pytest.raises(Refused):
                after(*waits, change)


def test_a_copy_that_is_of_no_use_is_dropped():
    died = (*MIRRORED, InRing(Died((B,), A)))
    assert [copy.node for copy in decode_record(after(*died).record).has_copy] == ["b"]
    assert decode_record(after(*died, DropCopy("b", A)).record).has_copy == ()


def test_a_copy_that_a_member_has_replaced_is_not_dropped():
    before = after(*MIRRORED)
    assert after(*MIRRORED, DropCopy("b", A)) == before._replace(new_copy="")
