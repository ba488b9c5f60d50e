"""Snapshots of the groups of streams: of their machines' states, with the heads of their logs.

A snapshot discards nothing: retention does (remove_segments). So the snapshot for a member that
lacks entries is made when it is asked for, of the head of the oldest segment.
"""

import asyncio

from leveret.storage.group_log.group_state import SnapshotName
from leveret.storage.group_log.rounds import Rounds, SnapshotSource, StoredSnapshot, TakenSnapshot
from leveret.storage.stream_groups.stored_state import StoredState, encode_state
from leveret.storage.stream_groups.stream_entries import StreamGroupLog


class StreamSnapshots:
    """The `SnapshotSource` of the streams of a node. members: takes the states of machines."""

    def __init__(self, members: SnapshotSource, log: StreamGroupLog) -> None:
        self._members = members
        self._log = log

    def with_news(self) -> list[int]:
        """The groups that have applied more than their newest snapshot has."""
        return self._members.with_news()

    async def take(self, group: int) -> TakenSnapshot | None:
        """A snapshot of the entries that a group has applied, which are on disk then."""
        taken = await self._members.take(group)
        stream = self._log.streams.streams.get(group)
        if taken is None or stream is None:
            return None
        synced = _Synced()
        self._log.when_synced(synced, 0, group)
        await synced.event.wait()
        state = encode_state(StoredState(stream.log.head, False, taken.state))
        return taken._replace(state=state, discard=taken.name.index)

    def taken(self, group: int, snapshot: TakenSnapshot) -> None:
        """A snapshot is on disk. The log keeps its entries."""
        stream = self._log.streams.streams.get(group)
        if stream is not None:
            self._members.taken(group, snapshot._replace(discard=stream.log.first_entry - 1))


class _Synced:
    """Waits for the writes of a group, or for its removal."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def confirm(self, first: int, holder: object) -> None:
        """They are on disk."""
        self.event.set()


class StreamRounds(Rounds):
    """The rounds of the streams of a node. members: takes the states of machines."""

    members: SnapshotSource
    entries: StreamGroupLog

    async def pin(self, group: int, user: object) -> StoredSnapshot:
        """The snapshot with which the log of another member begins.

        Raises KeyError if the group is not there, or its member here cannot be used.
        """
        taken = await self.members.take(group)
        if taken is None:
            raise KeyError(group)
        head = self.entries.streams.streams[group].log.head
        self.entries.groups[group].pins[user] = ()
        term = head.runs[-1].term if head.runs else 0
        state = StoredState(head, True, taken.state)
        name = SnapshotName(head.first_entry - 1, term)
        return StoredSnapshot(name, taken.configuration, encode_state(state))
