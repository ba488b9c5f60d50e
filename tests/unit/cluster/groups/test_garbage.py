"""Frames that no node of this version sends: the link is dropped, and nothing else happens."""

import asyncio
from random import Random

import pytest

from leveret.cluster.groups import group_frames as frames
from leveret.cluster.groups.awaited_groups import AWAITED_MAX
from leveret.cluster.groups.group_frames import GroupFrameError, encode_item, encode_raft
from leveret.cluster.quorum.machine.commands import Enqueue, Join, Leave, Settle, encode_command
from leveret.cluster.quorum.queue_machines import QueueMachines
from leveret.cluster.raft import messages as raft
from leveret.storage.log.log_files import FILE_BYTES_MAX
from tests.patience import until
from tests.unit.cluster.groups.grouped_nodes import NAMES, GroupedNode

OWN, OTHER, _ = NAMES
FRAMES, A_TURN = 2_000, 20
NUMBERS = (0, 1, 2, 3, 5, 90, (1 << 62) - 1)
TEXTS = (OWN, OTHER, f"{OWN}/2", f"{OTHER}/9", "", "nobody", f"{OTHER}/x")


class Peer:
    """A node that sends garbage. sent: how many frames it got."""

    name = OTHER
    is_congested = False

    def __init__(self):
        self.sent = 0

    def send(self, service, *pieces):
        self.sent += 1


class User:
    """A client of a group that is led by the other node."""

    def leader_found(self):
        pass

    def leader_lost(self):
        pass

    def told(self, session, effects, entries):
        pass


@pytest.fixture
async def node(tmp_path):
    """A node that leads group 1, follows in group 2 and is no member of others."""
    node = GroupedNode(OWN, tmp_path, {}, FILE_BYTES_MAX, QueueMachines())
    node.groups.create(1, (OWN,))
    node.groups.create(2, NAMES)
    node.groups.use(2, NAMES, User())
    node.groups.use(3, NAMES, User())
    await until(lambda: node.leads(1))
    yield node
    await node.kill()


class Garbage:
    """Items whose fields are of the right types, and frames of which bytes are changed."""

    def __init__(self, seed):
        self.random = Random(seed)

    def number(self):
        return self.random.choice(NUMBERS)

    def text(self):
        return self.random.choice(TEXTS)

    def data(self):
        random = self.random
        return random.choice(
            (
                b"", b"figures", random.randbytes(30),
                encode_command(Join(self.number(), 1, 0, OTHER, 1)),
                encode_command(Enqueue(self.number(), self.number(), 0, [1, 5, 0, 0]), b"short"),
                encode_command(Settle(self.number(), self.number(), 0, 1, [1, 9])),
                encode_command(Leave(self.number(), self.number(), 0)),
            )
        )  # fmt: skip

    def item(self):
        number, data = self.number, self.data
        group = self.random.choice((1, 1, 2, 3, self.random.randrange(1 << 40)))
        return self.random.choice(
            (
                frames.Find(group), frames.Leads(group, number()),
                frames.LeadsNoMore(group, number()),
                frames.AttachClient(group, number(), number(), number(), {number(): number()}),
                frames.ClientCommands(group, number(), [data(), data()]),
                frames.Told(group, number(), data(), {number(): data()}),
                frames.GroupQuestion(group, number(), data()),
                frames.Answered(group, number(), data()),
                frames.Damaged(group, self.text()),
                frames.OfferSnapshot(
                    group, number(), self.text(), number(), number(), data(), number()
                ),
                frames.Want(group, number(), number()),
                frames.StatePiece(group, number(), data()),
                frames.Body(group, number(), number(), number(), self.random.randrange(4), data()),
                frames.AllSent(group, number()), frames.SnapshotReceived(group, number(), number()),
                frames.SnapshotInstalled(group, number()),
                frames.SnapshotTransferEnded(group, number()),
            )
        )  # fmt: skip

    def message(self):
        number = self.number
        group = self.random.choice((1, 2, 2, 2, 3))
        data = [self.data() for _ in range(self.random.randrange(3))]
        return self.random.choice(
            (
                raft.Entries(group, number(), number(), number(), number(), number(),
                             self.random.randrange(4), data),
                raft.Acknowledgement(group, number(), number()),
                raft.Mismatch(group, number(), number(), number(), number()),
                raft.AskVote(group, number(), self.random.random() < 0.5, number(), number(),
                             number()),
                raft.Vote(group, number(), self.random.random() < 0.5,
                          self.random.choice([*raft.VoteAnswer])),
                raft.TakeLead(group, number()), raft.NotLeading(group, number()),
                raft.Removed(group, number(), number()),
            )
        )  # fmt: skip

    def frame(self):
        random = self.random
        parts = [
            encode_item(self.item()) if random.random() < 0.6
            else encode_raft(OTHER, self.text(), raft.encode_message(self.message()))
            for _ in range(random.randint(1, 3))
        ]  # fmt: skip
        frame = bytearray(b"".join(parts))
        draw = random.random()
        if draw < 0.2:
            frame[random.randrange(len(frame))] = random.randrange(256)
        elif draw < 0.3:
            del frame[random.randrange(len(frame)) :]
        elif draw < 0.4:
            frame += random.randbytes(random.randrange(20))
        return bytes(frame)


@pytest.mark.parametrize("seed", range(3))
async def test_garbage_is_refused_and_costs_no_more_than_the_link(node, seed, caplog):
    garbage, peer, groups = Garbage(seed), Peer(), node.groups
    groups.peer_up(peer)
    refused = 0
    for number in range(FRAMES):
        try:
            groups.received(peer, garbage.frame())
        except ValueError:
            refused += 1
            groups.peer_down(peer, "it sends damaged data")
            groups.peer_up(peer)
        if number % A_TURN == 0:
            await asyncio.sleep(0)
    assert refused > FRAMES / 10
    assert not [record for record in caplog.records if record.exc_info]


async def test_questions_about_groups_that_are_not_here_take_bounded_memory(node):
    peer = Peer()
    node.groups.peer_up(peer)
    for group in range(100, 100 + 3 * AWAITED_MAX):
        node.groups.received(peer, encode_item(frames.Find(group)))
    assert len(node.groups._awaited.nodes) == AWAITED_MAX
    # The newest ones are those that are about to be created.
    assert 99 + 3 * AWAITED_MAX in node.groups._awaited.nodes


def test_the_sizes_in_a_frame_are_checked():
    item = bytearray(encode_item(frames.Find(1)))
    item[1:5] = (1 << 31).to_bytes(4, "little")
    with pytest.raises(GroupFrameError, match="cut off"):
        list(frames.items_of(bytes(item)))
