"""Members that cannot apply an entry, or that have failed, and messages that cannot be."""

import msgspec
import pytest

from leveret.cluster.groups.group_frames import Damaged, encode_item, encode_raft
from leveret.cluster.links.services import GROUPS_SERVICE
from leveret.cluster.raft.messages import Acknowledgement, Entries, encode_message
from leveret.cluster.raft.status import NoLeader, status
from tests.patience import until
from tests.unit.cluster.groups.grouped_nodes import (
    ADD,
    BROKEN,
    NAMES,
    NEWER,
    Client,
    GroupedNodes,
    KeepingKind,
    KeepingMachine,
    command,
)


class NewerMachine(KeepingMachine):
    """A machine of the next version."""

    def apply(self, index, entry, collects):
        sender, number, what, data = msgspec.msgpack.decode(entry)
        what = ADD if what == NEWER else what
        super().apply(index, command(sender, number, what, data), collects)


class NewerKind(KeepingKind):
    """Makes machines of the next version."""

    def new(self):
        return NewerMachine()

    def restore(self, state):
        yield NewerMachine(msgspec.msgpack.decode(state, strict=False))


class OlderKind(KeepingKind):
    """Reads no snapshots of the next version."""

    def restore(self, state):
        raise ValueError("a snapshot is of version 2; this node reads 1: update it")


def member(node):
    return node.groups.members[1]


async def test_an_entry_of_a_newer_version_waits_until_the_node_is_updated(tmp_path, caplog):
    async with GroupedNodes(tmp_path) as nodes:
        for name in NAMES[1:]:
            await nodes.kill(name)
        nodes.kind = NewerKind()
        for name in NAMES[1:]:
            await nodes.start(name)
        await nodes.create([1])
        old = nodes.by_name[NAMES[0]]
        await nodes.led([1])
        client = Client(nodes.by_name[NAMES[1]], 1)
        client.add(b"before")
        await until(lambda: client.is_done)
        client._send(NEWER, b"newer")
        client.add(b"after")
        # An older node that leads gives up the lead; it keeps what the others need.
        await until(lambda: client.is_done and member(old).obstacle)
        await until(lambda: member(old).raft.state.commit == member(nodes.leader(1)).applied)
        assert (member(old).me, member(old).damage) == (old.name, "")
        assert "update it" in member(old).obstacle
        kept = nodes.leader(1)
        assert kept is not old
        assert all(one in member(kept).raft.state.log.configuration.voters for one in NAMES)
        # Its vote and its disk count. It does not stand itself.
        (lost,) = [node.name for node in nodes if node not in (old, kept)]
        await nodes.kill(lost)
        client = Client(kept, 1, sender=2)
        client.add(b"with two")
        await until(lambda: client.is_done)
        await nodes.kill(kept.name)
        await until(lambda: status(member(old).raft).no_leader is NoLeader.CANNOT_APPLY)
        await nodes.kill(old.name)
        for name in NAMES:
            await nodes.start(name)
        await nodes.led([1])
        await nodes.equal([1])
        assert sum("cannot apply entries after" in one.message for one in caplog.records) == 1


async def test_a_snapshot_of_a_newer_version_stops_its_group_and_not_the_node(tmp_path):
    async with GroupedNodes(tmp_path, file_bytes=100_000) as nodes:
        await nodes.create([1, 2])
        await nodes.led([1])
        leader = nodes.leader(1)
        client = Client(leader, 1)
        old = next(node for node in nodes if node is not leader)
        while not member(old).raft.state.log.snapshot_index:
            client.add(*[bytes(2_000)] * 20)
            client.settle(20)
            await until(lambda: client.is_done)
        await nodes.kill(old.name)
        nodes.kind = OlderKind()
        old = await nodes.start(old.name)
        assert "update it" in member(old).obstacle
        other = Client(old, 2, sender=7)
        other.add(b"another group")
        client.add(b"more")
        await until(lambda: other.is_done and client.is_done)
        await nodes.kill(old.name)
        nodes.kind = KeepingKind()
        await nodes.start(old.name)
        await nodes.equal([1])


async def test_a_member_in_which_the_program_fails_stops_alone(tmp_path, caplog):
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create([1, 2])
        clients = [Client(nodes.by_name[NAMES[0]], group, group) for group in (1, 2)]
        clients[0].add(b"before")
        await until(lambda: clients[0].is_done)
        clients[0]._send(BROKEN, b"")
        # The leader fails, then the one that is elected next. The last one has no majority.
        await until(lambda: sum(bool(member(node).damage) for node in nodes) == 2)
        clients[1].add(b"another group")
        await until(lambda: clients[1].is_done)
        assert all(len(node.links.peers) == 2 for node in nodes)
        assert [member(node).me for node in nodes] == [*NAMES], "no other member would do better"
        assert sum(bool(record.exc_info) for record in caplog.records) == 2


async def test_one_failure_does_not_keep_the_writes_of_other_groups_from_being_synced(tmp_path):
    async with GroupedNodes(tmp_path) as nodes:
        groups = [1, 2, 3, 4]
        await nodes.create(groups)
        await nodes.led(groups)
        leader = next(node for node in nodes if sum(map(node.leads, groups)) > 1)
        failing, other = [leader.groups.members[one] for one in groups if leader.leads(one)][:2]
        failing.raft.state.writes = -1000  # It is told of more writes than it has asked for.
        clients = [Client(leader, one.group, one.group) for one in (failing, other)]
        for client in clients:
            client.add(b"written in the same turn")
        log = other.raft.state.log
        await until(lambda: failing.damage and clients[1].is_done)
        await until(lambda: other.raft.state.synced_index == log.last_index)


class FailingAtTimes(KeepingMachine):
    """Has a time that is due, and fails then; what it has told clients cannot be dropped either."""

    def tick_at_ms(self):
        return 1

    def take_effects(self):
        assert self.added < 1, "the program has failed"
        return super().take_effects()


class FailingAtTimesKind(KeepingKind):
    """Makes such machines."""

    def new(self):
        return FailingAtTimes()


@pytest.mark.parametrize("added", [0, 1], ids=["by a time", "again while it stops"])
async def test_a_leader_that_fails_gives_up_the_lead(tmp_path, added, caplog):
    async with GroupedNodes(tmp_path, kind=FailingAtTimesKind()) as nodes:
        await nodes.create([1])
        for node in nodes:
            member(node).machine.added = added
        await until(lambda: sum(bool(member(node).damage) for node in nodes) == 2)
        (last,) = [node for node in nodes if not member(node).damage]
        await until(lambda: not member(last).raft.leader)


async def frame(nodes, sender, receiver, data):
    """A node sends a frame to another one."""
    nodes.by_name[sender].links.peers[receiver].send(GROUPS_SERVICE, data)


@pytest.mark.parametrize(
    "to", ["nobody@elsewhere/2", "c@127.0.0.1/2"], ids=["of no node", "of another node"]
)
async def test_a_message_to_a_member_of_another_node_replaces_none_here(tmp_path, to):
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create([1])
        client = Client(nodes.by_name[NAMES[0]], 1)
        client.add(b"kept")
        await until(lambda: client.is_done)
        await nodes.equal([1])
        message = encode_message(Entries(1, 50, 0, 0, 0, 0, 0, []))
        await frame(nodes, NAMES[0], NAMES[1], encode_raft(NAMES[0], to, message))
        client.add(b"more")
        await until(lambda: client.is_done)
        await nodes.equal([1])
        assert [member(node).me for node in nodes] == [*NAMES]


async def test_only_a_member_of_the_group_is_replaced(tmp_path):
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create([1])
        await nodes.led([1])
        leader = nodes.leader(1)
        other = next(name for name in NAMES if name != leader.name)
        client = Client(leader, 1)
        await frame(nodes, other, leader.name, encode_item(Damaged(1, f"{other}/7")))
        client.add(b"more")
        await until(lambda: client.is_done)
        await nodes.equal([1])
        assert member(leader).raft.state.log.configuration.members == NAMES
        assert nodes.wanted[1].voters == NAMES


async def test_a_leader_that_lacks_what_a_follower_has_is_replaced(tmp_path):
    """Its disk has lost entries, and yet it was elected."""
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create([1])
        client = Client(nodes.by_name[NAMES[0]], 1)
        client.add(b"one", b"two")
        await until(lambda: client.is_done)
        leader = nodes.leader(1)
        other = next(name for name in NAMES if name != leader.name)
        term = member(leader).raft.state.term
        message = encode_message(Acknowledgement(1, term, 99))
        await frame(nodes, other, leader.name, encode_raft(other, leader.name, message))
        await until(lambda: member(leader).me == f"{leader.name}/2")
        client.add(b"three")
        await until(lambda: client.is_done)
        await nodes.equal([1])
        assert all(len(node.links.peers) == 2 for node in nodes)


async def test_a_member_that_fails_in_a_round_of_snapshots_stops_alone(tmp_path, monkeypatch):
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create([1, 2, 3])
        await nodes.led([1, 2, 3])
        (node, *_) = nodes
        await until(lambda: all(one.applied for one in node.groups.members.values()))
        monkeypatch.setattr(node.groups.members[1].machine, "snapshot", None)
        second = node.groups.members[2]
        snapshot = second.machine.snapshot

        def snapshot_older_than_another():
            second.raft.state.log.snapshot_index = second.applied + 1
            return snapshot()

        monkeypatch.setattr(second.machine, "snapshot", snapshot_older_than_another)
        assert await node.store.rounds.free_space([1, 2, 3])
        damaged = [group for group, one in node.groups.members.items() if one.damage]
        assert damaged == [1, 2]
        assert node.groups.members[3].raft.state.log.snapshot_index


async def test_an_item_that_fails_delays_no_other_group(tmp_path, caplog):
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create([1, 2])
        await nodes.led([2])
        client = Client(nodes.leader(2), 2)
        groups = nodes.leader(2).groups
        groups.lost = None
        groups.send_item(groups.node, Damaged(1, groups.members[1].me))
        client.add(b"of another group")
        await until(lambda: client.is_done)
    assert "group 1 of quorum queues drops a Damaged of this node" in caplog.text
