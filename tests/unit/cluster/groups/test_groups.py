"""Groups on three nodes with links and disks: leaders fall, members are away, files come and go."""

import asyncio
import itertools

import pytest

from leveret.cluster.groups.apply_limits import APPLY_ENTRIES, READS_MAX
from leveret.cluster.groups.group_frames import (
    Announced,
    Damaged,
    Find,
    Leads,
    LeadsNoMore,
    encode_item,
    encode_raft,
    items_of,
)
from leveret.cluster.raft.configuration import Configuration, encode_configuration
from leveret.cluster.raft.messages import Entries, encode_message
from leveret.storage.disk.disk import StoreError
from leveret.storage.group_log.entry_blocks import block_of
from leveret.storage.group_log.group_state import SnapshotName
from leveret.storage.group_log.kept_files import kept_numbers
from leveret.storage.group_log.rounds import TakenSnapshot
from leveret.storage.log.log_files import FILE_BYTES_MAX
from tests.patience import until
from tests.unit.cluster.groups.grouped_nodes import (
    NAMES,
    NOW,
    Client,
    GroupedNode,
    GroupedNodes,
    KeepingKind,
    KeepingMachine,
)

MANY = range(1, 51)


async def test_entries_are_committed_and_told_to_clients_on_any_node(tmp_path):
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create([1])
        clients = [Client(node, 1, sender) for sender, node in enumerate(nodes.by_name.values(), 1)]
        for client in clients:
            client.add(b"one", b"two")
        await until(lambda: all(client.is_done for client in clients))
        await nodes.equal([1])
        assert all(list(client.got.values())[:2] == [b"one", b"two"] for client in clients)


async def test_fifty_groups_survive_their_leaders(tmp_path):
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create(MANY)
        await nodes.led(MANY)
        user, _other, lost = NAMES
        clients = {group: Client(nodes.by_name[user], group) for group in MANY}
        for client in clients.values():
            client.add(b"before")
        await until(lambda: all(client.is_done for client in clients.values()))
        await nodes.kill(lost)
        for client in clients.values():
            client.add(b"after", b"the fall")
        await until(lambda: all(client.is_done for client in clients.values()))
        assert all(
            list(client.got.values()) == [b"before", b"after", b"the fall"]
            for client in clients.values()
        )
        await nodes.start(lost)
        await nodes.equal(MANY)


async def test_all_nodes_are_killed_and_go_on_with_what_was_committed(tmp_path):
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create([1])
        client = Client(nodes.by_name[NAMES[0]], 1)
        client.add(*[b"%d" % number for number in range(100)])
        client.settle(10)
        await until(lambda: client.is_done)
        for name in NAMES:
            await nodes.kill(name)
        for name in NAMES:
            await nodes.start(name)
        client = Client(nodes.by_name[NAMES[1]], 1, sender=2)
        client.add(b"more")
        await until(lambda: client.is_done)
        await nodes.equal([1])
        found = [client.got[index] for index in sorted(client.got)]
        assert found == [b"%d" % number for number in range(10, 100)] + [b"more"]


async def test_members_together_apply_so_much_in_a_turn(tmp_path):
    groups, added = range(1, 9), 1_000
    node = GroupedNode(NAMES[0], tmp_path, {}, FILE_BYTES_MAX, KeepingKind())
    for group in groups:
        node.groups.create(group, [NAMES[0]])
    clients = [Client(node, group) for group in groups]
    for client in clients:
        client.add(*[b"%d" % number for number in range(added)])
    await until(lambda: all(client.is_done for client in clients))
    await node.kill()
    node = GroupedNode(NAMES[0], tmp_path, {}, FILE_BYTES_MAX, KeepingKind())
    members = [node.groups.members[group] for group in groups]
    applied = [0]
    while applied[-1] < len(groups) * added:
        await asyncio.sleep(0)
        applied.append(sum(member.machine.added for member in members))
    in_turns = [after - before for before, after in itertools.pairwise(applied)]
    assert max(in_turns) <= (1 + READS_MAX) * APPLY_ENTRIES
    await node.kill()


async def test_a_member_that_was_away_catches_up_by_entries(tmp_path):
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create([1])
        client = Client(nodes.by_name[NAMES[0]], 1)
        client.add(b"first")
        await until(lambda: client.is_done)
        await nodes.kill(NAMES[2])
        client.add(*[b"%d" % number + bytes(2_000) for number in range(500)])
        await until(lambda: client.is_done)
        await nodes.start(NAMES[2])
        await nodes.equal([1])


async def test_the_last_entries_are_kept_for_a_member_that_is_away(tmp_path):
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create([1])
        client = Client(nodes.by_name[NAMES[0]], 1)
        client.add(b"first")
        await until(lambda: client.is_done)
        await nodes.kill(NAMES[2])
        client.add(*[b"%d" % number for number in range(50)])
        client.settle(51)
        await until(lambda: client.is_done)
        await nodes.equal([1])
        for node in nodes:
            await node.store.rounds.free_space([1])
            assert node.groups.members[1].raft.state.log.snapshot_index > 50
        await nodes.start(NAMES[2])
        await nodes.equal([1])
        assert [node.groups.sending._number for node in nodes] == [0, 0, 0], "no snapshot was sent"
        for node in nodes:
            log = node.groups.members[1].raft.state.log
            # The leader keeps them until the others have acknowledged them.
            while log.base_index < log.snapshot_index:
                await node.store.rounds.free_space([1])


async def test_a_member_that_was_away_catches_up_by_a_snapshot_beside_traffic(tmp_path):
    async with GroupedNodes(tmp_path, file_bytes=200_000) as nodes:
        await nodes.create([1])
        client = Client(nodes.by_name[NAMES[0]], 1)
        client.add(b"old")
        await until(lambda: client.is_done)
        await nodes.kill(NAMES[2])
        for _ in range(20):
            client.add(*[b"%d" % number + bytes(2_000) for number in range(50)])
            client.settle(30)
            await until(lambda: client.is_done)
        leader = nodes.leader(1)
        await until(lambda: leader.groups.members[1].raft.state.log.base_index > 500)
        away = await nodes.start(NAMES[2])
        for _ in range(10):
            client.add(b"beside" + bytes(1_000))
        await nodes.equal([1])
        await until(lambda: client.is_done)
        assert away.groups.members[1].raft.state.log.snapshot_index > 500
        # It has what the snapshot refers to: it can lead.
        await nodes.kill(leader.name)
        other = Client(away, 1, sender=2)
        await until(lambda: len(other.got) == len(away.groups.members[1].machine.kept) > 400)


async def test_clients_find_a_member_that_has_taken_the_place_of_another_one(tmp_path):
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create([1])
        await nodes.led([1])
        leader = nodes.leader(1)
        user, lost = [node for node in nodes if node is not leader]
        client = Client(user, 1)
        client.add(b"before")
        await until(lambda: client.is_done)
        lost.groups.members[1].lost_entry(StoreError("it was lost"))
        await until(lambda: is_replaced(nodes, lost))
        await until(lambda: leads_or_is_asked_to(nodes, lost))
        client.add(b"after")
        await until(lambda: client.is_done)


def is_replaced(nodes, node):
    """Whether the first member of a node was replaced. Otherwise the node reports its loss, which
    only a leader acts on.
    """
    me = node.groups.members[1].me
    if me == f"{node.name}/2":
        return True
    for other in nodes:
        if other is not node:
            node.groups.send_item(other.name, Damaged(1, me))
    return False


def leads_or_is_asked_to(nodes, node):
    """Whether a node leads group 1. Otherwise its leader, if there is one, hands over to it."""
    leader = nodes.leader(1)
    if leader is None or leader is node:
        return leader is node
    member = leader.groups.members[1]
    # It is refused until the other member has a vote.
    member.raft.transfer_to(node.groups.members[1].me, leader.groups.now_ms())
    leader.groups.mark(member)
    return False


async def test_clients_find_a_member_that_is_created_later(tmp_path):
    async with GroupedNodes(tmp_path) as nodes:
        client = Client(nodes.by_name[NAMES[0]], 1)
        client.add(b"early")
        other = Client(nodes.by_name[NAMES[1]], 2)
        await nodes.create([2])
        other.add(b"later")
        await until(lambda: other.is_done)
        await nodes.create([1])
        await until(lambda: client.is_done)


async def test_a_member_whose_node_got_another_name_since_learns_that_it_was_removed(tmp_path):
    async with GroupedNodes(tmp_path) as nodes:
        a, b, c = NAMES
        former = "former@127.0.0.1/3"
        for name in NAMES:
            groups = nodes.by_name[name].groups
            groups.nodes.rename(1, {former: c})
            groups.create(1, (a, b, former), former if name == c else name)
            await nodes.by_name[name].node_log.sync()
        await nodes.kill(c)
        nodes.want(1, a, b)
        await nodes.led([1])
        leader = nodes.leader(1)
        state = leader.groups.members[1].raft.state
        await until(lambda: state.log.configuration.members == (a, b))
        await until(lambda: state.commit >= state.log.configuration_index)
        for node in nodes:
            node.groups.nodes.forget(1)
        back, removed = await nodes.start(c), []
        back.groups.removed = removed.append
        await until(lambda: back.groups.reaches(leader.name))
        back.groups.send_item(leader.name, Announced(1, former))
        await until(lambda: removed)


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_leader_whose_node_got_another_name_is_removed(tmp_path, restarts):
    """The record, from which the others know where it is, no longer has it."""
    async with GroupedNodes(tmp_path) as nodes:
        a, b, c = NAMES
        former = "former@127.0.0.1/3"
        for name in NAMES:
            groups = nodes.by_name[name].groups
            groups.nodes.rename(1, {former: c})
            groups.create(1, (a, b, former), former if name == c else name)
        await nodes.led([1])
        member = nodes.leader(1).groups.members[1]
        if member.me != former:
            assert member.raft.transfer_to(former, nodes.by_name[c].groups.now_ms()) is None
            nodes.leader(1).groups.mark(member)
        await until(lambda: nodes.by_name[c].leads(1))
        if restarts:
            await nodes.kill(b)
            await nodes.start(b)
        for node in nodes:
            node.groups.nodes.rename(1, {})
        nodes.want(1, a, b)
        if restarts:
            for name in (a, b):
                nodes.by_name[c].groups.send_item(name, Announced(1, former))
        await until(lambda: nodes.by_name[a].leads(1) or nodes.by_name[b].leads(1))
        for name in (a, b):
            state = nodes.by_name[name].groups.members[1].raft.state
            await until(lambda state=state: state.log.configuration.members == (a, b))


async def test_a_leader_that_learns_of_the_next_term_does_not_say_that_it_leads_in_it(tmp_path):
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create([1])
        await nodes.led([1])
        leader = nodes.leader(1)
        user, other = [name for name in NAMES if name != leader.name]
        term = leader.groups.members[1].raft.state.term
        told = []
        peers = leader.links.peers
        send = peers[user].send
        peers[user].send = lambda service, *pieces: (
            told.extend(items_of(b"".join(pieces))), send(service, *pieces)
        )  # fmt: skip
        # In one turn, a leader of the next term is heard, and a node asks who leads.
        next_one = encode_message(Entries(1, term + 1, 0, 0, 0, 0, 0, []))
        leader.groups.received(peers[other], encode_raft(other, leader.name, next_one))
        leader.groups.received(peers[user], encode_item(Find(1)))
        await until(lambda: not leader.leads(1))
        terms = {type(item): item.term for item in told if isinstance(item, Leads | LeadsNoMore)}
        assert terms == {Leads: term, LeadsNoMore: term}


@pytest.mark.parametrize("is_receiver", [True, False])
async def test_a_member_is_removed_while_a_snapshot_is_on_its_way(tmp_path, is_receiver, caplog):
    async with GroupedNodes(tmp_path, file_bytes=200_000) as nodes:
        await nodes.create([1])
        await nodes.led([1])
        leader = nodes.leader(1)
        user, lost = [name for name in NAMES if name != leader.name]
        client = Client(nodes.by_name[user], 1)
        await nodes.kill(lost)
        for _ in range(10):
            client.add(*[bytes(20_000)] * 50)
            await until(lambda: client.is_done)
        await until(lambda: leader.groups.members[1].raft.state.log.base_index > 200)
        away = await nodes.start(lost)
        take, bodies = away.groups.receiving.take, []

        def take_some(node, item):
            bodies.append(item)
            if len(bodies) == 10:
                (away if is_receiver else leader).groups.remove(1)
            take(node, item)

        away.groups.receiving.take = take_some
        await until(lambda: len(bodies) > 10)
        await until(lambda: not leader.groups.sending._transfers)
        await until(lambda: not away.groups.receiving._by_group)
        assert len(leader.links.peers) == len(away.links.peers) == 2
        assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_an_empty_member_that_crashes_before_its_reset_has_what_its_snapshot_needs(tmp_path):
    def begun():
        return GroupedNode(NAMES[0], tmp_path, {}, FILE_BYTES_MAX, KeepingKind())

    node = begun()
    node.groups.create(1, NAMES)
    name = SnapshotName(90, 4)
    node.store.log.receive(1, name, 20, 2, 0, b"body")
    state = b"".join(KeepingMachine((90, {1: 1}, [20], 1)).snapshot())
    configuration = encode_configuration(Configuration(NAMES))
    snapshot = TakenSnapshot(name, configuration, state, [(20, 20)], 90)
    await node.store.rounds.install(node.store.log.groups[1], snapshot, 0)
    await node.kill()
    for last in (90, 91):
        node = begun()
        member = node.groups.members[1]
        assert (member.damage, member.applied, member.raft.state.log.last_index) == ("", 90, last)
        await node.node_log.sync()
        block = block_of(node.store.log.groups[1].blocks, 20)
        assert node.store.log.reader.read_now(block, 20) == b"body"
        node.store.log.append(1, last + 1, 5, 0, [b"after"])
        await node.node_log.sync()
        await node.kill()


async def test_bodies_outlive_log_files_and_go_when_they_are_settled(tmp_path):
    async with GroupedNodes(tmp_path, file_bytes=100_000) as nodes:
        await nodes.create([1])
        client = Client(nodes.by_name[NAMES[0]], 1)
        for _ in range(20):
            client.add(*[bytes(2_000)] * 20)
            await until(lambda: client.is_done)
        node = nodes.by_name[NAMES[0]]
        quorum = tmp_path / NAMES[0] / "quorum"
        await until(lambda: len(kept_numbers(node.disk, quorum)) > 1)
        client.settle(400)
        await until(lambda: client.is_done)
        await nodes.equal([1])
        # A file that the log gives up at this moment goes with a later round.
        while kept_numbers(node.disk, quorum):
            await node.store.free_space()


@pytest.mark.parametrize("is_found_at_the_start", [True, False])
async def test_a_member_that_has_lost_entries_is_replaced(tmp_path, is_found_at_the_start):
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create([1])
        client = Client(nodes.by_name[NAMES[0]], 1)
        client.add(b"here is it")
        await until(lambda: client.is_done)
        await nodes.equal([1])
        if is_found_at_the_start:
            # Otherwise it is taken for the end of what the node was writing: the leader notices.
            client.add(*[b"%d" % number for number in range(20)])
            await until(lambda: client.is_done)
            await nodes.equal([1])
        lost = next(name for name in NAMES if not nodes.by_name[name].leads(1))
        await nodes.kill(lost)
        path = tmp_path / lost / "log" / "0000000001.log"
        path.write_bytes(path.read_bytes().replace(b"here is it", b"here is IT"))
        node = await nodes.start(lost)
        await until(lambda: node.groups.members[1].me == f"{lost}/2")
        await until(
            lambda: f"{lost}/2" in node.groups.members[1].raft.state.log.configuration.voters
        )
        await nodes.equal([1])


async def test_a_question_is_answered_by_the_leader(tmp_path):
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create([1])
        clients = [Client(node, 1, sender) for sender, node in enumerate(nodes, 1)]
        answers = []
        await until(lambda: all(client.use.leader for client in clients))
        for client in clients:
            client.use.ask(b"added", answers.append)
        await until(lambda: len(answers) == 3)
        assert answers == [b"added 0"] * 3


async def test_a_current_answer_comes_after_the_next_entry(tmp_path):
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create([1])
        clients = [Client(node, 1, sender) for sender, node in enumerate(nodes, 1)]
        answers = []
        await until(lambda: all(client.use.leader for client in clients))
        before = nodes.leader(1).groups.members[1].applied
        for client in clients:
            client.use.ask(NOW, answers.append)
        await until(lambda: len(answers) == 3)
        assert answers == [b"added now 0"] * 3
        assert nodes.leader(1).groups.members[1].applied > before


async def test_a_leader_that_is_cut_off_gives_no_current_answer(tmp_path):
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create([1])
        await nodes.led([1])
        leader = nodes.leader(1)
        client = Client(leader, 1)
        await until(lambda: client.use.leader)
        member, answers = leader.groups.members[1], []
        for peer in leader.links.peers.values():
            peer.send = lambda service, *pieces: None
        client.use.ask(b"added", answers.append)
        client.use.ask(NOW, answers.append)
        await until(lambda: member.raft.state.log.last_index > member.applied)
        assert answers == [b"added 0"]
        # It hears of the next leader.
        term, other = member.raft.state.term, next(iter(leader.links.peers))
        next_one = encode_message(Entries(1, term + 1, 0, 0, 0, 0, 0, []))
        peer = leader.links.peers[other]
        leader.groups.received(peer, encode_raft(other, leader.name, next_one))
        await until(lambda: len(answers) == 2)
        assert answers[1] is None


async def test_idle_groups_cost_nothing(tmp_path):
    groups = range(1, 301)
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create(groups)
        await nodes.led(groups)
        await nodes.equal(groups)
        await until(lambda: not any(node.groups._wakes._heap for node in nodes))
        loop = asyncio.get_running_loop()
        calls = []
        for node in nodes:
            node.groups.call_soon = lambda turn: (calls.append(turn), loop.call_soon(turn))
        # What was on its way when the last time had come is done in the first of these.
        for _ in range(2):
            calls.clear()
            sent = octets(nodes)
            seen = {node: node.groups._watch.checks for node in nodes}
            await until(
                lambda seen=seen: all(one.groups._watch.checks >= seen[one] + 2 for one in nodes)
            )
        assert calls == []
        assert not any(node.groups._wakes._timer for node in nodes)
        assert max(octets(nodes)[way] - sent[way] for way in sent) < 100


def octets(nodes):
    """What each node has sent to each other one."""
    return {(node.name, peer.name): peer.sent_octets
            for node in nodes for peer in node.links.peers.values()}  # fmt: skip


async def test_a_leader_that_cannot_read_an_entry_gives_up_the_lead_and_is_replaced(tmp_path):
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create([1])
        client = Client(nodes.by_name[NAMES[0]], 1)
        client.add(*[b"%d" % number for number in range(20)])
        await until(lambda: client.is_done)
        leader = nodes.leader(1)
        leader.groups.members[1].lost_entry(StoreError("the disk gave other bytes back"))
        client.add(b"more")
        await until(lambda: client.is_done)
        await until(lambda: leader.groups.members[1].me == f"{leader.name}/2")
        await nodes.equal([1])


class Congested:
    """A `Peer` that says that it is congested."""

    is_congested = True

    def __init__(self, peer):
        self.name = peer.name
        self.send = peer.send


async def test_entries_for_a_member_that_is_behind_wait_for_a_congested_link(tmp_path):
    async with GroupedNodes(tmp_path) as nodes:
        await nodes.create([1])
        client = Client(nodes.by_name[NAMES[0]], 1)
        client.add(b"first")
        await until(lambda: client.is_done)
        leader = nodes.leader(1)
        away = next(name for name in NAMES[1:] if name != leader.name)
        await nodes.kill(away)
        client.add(*[bytes(2_000)] * 100)
        await until(lambda: client.is_done)
        peers = leader.groups._outgoing.peers
        leader.groups.link_changed = lambda node: peers.update({node: Congested(peers[node])})
        await nodes.start(away)
        await until(lambda: leader.groups.members[1]._reads.are_waiting)
        peers[away].is_congested = False
        leader.groups.drained(peers[away])
        await nodes.equal([1])
