"""The groups of streams: three members on real links and real files."""

import pytest

from leveret.storage.disk.disk import Disk, DiskFull
from tests.patience import until
from tests.unit.cluster.groups.grouped_nodes import NAMES
from tests.unit.cluster.streams.stream_nodes import StreamClient, StreamNodes

A, B, C = NAMES
BODIES = [b"message %d" % number for number in range(30)]


@pytest.fixture
async def nodes(tmp_path):
    async with StreamNodes(tmp_path) as nodes:
        yield nodes


async def published(client, bodies):
    for body in bodies:
        client.publish(body)
    await until(lambda: client.is_done)


async def test_what_is_published_is_on_all_members(nodes):
    await nodes.create([1])
    client = StreamClient(nodes.by_name[A], 1)
    await published(client, BODIES)
    await nodes.equal([1])
    assert nodes.messages(1) == [BODIES, BODIES, BODIES]


async def test_a_restart_of_all_nodes_finds_everything(nodes):
    await nodes.create([1, 2])
    client = StreamClient(nodes.by_name[A], 1)
    client.store_offset(b"reader", 7)
    await published(client, BODIES)
    for name in NAMES:
        await nodes.kill(name)
    for name in NAMES:
        await nodes.start(name)
    await nodes.led([1, 2])
    await published(StreamClient(nodes.by_name[A], 1, sender=2), [b"later"])
    await nodes.equal([1, 2])
    assert nodes.messages(1) == [[*BODIES, b"later"]] * 3
    assert nodes.messages(2) == [[], [], []]
    machine = nodes.by_name[B].groups.members[1].machine
    assert machine.stream.offsets == {b"reader": 7}


async def test_the_next_leader_goes_on_and_nothing_is_twice(nodes):
    await nodes.create([1])
    await nodes.led([1])
    leader = nodes.leader(1).name
    others = [name for name in NAMES if name != leader]
    client = StreamClient(nodes.by_name[others[0]], 1)
    await published(client, BODIES[:10])
    for body in BODIES[10:20]:
        client.publish(body)
    await nodes.kill(leader)
    for body in BODIES[20:]:
        client.publish(body)
    await until(lambda: client.is_done)
    await nodes.start(leader)
    await until(lambda: nodes.messages(1) == [BODIES] * 3)


async def test_a_named_publishers_messages_are_stored_once(nodes):
    await nodes.create([1])
    client = StreamClient(nodes.by_name[A], 1)
    client.publish(b"one", b"two", publisher=b"p", sequences=(1, 2))
    client.publish(b"two", b"three", publisher=b"p", sequences=(2, 3))
    await until(lambda: client.is_done)
    await nodes.kill(nodes.leader(1).name)
    client = StreamClient(next(iter(nodes)), 1, sender=2)
    client.publish(b"three", b"four", publisher=b"p", sequences=(3, 4))
    await until(lambda: client.is_done)
    await nodes.equal([1])
    assert nodes.messages(1) == [[b"one", b"two", b"three", b"four"]] * 2


async def test_a_member_that_was_away_gets_what_it_lacks(nodes):
    await nodes.create([1])
    client = StreamClient(nodes.by_name[A], 1)
    await published(client, BODIES[:5])
    await nodes.equal([1])
    await nodes.kill(C)
    await published(client, BODIES[5:])
    await nodes.start(C)
    await until(lambda: nodes.messages(1) == [BODIES] * 3)


async def test_a_removed_stream_leaves_no_files(nodes):
    await nodes.create([1, 2])
    await published(StreamClient(nodes.by_name[A], 1), BODIES)
    for node in nodes:
        node.groups.remove(1)
    await until(
        lambda: (
            [
                sorted(path.name for path in (nodes.directory / name / "streams/logs").iterdir())
                for name in NAMES
            ]
            == [["2"]] * 3
        )
    )
    await published(StreamClient(nodes.by_name[A], 2), BODIES)


async def test_a_stream_that_is_created_again_is_empty(nodes):
    await nodes.create([1])
    await published(StreamClient(nodes.by_name[A], 1), BODIES)
    for node in nodes:
        node.groups.remove(1)
        node.groups.create(1, NAMES)
    client = StreamClient(nodes.by_name[A], 1, sender=2)
    await published(client, [b"new"])
    await nodes.equal([1])
    assert nodes.messages(1) == [[b"new"]] * 3


async def test_terms_and_members_survive_the_files_of_the_nodes_log(tmp_path):
    async with StreamNodes(tmp_path, file_bytes=1_000) as nodes:
        await nodes.create([1])
        await published(StreamClient(nodes.by_name[A], 1), BODIES)
        group = 1
        while any(node.files.files[0].number < 3 or node.is_retiring for node in nodes):
            group += 1
            await nodes.create([group])
            await nodes.led([group])
            for node in nodes:
                node.groups.remove(group)
        terms = [node.groups.members[1].raft.state.term for node in nodes]
        for name in NAMES:
            await nodes.kill(name)
        for name in NAMES:
            await nodes.start(name)
        found = [node.groups.members[1].raft.state.term for node in nodes]
        assert all(now >= before for now, before in zip(found, terms, strict=True))
        await published(StreamClient(nodes.by_name[A], 1, sender=2), [b"later"])
        await nodes.equal([1])
        assert nodes.messages(1) == [[*BODIES, b"later"]] * 3


class FailingDisk(Disk):
    """A disk on which streams cannot be written while `fails` is set."""

    fails = False

    def write(self, descriptor, path, data, offset):
        if self.fails and "logs" in path.parts:
            raise DiskFull(f"{path} cannot be written")
        super().write(descriptor, path, data, offset)


async def test_a_leader_whose_disk_is_full_confirms_what_two_others_have(tmp_path):
    disks = {name: FailingDisk() for name in NAMES}
    async with StreamNodes(tmp_path, disks=disks) as nodes:
        await nodes.create([1])
        client = StreamClient(nodes.by_name[A], 1)
        await published(client, BODIES[:10])
        leader = nodes.leader(1)
        disks[leader.name].fails = True
        await published(client, BODIES[10:20])
        other = next(name for name in NAMES if name != leader.name)
        filled = []
        nodes.by_name[other].store.streams.disk_filled = filled.append
        disks[other].fails = True
        client.publish(b"waits")
        await until(lambda: filled == [True])
        assert not client.is_done
        disks[leader.name].fails = disks[other].fails = False
        await published(client, BODIES[20:])
        await nodes.equal([1])
        assert nodes.messages(1) == [[*BODIES[:20], b"waits", *BODIES[20:]]] * 3


async def test_a_publish_from_another_node_that_cannot_be_stored_is_refused(nodes):
    await nodes.create([1])
    await nodes.led([1])
    leader = nodes.leader(1)
    refused = []
    machine = leader.groups.members[1].machine
    machine.refused = lambda node, reason: refused.append((node, reason))
    other = next(node for node in nodes if node is not leader)
    client, bad = StreamClient(leader, 1), StreamClient(other, 1, sender=2)
    await published(bad, BODIES[:3])
    bad.publish(b"before")
    bad.publish_entries(2, b"\0\0\0\1x")
    bad.publish(b"after")
    await until(lambda: bad.is_unknown)
    assert refused == [
        (f"node {other.name}", "5 bytes are not 2 entries with 2 messages"),
    ]
    await published(client, [b"another"])
    again = StreamClient(other, 1, sender=3)
    await published(again, [b"again"])
    await nodes.equal([1])
    assert nodes.messages(1) == [[*BODIES[:3], b"before", b"another", b"again"]] * 3
    assert other.name in leader.links.peers


async def test_a_member_that_gets_a_chunk_that_does_not_follow_is_replaced(nodes, caplog):
    await nodes.create([1])
    client = StreamClient(nodes.by_name[A], 1)
    await published(client, BODIES[:3])
    await nodes.equal([1])
    leader = nodes.leader(1)
    follower = next(node for node in nodes if node is not leader)
    lost = []
    leader.groups.lost = lambda group, member: lost.append(member)
    follower.log(1).next_offset += 1
    await published(client, BODIES[3:5])
    member = follower.groups.members[1]
    await until(lambda: member.damage)
    assert "cannot be stored: a chunk of" in member.damage
    assert "for offset 3 where one for 4 follows" in member.damage
    assert caplog.text.count("has stopped") == 1
    assert "unexpected" not in caplog.text
    await published(client, BODIES[5:])
    await until(lambda: follower.name in lost)
