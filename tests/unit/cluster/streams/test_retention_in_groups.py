"""Retention beside members that are behind: they begin with the oldest segment that is left."""

import pytest

from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.cluster.streams import log_upkeep
from leveret.cluster.streams.log_upkeep import LogUpkeep
from tests.patience import until
from tests.unit.cluster.groups.grouped_nodes import NAMES
from tests.unit.cluster.streams.stream_nodes import (
    SEGMENT_BYTES,
    StreamClient,
    StreamNodes,
    messages,
)

A, B, C = NAMES
BODIES = [b"%d " % number + bytes(300) for number in range(40)]


@pytest.fixture
async def nodes(tmp_path):
    async with StreamNodes(tmp_path) as nodes:
        await nodes.create([1])
        yield nodes


class Upkeep(LogUpkeep):
    """The upkeep of a member."""

    def __init__(self, node):
        self.node = node
        member = node.groups.members[1]
        super().__init__(
            node.groups, member, member.machine, node.store.streams.streams[1],
            node.store.streams.write, lambda upkeep: None, lambda: None,
        )  # fmt: skip

    async def keep(self, **options):
        """Save the state and remove what is too much."""
        self.configure(QueueOptions(segment_bytes=SEGMENT_BYTES, **options))
        await self.node.store.save([1])
        self.saved()
        return self.node.log(1).first_offset


async def published(client, bodies):
    for body in bodies:
        client.publish(body)
        await until(lambda: client.is_done)


async def test_a_member_that_lacks_what_retention_removed_begins_later(nodes):
    await published(StreamClient(nodes.by_name[A], 1), BODIES[:5])
    await nodes.equal([1])
    await nodes.kill(C)
    client = StreamClient(nodes.by_name[A], 1, sender=2)
    client.store_offset(b"reader", 3)
    await published(client, BODIES[5:])
    for node in nodes:
        assert await Upkeep(node).keep(max_length_bytes=4 * SEGMENT_BYTES) > 5
    first = nodes.leader(1).log(1).first_offset
    c = await nodes.start(C)
    await until(lambda: c.groups.members[1].machine.next_offset == 40)
    assert messages(c, 1) == BODIES[first:]
    assert c.groups.members[1].machine.stream.offsets == {b"reader": 3}
    for name in (C, A, B):
        await nodes.kill(name)
    for name in NAMES:
        await nodes.start(name)
    await published(StreamClient(nodes.by_name[C], 1, sender=3), [b"later"])
    await nodes.equal([1])
    assert messages(nodes.by_name[C], 1) == [*BODIES[first:], b"later"]


async def test_a_new_member_replaces_one_that_has_lost_its_data(nodes):
    await published(StreamClient(nodes.by_name[A], 1), BODIES)
    for node in nodes:
        await Upkeep(node).keep(max_length_bytes=6 * SEGMENT_BYTES)
    await nodes.kill(C)
    segments = sorted((nodes.directory / C / "streams/logs/1").glob("*.segment"))
    segments[0].write_bytes(b"")
    await nodes.start(C)
    await until(lambda: nodes.by_name[C].groups.members[1].me.endswith("/2"))
    await until(lambda: nodes.by_name[C].groups.members[1].machine.next_offset == 40)
    first = nodes.by_name[C].log(1).first_offset
    assert first > 0
    assert messages(nodes.by_name[C], 1) == BODIES[first:]


async def test_a_restart_begins_with_the_state_that_was_saved(nodes):
    await published(StreamClient(nodes.by_name[A], 1), BODIES)
    await nodes.equal([1])
    applied = {}
    for node in nodes:
        await node.store.save([1])
        applied[node.name] = node.groups.members[1].applied
    for name in NAMES:
        await nodes.kill(name)
    for name in NAMES:
        node = await nodes.start(name)
        assert node.groups.members[1].applied == applied[name]
        assert node.groups.members[1].machine.next_offset == 40
    await published(StreamClient(nodes.by_name[A], 1, sender=2), [b"later"])
    await nodes.equal([1])
    assert nodes.messages(1) == [[*BODIES, b"later"]] * 3


async def test_what_is_too_old_goes_though_nobody_publishes(nodes):
    await published(StreamClient(nodes.by_name[A], 1), BODIES)
    await nodes.equal([1])
    for node in nodes:
        upkeep = Upkeep(node)
        await upkeep.keep()
        upkeep.configure(QueueOptions(max_age_ms=1, segment_bytes=SEGMENT_BYTES))
        await until(lambda: node.log(1).first_offset == 40)  # noqa: B023
        assert messages(node, 1) == []
    await published(StreamClient(nodes.by_name[A], 1, sender=2), [b"later"])
    await nodes.equal([1])
    assert nodes.messages(1) == [[b"later"]] * 3


@pytest.fixture
async def kept(nodes, monkeypatch):
    """The leader's upkeep of a stream with 40 messages in 7 segments, and its log."""
    monkeypatch.setattr(log_upkeep, "PINNED_LOOK_MS", 5)
    await published(StreamClient(nodes.by_name[A], 1), BODIES)
    await nodes.equal([1])
    leader = nodes.leader(1)
    upkeep = Upkeep(leader)
    await upkeep.keep()
    upkeep.log = leader.log(1)
    yield upkeep
    upkeep.close()


async def test_the_segments_of_a_snapshot_that_is_on_its_way_stay(kept):
    pins = kept.node.groups.log.groups[1].pins
    pins["transfer"] = ()
    assert await kept.keep(max_length_bytes=4 * SEGMENT_BYTES) == 0
    del pins["transfer"]
    await until(lambda: kept.log.first_offset > 10)
    await until(lambda: kept.log.size_bytes <= 4 * SEGMENT_BYTES)


async def test_the_segments_that_a_member_in_reach_lacks_stay(kept):
    raft = kept.node.groups.members[1].raft
    other = next(name for name in raft.state.log.configuration.members if name != kept.node.name)
    progress = raft.leading._progress[other]
    match = progress.match
    progress.match = kept.log.segments[1].first_entry
    first = kept.log.segments[1].first_offset
    assert await kept.keep(max_length_bytes=4 * SEGMENT_BYTES) == first
    raft.state.reachable.discard(other)
    await until(lambda: kept.log.first_offset > first)
    progress.match = match


async def test_no_more_than_twice_of_what_is_kept_stays_for_a_member(kept):
    kept.node.groups.log.groups[1].pins["transfer"] = ()
    assert await kept.keep(max_length_bytes=2 * SEGMENT_BYTES) > 0
    assert 3 * SEGMENT_BYTES < kept.log.size_bytes <= 4 * SEGMENT_BYTES
