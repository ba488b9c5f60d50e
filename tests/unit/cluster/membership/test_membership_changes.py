"""Changes of membership are made one after the other, by the coordinator."""

import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from leveret.broker.declarations.values import ChangePlacement, DeleteQueue, PutQueueHome
from leveret.broker.policies.parameters import Parameters
from leveret.broker.policies.policy_table import PolicyTable
from leveret.broker.queues.contract.placement import Placement
from leveret.broker.queues.contract.queue_kind import CLASSIC_QUEUE
from leveret.broker.queues.served_kinds import served_kinds
from leveret.broker.registry.declaration_log import NotTaken
from leveret.broker.runtime.pending import Answer
from leveret.cluster.membership.members import MembershipRefused
from leveret.cluster.membership.membership_changes import (
    CHANGE,
    CHANGE_TYPE,
    JOIN,
    LEAVE,
    NO,
    RENAME,
    YES,
    ClusterMembership,
    MembershipChange,
    MembershipChanges,
)
from leveret.cluster.metadata.member_records import members_of, put_member
from leveret.cluster.mirrors.mirrored_factory import MirroredFactory
from leveret.cluster.mirrors.record_changes import NodeForgotten, Rename, encode
from leveret.cluster.remote_queues.placed_factory import serve_placed


class OneNode:
    """A node that answers questions.

    asked: what it has asked others itself. takes: it takes changes. vhost: its only one. queues:
    what was declared for queues.
    """

    def __init__(self, name, running, members, *, is_in_view=True):
        self.parameters = Parameters()
        for member, is_disc in members.items():
            self._apply(put_member(member, is_disc))
        self.answers = {}
        self.asked = []
        self.takes = True
        self.vhost = SimpleNamespace(name="/", queues={}, kinds=served_kinds())
        self.vhost.all_queues = self.vhost.queues.values
        serve_placed(self.vhost.kinds, SimpleNamespace(node=name, incarnation=1))
        classic = self.vhost.kinds.of(CLASSIC_QUEUE)
        self.vhost.kinds.add(MirroredFactory(classic, None, PolicyTable(), None))
        self.queues = []
        services = SimpleNamespace(
            parameters=self.parameters, vhosts={"/": self.vhost}, declarations=self
        )
        MembershipChanges(self, services, name, lambda: running, self._begin, lambda: is_in_view)

    def has_queue(self, name, home, mirrors=b""):
        self.vhost.queues[name] = SimpleNamespace(
            name=name, kind=CLASSIC_QUEUE, placement=Placement(home, 7, mirrors)
        )

    async def _begin(self):
        pass

    def answer(self, topic, answer_to):
        self.answers[topic] = answer_to

    async def ask(self, node, topic, text, seconds_max):
        self.asked.append((node, topic, msgspec.msgpack.decode(text, type=MembershipChange)))
        return msgspec.msgpack.encode(ClusterMembership("id", {}))

    def submit(self, *declarations):
        """Applied a moment later, as when other nodes have to have it."""
        answer = Answer()
        if not self.takes:
            answer.refuse(NotTaken("no disc node is running"))
            return answer

        def apply():
            for declaration in declarations:
                self._apply(declaration)
            answer.give(None)

        asyncio.get_running_loop().call_soon(apply)
        return answer

    def _apply(self, it):
        if hasattr(it, "identity") or isinstance(it, DeleteQueue):
            self.queues.append(it)
        elif hasattr(it, "value"):
            self.parameters.put(it.component, it.vhost, it.name, it.value)
        else:
            self.parameters.remove(it.component, it.vhost, it.name)


async def test_of_two_changes_at_once_the_one_that_leaves_no_disc_node_is_refused():
    node = OneNode("c", ("c",), {"a": True, "b": True, "c": False})
    change_type = node.answers[CHANGE_TYPE]
    results = await asyncio.gather(
        change_type("a", b"0"), change_type("b", b"0"), return_exceptions=True
    )
    assert [type(one) for one in results] == [bytes, MembershipRefused]
    assert members_of(node.parameters) == {"a": False, "b": True, "c": False}


async def test_a_member_that_does_not_coordinate_passes_the_change_on():
    node = OneNode("b", ("a", "b"), {"a": True, "b": True})
    await node.answers[CHANGE_TYPE]("c", b"0")
    assert node.asked == [("a", CHANGE, MembershipChange(CHANGE_TYPE, "c", "b", is_disc=False))]


async def test_a_node_that_has_ceased_to_coordinate_says_so():
    node = OneNode("b", ("a", "b"), {"a": True, "b": True})
    change = msgspec.msgpack.encode(MembershipChange(CHANGE_TYPE, "c", "c"))
    with pytest.raises(MembershipRefused, match="has ceased to coordinate the cluster"):
        await node.answers[CHANGE]("c", change)


async def test_a_change_that_the_cluster_does_not_take_now_is_refused():
    node = OneNode("a", ("a",), {"a": True})
    node.takes = False
    with pytest.raises(MembershipRefused, match="no disc node is running"):
        await node.answers[JOIN]("b", YES)


async def test_a_node_that_comes_back_under_another_name():
    node = OneNode("a", ("a",), {"a": True, "old": False})
    for _ in range(2):
        await node.answers[RENAME]("new", b"old")
        assert members_of(node.parameters) == {"a": True, "new": False}


async def test_a_node_that_does_not_run_yet_renames_no_node():
    node = OneNode("a", ("a",), {"a": True, "old": False}, is_in_view=False)
    assert await node.answers[RENAME]("new", b"old") == NO
    assert members_of(node.parameters) == {"a": True, "old": False}


def with_queues(node):
    """Queues that live on a node, two of which are mirrored, and one that lives elsewhere."""
    node.has_queue("alone", "gone")
    node.has_queue("led", "gone", b"record")
    node.has_queue("mirrored", "a", b"record")
    node.has_queue("other", "a")
    return node


async def test_a_mirrored_queue_does_not_go_with_a_node_that_leaves():
    node = with_queues(OneNode("a", ("a", "gone"), {"a": True, "gone": True}))
    await node.answers[LEAVE]("gone", YES)
    forget = encode(NodeForgotten("gone", ("a",)))
    assert node.queues == [
        DeleteQueue("/", "alone"),
        ChangePlacement("/", "led", 7, forget),
        ChangePlacement("/", "mirrored", 7, forget),
    ]


async def test_mirrors_are_known_by_the_new_name_of_their_node():
    node = with_queues(OneNode("a", ("a",), {"a": True, "gone": True}))
    await node.answers[RENAME]("new", b"gone")
    rename = encode(Rename("gone", "new"))
    assert node.queues == [
        PutQueueHome("/", "alone", "new", 7),
        ChangePlacement("/", "led", 7, rename),
        ChangePlacement("/", "mirrored", 7, rename),
    ]
