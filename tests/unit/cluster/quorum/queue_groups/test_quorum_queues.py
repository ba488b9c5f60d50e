"""Quorum queues of a node without links and files."""

from leveret.broker.runtime.pending import Answer
from leveret.cluster.quorum.machine.effects import Expired
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
