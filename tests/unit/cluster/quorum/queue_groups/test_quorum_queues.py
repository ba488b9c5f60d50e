"""Quorum queues of a node without links and files."""

from leveret.broker.runtime.names import SUCCESSOR_PREFIX
from leveret.broker.runtime.pending import Answer
from leveret.cluster.quorum.machine.effects import Expired
from leveret.cluster.quorum.queue_groups.declared_group import machine_of
from leveret.cluster.quorum.queue_groups.quorum_queues import QuorumQueues
from leveret.testing import EmbeddedBroker
from tests.patience import until


async def led(node):
    """A quorum queue that the node leads, and the member."""
    groups = node.broker.clustering.kinds.find(QuorumQueues)
    (declared,) = groups.declared.values()
    member = groups.groups.members[declared.group]
    await until(lambda: member.is_serving)
    return groups, declared.queue, member


QUEUE = {
    "name": "q", "vhost": "/", "durable": True, "auto_delete": False,
    "arguments": {"x-queue-type": "quorum"},
}  # fmt: skip


async def test_a_queue_may_expire_while_its_vhost_is_deleted():
    async with EmbeddedBroker(definitions={"queues": [QUEUE]}) as node:
        groups, _, member = await led(node)
        vhost = node.broker.services.vhosts.pop("/")
        groups.groups.lead_effects(member, [Expired()])
        node.broker.services.vhosts["/"] = vhost
        assert not member.damage


async def test_a_member_may_be_lost_while_its_vhost_is_deleted(caplog):
    async with EmbeddedBroker(definitions={"queues": [QUEUE]}) as node:
        groups, _, member = await led(node)
        vhost = node.broker.services.vhosts.pop("/")
        groups.groups.lost(member.group, member.me)
        node.broker.services.vhosts["/"] = vhost
    assert "cannot replace the member of quorum queue 'q' in vhost '/'" in caplog.text


async def test_a_node_without_files_has_no_space_to_reclaim():
    async with EmbeddedBroker(definitions={"queues": [QUEUE]}) as node:
        groups, queue, _ = await led(node)
        answer = Answer()
        groups.reclaim(queue, answer)
        await until(lambda: answer.is_given)
        answer.result()


async def test_the_log_names_the_queue_of_a_member(caplog):
    async with EmbeddedBroker(definitions={"queues": [QUEUE]}) as node:
        _, _, member = await led(node)
        member.failed(ValueError("a test"))
    assert "the member of quorum queue 'q' in vhost '/' on this node has stopped" in caplog.text


async def options_when_applied(member):
    """The options of the queue once all entries are applied."""
    await until(lambda: member.is_serving)
    await until(lambda: member.applied == member.raft.state.log.last_index)
    return machine_of(member).messages.options


async def test_policies_that_changed_while_there_was_no_leader_are_those_of_the_next_one():
    async with EmbeddedBroker(definitions={"queues": [QUEUE]}) as node:
        groups, queue, member = await led(node)
        member.stop_serving()
        groups.declared[member.group].configure(queue.options._replace(max_length=5))
        groups.groups.mark(member)
        assert (await options_when_applied(member)).max_length == 5


async def test_a_successor_has_the_options_of_one_until_it_gets_its_name():
    async with EmbeddedBroker(definitions={"queues": [QUEUE]}) as node:
        _, queue, member = await led(node)
        for name in (f"{SUCCESSOR_PREFIX}7", "q"):
            queue.name = name
            queue.apply(queue.declared)
            found = await options_when_applied(member)
            assert found.is_successor is (name != "q")


async def test_a_policy_that_is_taken_back_before_it_is_applied_is_not_in_force():
    async with EmbeddedBroker(definitions={"queues": [QUEUE]}) as node:
        groups, queue, member = await led(node)
        before = await options_when_applied(member)
        declared = groups.declared[member.group]
        declared.configure(queue.options._replace(max_length=5))
        declared.configure(queue.options)
        assert await options_when_applied(member) == before


async def test_duplicates_are_recognised_when_all_nodes_do_so():
    """A member of an earlier version would keep the options without the size of the cache."""
    async with EmbeddedBroker(definitions={"queues": [QUEUE]}) as node:
        groups, queue, member = await led(node)
        node.broker.services.shared_features.lacking = lambda _: ["old"]
        groups.declared[member.group].configure(queue.options._replace(deduplicates=True))
        assert (await options_when_applied(member)).cache_size == 0
        node.broker.services.shared_features.lacking = lambda _: []
        groups.view_changed()
        assert (await options_when_applied(member)).cache_size > 0
