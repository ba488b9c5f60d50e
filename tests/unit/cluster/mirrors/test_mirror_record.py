"""Who leads a mirrored queue, who mirrors it, and whom it waits for."""

import random

import pytest

from leveret.cluster.gm.group import Added, Died, Erased, HasJoined, Member
from leveret.cluster.mirrors import mirror_record as records
from leveret.cluster.mirrors.mirror_record import MessageCopy
from leveret.cluster.rpc.refused import Refused


def member(node, life=1):
    return Member(node, life, 1)


A, B, C, D = map(member, "abcd")


def led_by_a():
    return records.first("queue 'q'", 7, A)


def joined(record, new, *, is_synchronised=True):
    """The record with a member on the leader's right, which has its starting state."""
    record = records.joined(record, Added(new, record.leader))
    record = records.ring_changed(record, HasJoined(new))
    return records.synchronised(record, new, record.leader) if is_synchronised else record


def mirrored(*nodes, unsynchronised=""):
    """A record that A leads; the others have joined in this order."""
    record = led_by_a()
    for node in (*nodes, *unsynchronised):
        record = joined(record, member(node), is_synchronised=node not in unsynchronised)
    return record


def died(record, *members, by=None, may_lead_unsynchronised=False):
    living = [one.id for one in record.members if one.id not in members]
    change = Died(members, by or living[0])
    return records.died(record, change, may_lead_unsynchronised=may_lead_unsynchronised)


def stopped(record, one):
    """A node is stopped by an operator: its member says so itself."""
    return died(record, one, by=one)


def nodes_of(members):
    return "".join(one.id.node for one in members)


class TestMembers:
    def test_a_queue_begins_with_its_leader(self):
        record = led_by_a()
        assert (record.leader, nodes_of(record.members), record.home) == (A, "a", "a")

    def test_a_mirror_that_joins_lacks_messages_until_the_leader_says_otherwise(self):
        record = joined(led_by_a(), B, is_synchronised=False)
        assert record.find(B).is_synchronised is False
        assert records.synchronised(record, B, A).find(B).is_synchronised is True

    def test_what_a_former_leader_says_of_its_mirrors_does_not_count(self):
        record = died(mirrored("b", unsynchronised="c"), A)
        with pytest.raises(Refused, match="no longer leads the queue"):
            records.synchronised(record, C, A)

    def test_a_node_has_one_member(self):
        with pytest.raises(Refused, match="b has a living member of this queue already"):
            records.joined(mirrored("b"), Added(Member("b", 1, 2), A))

    def test_a_mirror_that_is_dropped_leaves_no_copy(self):
        record = records.dropped(mirrored("b", "c"), B)
        assert (nodes_of(record.members), record.has_copy) == ("ac", ())

    def test_the_leader_is_not_dropped(self):
        with pytest.raises(Refused, match="cannot be dropped"):
            records.dropped(mirrored("b"), A)

    @pytest.mark.parametrize("again", [
        lambda record: records.joined(record, Added(B, A)),
        lambda record: records.synchronised(record, B, A),
        lambda record: records.promoted(record, A),
        lambda record: records.returned(record, A),
        lambda record: records.dropped(record, D),
        lambda record: died(record, D),
        lambda record: records.vanished(record, (D,), ()),
        lambda record: records.vanished(record, (A,), ()),
        lambda record: records.forgotten(record, "d", ("a", "b")),
        lambda record: records.renamed(record, {"d": "x"}),
    ])  # fmt: skip
    def test_what_was_asked_for_twice_or_is_about_others_changes_nothing(self, again):
        record = mirrored("b")
        assert again(record) == record

    def test_the_ring_changes_without_the_members(self):
        record = died(mirrored("b", "c"), B)
        after = records.ring_changed(record, Erased((B,)))
        assert after.group.version == record.group.version + 1
        assert after.members == record.members


class TestFailover:
    def test_the_oldest_synchronised_mirror_leads(self):
        record = died(mirrored("c", "b"), A)
        assert (record.leader, record.has_copy) == (C, (MessageCopy("a", True),))

    def test_an_older_mirror_that_lacks_messages_does_not(self):
        record = joined(mirrored(unsynchronised="b"), C)
        assert died(record, A).leader == C

    def test_without_a_synchronised_one_the_queue_waits_for_its_leader(self):
        record = died(mirrored(unsynchronised="b"), A)
        assert (record.leader, record.awaited, nodes_of(record.members)) == (None, "a", "b")

    def test_or_the_oldest_leads_if_the_policy_says_so(self):
        record = died(mirrored(unsynchronised="bc"), A, may_lead_unsynchronised=True)
        assert (record.leader, record.awaited) == (B, "")
        assert record.find(B).is_synchronised
        assert not record.find(C).is_synchronised

    def test_several_die_at_once(self):
        record = died(mirrored("b", "c", "d"), A, B, by=D)
        assert (record.leader, nodes_of(record.members)) == (C, "cd")
        assert record.has_copy == (MessageCopy("b", True), MessageCopy("a", True))

    def test_the_word_of_a_dead_member_does_not_count(self):
        record = died(mirrored("b"), B)
        with pytest.raises(Refused, match="cannot declare others dead"):
            died(record, A, by=B)

    def test_the_leader_hands_over_and_becomes_a_mirror(self):
        before = mirrored("b", "c")
        record = records.promoted(before, C)
        assert (record.leader, nodes_of(record.mirrors), record.has_copy) == (C, "ab", ())
        assert record.find(A).is_synchronised
        assert record.group.version == before.group.version + 1

    def test_it_hands_over_to_synchronised_mirrors_only(self):
        with pytest.raises(Refused, match="it is not synchronised"):
            records.promoted(mirrored(unsynchronised="b"), B)
        with pytest.raises(Refused, match="it does not mirror it"):
            records.promoted(mirrored("b"), D)

    def test_a_mirror_that_is_back_is_empty_and_the_youngest(self):
        record = joined(died(mirrored("b", "c"), B), member("b", 2), is_synchronised=False)
        assert nodes_of(record.mirrors) == "cb"
        assert (record.has_copy, record.on("b").is_synchronised) == ((), False)

    def test_no_member_joins_a_queue_that_waits(self):
        record = died(mirrored(unsynchronised="b"), A)
        with pytest.raises(Refused, match="waits for a"):
            records.joined(record, Added(C, B))


class TestReturn:
    def test_the_awaited_node_leads_alone_and_the_others_join_again(self):
        record = died(mirrored(unsynchronised="b"), A)
        back = member("a", 2)
        record = records.returned(record, back)
        assert (record.leader, nodes_of(record.members), record.awaited) == (back, "a", "")
        assert record.has_copy == (MessageCopy("b", False),)
        assert joined(record, member("b", 2)).has_copy == ()

    def test_the_ring_goes_on_from_its_last_version(self):
        before = stopped(led_by_a(), A)
        after = records.returned(before, member("a", 2))
        assert after.group.version > before.group.version
        with pytest.raises(Refused):
            records.returned(before, A)

    def test_another_node_does_not_lead(self):
        with pytest.raises(Refused, match="does not wait for b"):
            records.returned(died(mirrored(unsynchronised="b"), A), member("b", 2))


class TestAllGone:
    def test_the_queue_waits_for_the_leader_if_that_runs_again(self):
        record = records.vanished(mirrored("b"), (A, B), ("a", "b"))
        assert (record.leader, record.awaited) == (None, "a")

    def test_or_for_a_synchronised_node_that_runs(self):
        record = records.vanished(mirrored("c", unsynchronised="b"), (A, B, C), ("b", "c"))
        assert record.awaited == "c"

    def test_or_for_the_leader_that_does_not(self):
        record = records.vanished(mirrored(unsynchronised="b"), (A, B), ("b",))
        assert record.awaited == "a"

    def test_one_that_waits_goes_on_waiting(self):
        record = died(mirrored(unsynchronised="b"), A)
        record = records.vanished(record, (B,), ("b",))
        assert (record.awaited, record.members) == ("a", ())


class TestForgotten:
    def forget(self, record, node, running=""):
        return records.forgotten(record, node, tuple(running))

    def test_a_copy_is_forgotten(self):
        assert self.forget(died(mirrored("b"), B), "b").has_copy == ()

    def test_a_mirror_whose_death_was_not_noticed_yet(self):
        record = self.forget(mirrored("b", "c"), "b")
        assert (nodes_of(record.members), record.has_copy) == ("ac", ())

    def test_a_leader_whose_death_was_not_noticed_yet(self):
        record = self.forget(mirrored("b", "c"), "a")
        assert (record.leader, record.has_copy) == (B, ())

    def test_the_last_synchronised_copy_is_waited_for_next(self):
        record = mirrored("b", "c", unsynchronised="d")
        for one in (C, B, D):
            record = died(record, one)
        record = self.forget(stopped(record, A), "a")
        assert record.awaited == "b"

    def test_without_one_the_oldest_that_lives_leads(self):
        record = self.forget(died(mirrored(unsynchronised="bc"), A), "a")
        assert (record.leader, record.awaited) == (B, "")

    def test_without_one_the_last_copy_is_waited_for(self):
        record = died(mirrored(unsynchronised="bc"), B)
        record = stopped(died(record, C), A)
        assert self.forget(record, "a").awaited == "c"

    def test_without_any_the_queue_is_lost(self):
        assert self.forget(stopped(led_by_a(), A), "a") is None
        assert self.forget(led_by_a(), "a") is None


def test_nodes_have_other_names():
    record = died(mirrored("b", "c"), C)
    record = records.renamed(record, {"a": "x", "c": "z"})
    assert (record.leader.node, nodes_of(record.members)) == ("x", "xb")
    assert record.has_copy == (MessageCopy("z", True),)
    assert joined(record, member("z", 2)).on("z") is not None
    waiting = records.renamed(stopped(led_by_a(), A), {"a": "x"})
    assert records.returned(waiting, member("x", 2)).home == "x"


class TestScenarios:
    """Two nodes that mirror a queue stop, as in the reference, and come back or do not.

    In each A stops first, then B, except for the second.
    """

    @pytest.fixture
    def both_stopped(self):
        record = stopped(mirrored("b"), A)
        assert record.leader == B
        return stopped(record, B)

    def test_1_the_last_to_stop_leads_when_both_come_back(self, both_stopped):
        with pytest.raises(Refused, match="does not wait for a"):
            records.returned(both_stopped, member("a", 2))
        record = records.returned(both_stopped, member("b", 2))
        record = joined(record, member("a", 2))
        assert (record.home, nodes_of(record.mirrors), record.has_copy) == ("b", "a", ())

    @pytest.mark.parametrize("back", ["a", "b", "ab"])
    def test_2_both_stop_at_once_and_any_of_them_leads_that_comes_back(self, back):
        record = records.vanished(mirrored("b"), (A, B), tuple(back))
        record = records.returned(record, member(back[0], 2))
        assert record.home == back[0]

    def test_3_the_first_to_stop_is_forgotten(self, both_stopped):
        record = records.returned(both_stopped, member("b", 2))
        record = records.forgotten(record, "a", ("b",))
        record = joined(record, member("c"))
        assert (record.home, nodes_of(record.mirrors), record.has_copy) == ("b", "c", ())

    def test_4_the_last_to_stop_is_forgotten_and_the_other_one_leads(self, both_stopped):
        record = records.forgotten(both_stopped, "b", ("a",))
        record = records.returned(record, member("a", 2))
        assert (record.home, record.has_copy) == ("a", ())

    @pytest.mark.parametrize("node", "ab")
    def test_5_another_machine_has_the_files_of_a_node_under_its_name(self, both_stopped, node):
        """It is the node for all others, so one of the scenarios before comes true."""
        other = "b" if node == "a" else "a"
        record = records.forgotten(both_stopped, other, (node,))
        record = records.returned(record, member(node, 2))
        assert record.home == node

    def test_6_no_node_has_the_messages(self, both_stopped):
        record = records.forgotten(both_stopped, "b", ())
        assert records.forgotten(record, "a", ()) is None


class Cluster:
    """Nodes with disks, and what the record of one queue says of them.

    on_disk: what each node has. confirmed: what no failure may lose. Each message is a number.
    """

    NODES = "abcd"

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.life = dict.fromkeys(self.NODES, 1)
        self.on_disk = {node: set() for node in self.NODES}
        self.confirmed = set()
        self.running = set(self.NODES)
        self.record = led_by_a()
        self.published = 0

    def some(self, candidates):
        candidates = sorted(candidates)
        return self.draw.choice(candidates) if candidates else None

    def step(self):
        before = self.record
        self.draw.choice(
            [self.publish, self.publish, self.join, self.synchronise, self.crash, self.stop,
             self.start, self.promote, self.drop, self.forget, self.crash_all]
        )()  # fmt: skip
        if self.record is not None:
            self.check(before)
        return self.record is not None

    def check(self, before):
        """MQ2, the version of the ring, and that the leader or awaited member has everything."""
        record = self.record
        assert record.group.version >= before.group.version
        for one in before.members:
            known = record.find(one.id)
            assert known is None or known.is_synchronised >= one.is_synchronised
        assert self.confirmed <= self.on_disk[record.home]
        for one in record.members:
            assert not one.is_synchronised or self.confirmed <= self.on_disk[one.id.node]

    def publish(self):
        if self.record.leader is not None:
            self.published += 1
            for one in self.record.members:
                self.on_disk[one.id.node].add(self.published)
            self.confirmed.add(self.published)

    def join(self):
        free = self.running - {one.id.node for one in self.record.members}
        node = self.some(free)
        if self.record.leader is not None and node is not None:
            self.life[node] += 1
            new = Member(node, self.life[node], 1)
            self.on_disk[node] = set()
            self.record = joined(self.record, new, is_synchronised=False)

    def synchronise(self):
        record = self.record
        if record.leader is not None:
            one = self.some([one.id for one in record.members])
            self.on_disk[one.node] |= self.on_disk[record.leader.node]
            self.record = records.synchronised(record, one, record.leader)

    def crash(self):
        """A node dies; its ring notices it, or the coordinator does."""
        node = self.some(self.running)
        if node is None:
            return
        self.running.discard(node)
        dead = self.record.on(node)
        others = [one.id for one in self.record.members if one is not dead]
        may_lead = self.draw.random() < 0.2
        if dead is not None and others:
            before = self.record
            self.record = died(before, dead.id, may_lead_unsynchronised=may_lead)
            self.allow_loss(may_lead)
        elif dead is not None:
            self.record = records.vanished(self.record, (dead.id,), tuple(self.running))

    def crash_all(self):
        """All nodes die, and some start before it is noticed."""
        dead = tuple(one.id for one in self.record.members)
        self.running = set(self.draw.sample(self.NODES, self.draw.randint(0, 4)))
        self.record = records.vanished(self.record, dead, tuple(self.running))
        self.come_back()

    def stop(self):
        node = self.some(self.running)
        one = None if node is None else self.record.on(node)
        if one is not None:
            self.record = stopped(self.record, one.id)
        self.running.discard(node)

    def start(self):
        node = self.some(set(self.NODES) - self.running)
        if node is not None:
            self.running.add(node)
        self.come_back()

    def come_back(self):
        """The node that the queue waits for runs: it leads with what it has."""
        node = self.record.awaited
        if node in self.running:
            self.life[node] += 1
            self.record = records.returned(self.record, Member(node, self.life[node], 1))

    def promote(self):
        if self.record.leader is not None:
            able = [one.id for one in self.record.members if one.is_synchronised]
            self.record = records.promoted(self.record, self.some(able))

    def drop(self):
        one = self.some([one.id for one in self.record.mirrors])
        if one is not None and self.record.leader is not None:
            self.record = records.dropped(self.record, one)

    def forget(self):
        """An operator gives up what a node has that does not run."""
        node = self.some(set(self.NODES) - self.running)
        if node is not None:
            self.record = records.forgotten(self.record, node, tuple(self.running))
            self.on_disk[node] = set()
            if self.record is not None:
                self.allow_loss(True)
                self.come_back()

    def allow_loss(self, may_lose):
        """What was confirmed is what the leader has, if the change may lose the rest."""
        if may_lose:
            self.confirmed &= self.on_disk[self.record.home]


@pytest.mark.parametrize("first", range(0, 300, 30))
def test_nothing_that_was_confirmed_is_lost_without_a_change_that_may(first):
    for seed in range(first, first + 30):
        cluster = Cluster(seed)
        steps = 0
        while steps < 80 and cluster.step():
            steps += 1
