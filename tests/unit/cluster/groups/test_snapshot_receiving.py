"""Snapshots that come while their member is removed, created again, or offered another one."""

import asyncio

import pytest

from leveret.cluster.groups.group_frames import (
    AllSent,
    Body,
    GroupFrameError,
    OfferSnapshot,
    SnapshotInstalled,
    SnapshotTransferEnded,
    StatePiece,
    Want,
)
from leveret.cluster.groups.snapshot_receiving import SnapshotReceiving
from leveret.cluster.raft.configuration import Configuration, encode_configuration
from leveret.storage.group_log.entry_blocks import block_of
from leveret.storage.group_log.group_state import NO_SNAPSHOT
from leveret.storage.log.log_files import FILE_BYTES_MAX
from tests.patience import until
from tests.unit.cluster.groups.grouped_nodes import (
    NAMES,
    GroupedNode,
    KeepingKind,
    KeepingMachine,
)

OWN, LEADER, _ = NAMES
STATE = b"".join(KeepingMachine((90, {1: 1}, [20], 1)).snapshot())
CONFIGURATION = encode_configuration(Configuration(NAMES))


class RecordingHost:
    """The service of the node as `SnapshotReceiving` sees it. sent: the items."""

    def __init__(self, groups):
        self.sent = []
        self.log, self.kind, self.rounds = groups.log, groups.kind, groups.rounds
        self.member_named, self.mark = groups.member_named, groups.mark

    def send_item(self, node, item):
        self.sent.append(item)


@pytest.fixture
async def node(tmp_path):
    """A node with an empty member of group 1. host: sends for it. sent: the items."""
    node = GroupedNode(OWN, tmp_path, {}, FILE_BYTES_MAX, KeepingKind())
    host = RecordingHost(node.groups)
    node.host, node.sent = host, host.sent
    node.groups.receiving = SnapshotReceiving(host)
    node.groups.create(1, NAMES)
    yield node
    await node.kill()


def offer(transfer, index=90, to=OWN):
    return OfferSnapshot(1, transfer, to, index, 4, CONFIGURATION, len(STATE))


def send(node, transfer, index=90):
    """Everything of a snapshot whose entry 20 is needed."""
    for item in (
        offer(transfer, index), StatePiece(1, transfer, STATE),
        Body(1, transfer, 20, 2, 0, b"body"), AllSent(1, transfer),
    ):  # fmt: skip
        node.groups.receiving.take(LEADER, item)


async def let_wait(node):
    """Wait until the snapshot waits for a round that is under way."""
    await until(lambda: node.store.rounds._lock._waiters)


@pytest.mark.parametrize("is_created_again", [True, False])
async def test_a_member_is_removed_while_its_snapshot_waits_for_a_round(node, is_created_again):
    async with node.store.rounds._lock:
        send(node, 1)
        await let_wait(node)
        (installing,) = node.groups.receiving._tasks
        node.groups.remove(1)
        if is_created_again:
            node.groups.create(1, NAMES)
    await installing
    assert SnapshotInstalled(1, 1) not in node.sent
    if is_created_again:
        assert node.groups.members[1].applied == 0
        assert node.store.log.groups[1].snapshot == NO_SNAPSHOT
        assert node.groups.members[1].raft.state.log.snapshot_index == 0


async def test_another_snapshot_is_taken_only_after_the_one_that_is_installed(node):
    async with node.store.rounds._lock:
        send(node, 1)
        await let_wait(node)
        node.groups.receiving.link_down(LEADER)
        node.sent.clear()
        send(node, 2, index=120)
        assert node.sent == [SnapshotTransferEnded(1, 2)]
        tasks = list(node.groups.receiving._tasks)
    await asyncio.gather(*tasks)
    await node.node_log.sync()
    member = node.groups.members[1]
    await until(lambda: member.raft.take_outputs() == [])
    assert member.applied == 90
    await node.node_log.sync()
    block = block_of(node.store.log.groups[1].blocks, 20)
    assert node.store.log.reader.read_now(block, 20) == b"body"
    send(node, 3, index=120)
    assert isinstance(node.sent[1], Want)


async def test_a_state_that_is_longer_than_was_offered_is_refused(node):
    node.groups.receiving.take(LEADER, offer(1))
    node.groups.receiving.take(LEADER, StatePiece(1, 1, STATE))
    with pytest.raises(GroupFrameError, match="more than the"):
        node.groups.receiving.take(LEADER, StatePiece(1, 1, b"more"))


class NewerKind(KeepingKind):
    """Snapshots come from a newer version."""

    def restore(self, state):
        raise ValueError("a snapshot is of version 2; this node reads 1: update it")


async def test_a_snapshot_of_a_newer_version_is_read_and_logged_once(node, caplog):
    node.host.kind = NewerKind()
    for transfer in (1, 2):
        send(node, transfer)
        await until(lambda: not node.groups.receiving._tasks)
    assert node.sent == [Want(1, 1, 0), SnapshotTransferEnded(1, 1), SnapshotTransferEnded(1, 2)]
    (line,) = [one.message for one in caplog.records if one.levelname == "ERROR"]
    assert line.endswith("a snapshot is of version 2; this node reads 1: update it")
