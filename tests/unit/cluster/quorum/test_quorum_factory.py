"""Where quorum queues are placed, and how their members change."""

import pytest

from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.declarations.values import ChangePlacement
from leveret.broker.runtime.counts import MessageCounts
from leveret.cluster.quorum.group_sizes import group_size
from leveret.cluster.quorum.quorum_factory import QuorumFactory
from leveret.cluster.remote_queues.remote_hold import UntakenBytes
from leveret.cluster.replicated_queues.client.own_node import OwnNode
from leveret.cluster.replicated_queues.client.sender_numbers import SenderNumbers
from leveret.cluster.replicated_queues.member_placement import (
    NodeLoad,
    leader_node,
    member_nodes,
)
from leveret.cluster.replicated_queues.membership_record import (
    AddMember,
    RemoveMember,
    ReplaceMember,
    decode_record,
    encode,
    new_record,
)
from leveret.storage.messages.addresses import Addresses
from tests.unit.broker.queues.fakes import FakeVhost, specified
from tests.unit.cluster.quorum.group_of_one import ANSWER_MS, GroupOfOne

ARGUMENTS = {"x-queue-type": ("S", "quorum")}


class Cluster:
    """Five nodes. Members are placed on the least loaded ones. records: those of the groups."""

    def __init__(self):
        self.all = [
            NodeLoad("a", True, 9, 5),
            NodeLoad("b", True, 2, 2),
            NodeLoad("c", False, 0, 0),
            NodeLoad("d", True, 1, 2),
            NodeLoad("e", True, 5, 9),
        ]
        self.size, self.wanted_locator = 3, "client-local"
        self.records, self.silent = [], set()

    is_alone = False

    def loads(self):
        return self.all

    def group_size(self, specification):
        return self.size

    def locator(self, specification):
        return self.wanted_locator

    def made(self, specification, record):
        return GroupOfOne(FakeVhost().clock)

    def added(self, queue, record):
        self.records.append(record)

    record_changed = added

    def policies_changed(self):
        """No queue gets more members."""

    def voters_of(self, queue, record):
        return record.nodes

    def answering(self, running):
        return running - self.silent


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def factory(cluster):
    untaken = UntakenBytes(lambda is_behind: None)
    node = OwnNode("a", ANSWER_MS, SenderNumbers("a", 1), Addresses(), untaken, MessageCounts())
    return QuorumFactory(node, cluster, cluster)


@pytest.fixture
def queue(factory):
    """A queue with members on a, d and b."""
    specification = specified(ARGUMENTS, durable=True)
    specification = specification._replace(placement=factory.place(specification))
    queue = factory.make(FakeVhost(), specification)
    factory.added("/", queue, 0)
    return queue


def nodes_after(factory, queue, *changes):
    """The nodes with members after these changes."""
    for change in changes:
        outcome = factory.complete("/", queue, encode(change))
        factory.moved("/", queue, outcome.placement, 0)
    return decode_record(queue.placement.record).nodes


# Placing


def test_the_declaring_node_has_a_member_and_others_go_where_there_are_few(cluster):
    assert member_nodes("a", cluster.all, 3) == ("a", "d", "b")
    assert member_nodes("a", cluster.all, 1) == ("a",)
    assert member_nodes("c", cluster.all, 2) == ("c", "d")


def test_a_size_above_the_number_of_nodes_gives_as_many_as_there_are(cluster):
    assert member_nodes("a", cluster.all, 99) == ("a", "d", "b", "e", "c")


def test_the_leader_is_here_or_where_fewest_are(cluster):
    members = ("a", "d", "b")
    assert leader_node("a", members, cluster.all, "client-local") == "a"
    assert leader_node("a", members, cluster.all, "balanced") == "b"
    assert leader_node("b", members, cluster.all, "balanced") == "b"
    assert leader_node("d", members, cluster.all, "balanced") == "d", "equally few: here"
    assert leader_node("a", ("a", "c"), cluster.all, "balanced") == "a", "c does not run"


@pytest.mark.parametrize(
    ("argument", "policy", "of_vhost", "size"),
    [(5, 4, 2, 5), (None, 4, 2, 4), (None, None, 2, 2), (None, None, None, 3), (0, "x", None, 3)],
)
def test_the_size_is_that_of_the_argument_the_policy_the_vhost_or_the_node(
    argument, policy, of_vhost, size
):
    arguments = {} if argument is None else {"x-quorum-initial-group-size": ("I", argument)}
    policies = {} if policy is None else {"target-group-size": policy}
    assert group_size(arguments, policies, of_vhost, 3) == size


def test_a_queue_is_placed_under_a_new_identity(factory, cluster):
    cluster.wanted_locator = "balanced"
    first, second = (factory.place(specified(ARGUMENTS, durable=True)) for _ in range(2))
    assert first.node == "b"
    assert decode_record(first.record) == new_record(("a", "d", "b"))
    assert first.identity != second.identity


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("x-delivery-limit", ("S", "many")),
        ("x-quorum-target-group-size", ("I", 0)),
        ("x-quorum-target-group-size", ("S", "3")),
    ],
)
def test_a_value_that_means_nothing_is_named_in_the_log(factory, caplog, name, field):
    factory.place(specified({**ARGUMENTS, "x-delivery-limit": ("I", -1), name: field}))
    (record,) = caplog.records
    assert f"the argument {name} has no effect: {field[1]!r}" in record.message


def test_the_groups_of_the_node_hear_of_queues_and_of_changes(factory, queue, cluster):
    nodes_after(factory, queue, AddMember("e"))
    assert [record.nodes for record in cluster.records] == [("a", "d", "b"), ("a", "d", "b", "e")]


def test_a_node_is_needed_if_the_others_are_no_majority_or_do_not_answer(factory, queue, cluster):
    assert not factory.needs_node(queue, "a", {"a", "b", "d"})
    assert factory.needs_node(queue, "a", {"a", "b"}), "the members are on a, d and b"
    assert not factory.needs_node(queue, "e", {"a", "b"})
    cluster.silent = {"d"}
    assert factory.needs_node(queue, "a", {"a", "b", "d"})


# Changes of the members


def test_members_are_added_and_removed(factory, queue):
    assert nodes_after(factory, queue, AddMember("e"), RemoveMember("d")) == ("a", "b", "e")
    assert nodes_after(factory, queue, AddMember("e"), RemoveMember("d")) == ("a", "b", "e")


def test_numbers_are_not_used_again(factory, queue):
    nodes_after(factory, queue, RemoveMember("b"), AddMember("b"))
    assert decode_record(queue.placement.record).of_node("b").name == "b/4"


def test_a_member_that_has_lost_its_disk_is_replaced_once(factory, queue):
    nodes_after(factory, queue, ReplaceMember("d", 2), ReplaceMember("d", 2))
    assert decode_record(queue.placement.record).of_node("d").number == 4


def test_the_last_member_is_not_removed(factory, queue):
    nodes_after(factory, queue, RemoveMember("b"), RemoveMember("d"))
    with pytest.raises(ChannelFault, match="'q' in vhost '/': node a has the only member"):
        nodes_after(factory, queue, RemoveMember("a"))


def test_another_node_leads_when_the_leaders_member_is_removed(factory, queue):
    nodes_after(factory, queue, RemoveMember("a"))
    assert queue.placement.node == "d"


def test_a_change_that_is_garbage_is_refused(factory, queue):
    with pytest.raises(ChannelFault, match="cannot change the members"):
        factory.complete("/", queue, b"garbage")


def test_a_renamed_node_keeps_its_member(factory, queue):
    declared = factory.node_renamed("/", queue, "a", "z")
    assert isinstance(declared, ChangePlacement)
    outcome = factory.complete("/", queue, declared.change)
    assert outcome.placement.node == "z"
    assert decode_record(outcome.placement.record).of_node("z").number == 1
    assert factory.node_renamed("/", queue, "e", "z") is None


def test_a_queue_lives_on_without_a_removed_node_unless_it_had_the_only_member(factory, queue):
    assert factory.node_removed("/", queue, "e", frozenset("a")) is None
    declared = factory.node_removed("/", queue, "a", frozenset("bd"))
    assert decode_record(factory.complete("/", queue, declared.change).placement.record).nodes == (
        "d",
        "b",
    )
    nodes_after(factory, queue, RemoveMember("b"), RemoveMember("d"))
    assert factory.complete("/", queue, declared.change) is None
