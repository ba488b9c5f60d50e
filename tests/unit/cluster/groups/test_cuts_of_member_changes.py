"""A node dies at each step of a change of members: it is completed, and no entry is lost.

A group of two members gets a third one, which takes the place of the one that leads. Each of these
appends three configurations: with the new member, with its vote, and without the first one.
"""

import asyncio

import pytest

from tests.patience import until
from tests.unit.cluster.groups.grouped_nodes import NAMES, Client, GroupedNodes

A, B, C = NAMES


class Cut:
    """Ends a node when it has appended a number of configurations, before or after their sync."""

    def __init__(self, node, count, is_synced):
        self.has_come = asyncio.Event()
        self._node, self._count, self._is_synced = node, count, is_synced
        self._changed, node.groups.changed = node.groups.changed, self._count_changes
        self._index = 0

    def _count_changes(self, member):
        self._changed(member)
        index = member.raft.state.log.configuration_index
        if index > self._index:
            self._index = index
            self._count -= 1
            if self._count == 0 and self._is_synced:
                self._node.groups.log.when_synced(self, 0, 1)
            elif self._count == 0:
                self._node.node_log.failure = RuntimeError("the power is cut")
                self.confirm(0, None)

    def confirm(self, first, holder):
        self._node.groups.close()
        self.has_come.set()


@pytest.mark.parametrize("is_synced", [False, True], ids=["lost", "synced"])
@pytest.mark.parametrize("step", [1, 2, 3], ids=["added", "votes", "removed"])
@pytest.mark.parametrize("who", ["leader", "other", "new"])
async def test_a_node_dies_while_the_members_change(tmp_path, who, step, is_synced):
    async with GroupedNodes(tmp_path) as nodes:
        nodes.want(1, A, B)
        for name in (A, B):
            nodes.by_name[name].groups.create(1, (A, B))
            await nodes.by_name[name].node_log.sync()
        await nodes.led([1])
        leader = nodes.leader(1).name
        other = B if leader == A else A
        client = Client(nodes.by_name[C], 1)
        client.add(b"before")
        await until(lambda: client.is_done)
        dies = {"leader": leader, "other": other, "new": C}[who]
        cut = Cut(nodes.by_name[dies], step, is_synced)
        nodes.want(1, other, C)
        await cut.has_come.wait()
        await nodes.kill(dies)
        await nodes.start(dies)
        if dies == C:
            client = Client(nodes.by_name[C], 1, sender=2)
        client.add(b"after")
        await until(lambda: client.is_done)
        await until(lambda: set(voters(nodes)) == {other, C})
        assert list(client.got.values())[-2:] == [b"before", b"after"]


def voters(nodes):
    """Those of the group, if its leader has committed them."""
    leader = nodes.leader(1)
    if leader is None:
        return ()
    state = leader.groups.members[1].raft.state
    is_committed = state.log.configuration_index <= state.commit
    return state.log.configuration.voters if is_committed else ()
