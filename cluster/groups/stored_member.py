"""Converts between log and core: a member's stored state for Raft, its snapshot for the log."""

import asyncio
from collections.abc import Iterator, Mapping
from io import BytesIO

from leveret.cluster.groups.group_machine import GroupMachine
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.raft.configuration import (
    Configuration,
    ConfigurationError,
    decode_configuration,
    encode_configuration,
)
from leveret.cluster.raft.entry_log import Stored, StoredRun
from leveret.cluster.raft.outputs import CONFIGURATION
from leveret.storage.disk.disk import StoreError
from leveret.storage.group_log.entry_blocks import EntryBlock
from leveret.storage.group_log.group_log import GroupLog
from leveret.storage.group_log.group_state import GroupState, SnapshotName
from leveret.storage.group_log.rounds import TakenSnapshot

KEPT_FOR_OTHERS = 100_000
"""A reachable member that is further behind than this many entries gets a snapshot instead."""
KEPT_FOR_ABSENT, KEPT_FOR_ABSENT_BYTES = 1_000, 256 * 1024
"""The last entries are kept while the node of another member is away. If it has a thousand queues,
their snapshots would take many times as long as the few entries that it lacks.
"""
TURN_BYTES = 256 * 1024
"""About how many bytes of a snapshot are made in one turn. This takes less than 5 ms."""
STEPS_A_TURN = 16
"""How many steps of restoring a machine are taken in a turn: 1 ms, 10 ms in pure Python."""


def stored_of(log: GroupLog, state: GroupState) -> Stored:
    """The state of a group that a restart found. Raises StoreError if a configuration is bad."""
    runs: list[StoredRun] = []
    for found in log.found_runs(state):
        run = StoredRun(found.first, found.count, found.term, found.kind, [])
        if found.kind == CONFIGURATION:
            for index in range(found.first, found.first + found.count):
                run.payloads.append(log.read_now(state, index))
        last = runs[-1] if runs else None
        if last is not None and (last.term, last.kind) == (run.term, run.kind):
            last.count += run.count
            last.payloads += run.payloads
        else:
            runs.append(run)
    configuration = Configuration()
    if state.configuration:
        try:
            configuration = decode_configuration(state.configuration)
        except ConfigurationError as error:
            raise StoreError(str(error)) from error
    term, vote = state.term, state.vote
    if runs and runs[-1].term > term:
        # The entry is on disk, the term is not: nothing that states the term was sent.
        term, vote = runs[-1].term, ""
    return Stored(
        configuration, term, vote, state.snapshot.index, state.snapshot.term, tuple(runs),
        log.term_before(state),
    )  # fmt: skip


class MemberSnapshots:
    """The `SnapshotSource` of a node. members: its members, by group.

    A member that fails here stops alone: the snapshots of the others are taken.
    """

    def __init__(self, log: GroupLog, members: Mapping[int, GroupMember]) -> None:
        self._log = log
        self._members = members

    def with_news(self) -> list[int]:
        """The groups that have applied more than their newest snapshot has."""
        return [
            group
            for group, member in self._members.items()
            if not member.damage and member.applied > self._log.groups[group].snapshot.index
        ]

    async def take(self, group: int) -> TakenSnapshot | None:
        """A snapshot of the entries that a group has applied."""
        await asyncio.sleep(0)
        member = self._members.get(group)
        if member is None:
            return None
        try:
            return await snapshot_of(member, self._log.groups[group].blocks)
        except Exception as error:
            member.failed(error)
            return None

    def taken(self, group: int, snapshot: TakenSnapshot) -> None:
        """A snapshot is on disk."""
        member = self._members.get(group)
        if member is None or member.damage:
            return
        try:
            member.raft.snapshot_taken(snapshot.name.index)
            member.raft.discarded(snapshot.discard)
        except Exception as error:
            member.failed(error)


async def snapshot_of(member: GroupMember, blocks: list[EntryBlock]) -> TakenSnapshot | None:
    """A snapshot of the entries that a member has applied.

    None if there are no new ones, and none to discard. It is made in several turns if it is large.
    blocks: the places of all entries.
    """
    log = member.raft.state.log
    index = member.applied
    if member.damage or index < log.snapshot_index:
        return None
    discard = max(_discardable(member, blocks), log.base_index)
    if index == log.snapshot_index and discard == log.base_index:
        return None
    configuration = encode_configuration(log.configuration_at(index)[1])
    name = SnapshotName(index, log.term_of(index))
    live = member.machine.live()
    state = await joined(member.machine.snapshot())
    return TakenSnapshot(name, configuration, state, live, discard)


def _discardable(member: GroupMember, blocks: list[EntryBlock]) -> int:
    """The last applied entry that no other member is expected to need."""
    state, index = member.raft.state, member.applied
    discard = index
    if member.raft.leading is not None:
        behind = min(index, member.raft.leading.needed_from() - 1)
        discard = behind if index - behind < KEPT_FOR_OTHERS else index
    if any(
        name != state.me and name not in state.reachable for name in state.log.configuration.members
    ):
        discard = min(discard, _before_the_last(blocks, index))
    return discard


def _before_the_last(blocks: list[EntryBlock], index: int) -> int:
    """The last entry that is too old to be kept for an absent member."""
    first, octets = index + 1, 0
    for block in reversed(blocks):
        if block.last < first - 1:
            break  # The entries between were discarded.
        while block.first < first <= block.last + 1:
            octets += block.sizes[first - 1 - block.first]
            if octets > KEPT_FOR_ABSENT_BYTES or index + 1 - first >= KEPT_FOR_ABSENT:
                return first - 1
            first -= 1
    return first - 1


async def joined(pieces: Iterator[bytes]) -> bytes:
    """Join pieces, of which a turn takes about `TURN_BYTES`."""
    state = BytesIO()  # `getvalue` does not copy the bytes.
    octets = 0
    for piece in pieces:
        octets += state.write(piece)
        if octets >= TURN_BYTES:
            octets = 0
            await asyncio.sleep(0)
    return state.getvalue()


async def restored(steps: Iterator[GroupMachine | None]) -> GroupMachine:
    """Restore a machine in many turns. Raises ValueError if it cannot be restored."""
    for number, machine in enumerate(steps, 1):
        if machine is not None:
            return machine
        if number % STEPS_A_TURN == 0:
            await asyncio.sleep(0)
    raise AssertionError("the last step yields the machine")


def restored_now(steps: Iterator[GroupMachine | None]) -> GroupMachine:
    """Restore a machine at once, before the node has clients. Raises ValueError."""
    return next(machine for machine in steps if machine is not None)
