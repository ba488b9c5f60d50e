"""Placements that follow the leaders of a node, and leaders that are handed over."""

import asyncio
from types import SimpleNamespace

import pytest

from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.queues.contract.placement import Placement
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.cluster.raft.configuration import Configuration
from leveret.cluster.raft.progress import REPLICATING, Progress
from leveret.cluster.replicated_queues.leadership import (
    AGAIN_MS,
    BATCH,
    CATCH_UP_MS,
    LOOK_MS,
    UNDER_WAY_MAX,
    Leadership,
)
from leveret.cluster.replicated_queues.membership_record import Lead, decode_change, new_record

RECORD = new_record(("a", "b", "c"))
NAMES = RECORD.names(are_voters=True)


class Member:
    """The member on node a, which leads. transfers: the members that are asked to lead."""

    def __init__(self, group, first_index=7):
        self.group, self.me = group, NAMES[0]
        self.transfers = []
        progress = [Progress(name, 1) for name in NAMES[1:]]
        self.leading = SimpleNamespace(
            first_index=first_index, transfer_to="", progress=progress, is_over=False
        )
        log = SimpleNamespace(configuration=Configuration(NAMES))
        self.state = SimpleNamespace(commit=5, reachable=set(NAMES), log=log)
        self.raft = self

    def catch_up(self, *nodes):
        for one in self.leading.progress:
            if one.member in {RECORD.of_node(node).name for node in nodes}:
                one.state, one.match = REPLICATING, 5

    def transfer_to(self, name, now_ms):
        self.transfers.append(name)
        self.leading.transfer_to = name

    def follow(self):
        self.raft = SimpleNamespace(leading=None)


class Node:
    """Node a of three. submitted: batches of groups that it has declared to lead."""

    def __init__(self):
        self.clock = VirtualClock()
        self.node, self.members, self.declared = "a", {}, {}
        self.running, self.under_maintenance = {"a", "b", "c"}, set()
        self.submitted, self.answers = [], []
        self.leadership = Leadership(self, self.declared, self, self.submit, self.clock)

    def pass_ms(self, time_ms):
        self.clock.advance(time_ms / 1000)

    def now_ms(self):
        return self.clock.now_ms()

    def mark(self, member):
        return

    def submit(self, *declarations, answer):
        assert {decode_change(one.change) for one in declarations} == {Lead("a")}
        self.submitted.append([one.identity for one in declarations])
        self.answers.append(answer)

    def apply(self):
        """The oldest batch is applied."""
        for group in self.submitted[len(self.submitted) - len(self.answers)]:
            queue = self.declared[group].queue
            queue.placement = queue.placement._replace(node="a")
        self.answers.pop(0).give(None)

    def lead(self, group, placed, first_index=7):
        placement = Placement(placed, group)
        queue = SimpleNamespace(placement=placement, name=str(group))
        self.declared[group] = SimpleNamespace(vhost="/", queue=queue, record=RECORD)
        member = self.members[group] = Member(group, first_index)
        self.leadership.begins(member)
        return member


@pytest.fixture
def node():
    return Node()


def test_the_death_of_a_node_that_led_very_many_queues_takes_few_declarations(node):
    count = 5 * BATCH // 2
    for group in range(count):
        node.lead(group, placed="b")
    node.pass_ms(1)
    assert [len(batch) for batch in node.submitted] == [BATCH], "one batch is under way at a time"
    while node.answers:
        node.apply()
        node.pass_ms(1)
    assert [len(batch) for batch in node.submitted] == [BATCH, BATCH, BATCH // 2]
    assert sorted(group for batch in node.submitted for group in batch) == list(range(count))


def test_a_leader_that_its_placement_names_declares_nothing(node):
    node.lead(1, placed="a")
    node.pass_ms(AGAIN_MS)
    assert not node.submitted


def test_what_could_not_be_declared_is_declared_again_if_it_still_leads(node):
    node.lead(1, placed="b")
    lost = node.lead(2, placed="b")
    node.pass_ms(1)
    node.answers.pop().refuse(precondition_failed("not now"))
    lost.follow()
    node.pass_ms(AGAIN_MS)
    assert node.submitted == [[1, 2], [1]]


def test_the_first_leader_hands_over_when_the_named_member_has_everything(node):
    member = node.lead(1, placed="c", first_index=1)
    node.pass_ms(5 * LOOK_MS)
    assert not member.transfers
    member.catch_up("b", "c")
    node.pass_ms(LOOK_MS)
    assert member.transfers == [RECORD.of_node("c").name]
    member.follow()
    node.pass_ms(CATCH_UP_MS)
    assert not node.submitted


def test_a_leader_that_cannot_hand_over_declares_itself(node):
    member = node.lead(1, placed="c", first_index=1)
    member.catch_up("b")
    node.pass_ms(CATCH_UP_MS + LOOK_MS)
    assert not member.transfers
    assert node.submitted == [[1]]
    refused = node.lead(2, placed="b", first_index=1)
    refused.catch_up("b")
    node.pass_ms(LOOK_MS)
    refused.leading.transfer_to = ""
    node.apply()
    node.pass_ms(LOOK_MS)
    assert node.submitted == [[1], [2]]


def test_a_node_under_maintenance_hands_over_some_queues_at_a_time(node):
    members = [node.lead(group, placed="a") for group in range(UNDER_WAY_MAX + 10)]
    for member in members:
        member.catch_up("b", "c")
    node.under_maintenance = {"c"}
    node.leadership.set_leaving(True)
    node.pass_ms(10 * LOOK_MS)
    begun = [member for member in members if member.transfers]
    assert len(begun) == UNDER_WAY_MAX
    assert {member.transfers[0] for member in begun} == {RECORD.of_node("b").name}
    for member in begun:
        member.follow()
    node.pass_ms(2 * LOOK_MS)
    assert all(member.transfers for member in members)


def test_a_queue_without_another_member_is_not_waited_for(node):
    member = node.lead(1, placed="a")
    node.running = {"a", "b"}
    node.under_maintenance = {"b"}
    node.leadership.set_leaving(True)
    assert asyncio.run(node.leadership.hand_over_all()) is False
    assert not member.transfers
