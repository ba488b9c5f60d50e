"""Receives snapshots from leaders (protocol: snapshot_sending.py).

The entries that come with a snapshot are written to the log as they arrive, and are on disk before
they are acknowledged. When everything has arrived, the snapshot is made durable (rounds.py), and
only then does it replace the log and the machine. Until then no other snapshot of the group is
accepted: its entries would overwrite those that are not in the log yet. During this time the member
may be removed, and another member of the same group created.
"""

import asyncio
import logging
from typing import Protocol

from leveret.cluster.groups.group_frames import (
    AllSent,
    Body,
    GroupFrameError,
    GroupItem,
    OfferSnapshot,
    SnapshotInstalled,
    SnapshotReceived,
    SnapshotTransferEnded,
    StatePiece,
    Want,
)
from leveret.cluster.groups.group_machine import GroupMachine, MachineKind
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.groups.snapshot_sending import octets_of
from leveret.cluster.groups.stored_member import restored
from leveret.cluster.raft.configuration import decode_configuration
from leveret.storage.disk.disk import StoreError
from leveret.storage.group_log.group_log import GroupLog
from leveret.storage.group_log.group_state import GroupState, SnapshotName
from leveret.storage.group_log.rounds import Rounds, TakenSnapshot

logger = logging.getLogger("leveret.cluster")


class ReceivingHost(Protocol):
    """The service of the node."""

    log: GroupLog
    kind: MachineKind

    @property
    def rounds(self) -> Rounds:
        """The snapshots on disk."""

    def member_named(self, group: int, name: str) -> GroupMember | None:
        """The member of this node with this name, if it can be used."""

    def mark(self, member: GroupMember) -> None:
        """Have the member's turn ended."""

    def send_item(self, node: str, item: GroupItem) -> None:
        """Send an item to a node."""


class _Receiving:
    """A snapshot that is being received. after: this node has the entries through this one.

    stored: the member's part of the log.
    """

    def __init__(
        self, node: str, member: GroupMember, stored: GroupState, offer: OfferSnapshot
    ) -> None:
        self.node = node
        self.member = member
        self.stored = stored
        self.offer = offer
        self.name = SnapshotName(offer.index, offer.term)
        self.after = member.raft.state.commit
        self.state: list[bytes] = []
        self.state_bytes = 0
        self.octets = self.acknowledged = 0
        self.waits_for_sync = False


class SnapshotReceiving:
    """All snapshots that this node receives: at most one for each group at a time."""

    def __init__(self, host: ReceivingHost) -> None:
        self._host = host
        self._by_group: dict[int, _Receiving] = {}
        self._installing: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._unreadable: dict[int, SnapshotName] = {}
        """Snapshots of newer versions, which the leader offers each second, are refused unread."""
        self._errors: dict[int, str] = {}
        """The last error of each group, which is logged once."""

    def take(self, node: str, item: GroupItem) -> None:
        """Take an item about a snapshot."""
        if isinstance(item, OfferSnapshot):
            self._offered(node, item)
            return
        one = self._by_group.get(item.group)
        number = getattr(item, "transfer", 0)
        if one is None or (one.node, one.offer.transfer) != (node, number):
            return
        if item.group in self._installing:
            return
        if isinstance(item, StatePiece):
            one.state_bytes += len(item.data)
            if one.state_bytes > one.offer.state_bytes:
                raise GroupFrameError(
                    f"the snapshot of group {item.group} has more than the "
                    f"{one.offer.state_bytes} bytes that were offered"
                )
            one.state.append(item.data)
        elif isinstance(item, Body):
            if item.index > one.after:
                self._host.log.receive(
                    item.group, one.name, item.index, item.term, item.kind, item.payload
                )
        elif isinstance(item, AllSent):
            self._installing.add(item.group)
            task = asyncio.get_running_loop().create_task(self._install(one))
            self._tasks.add(task)
            task.add_done_callback(lambda done: self._installed(done, item.group))
            return
        else:
            del self._by_group[item.group]
            return
        one.octets += octets_of(item)
        self._acknowledge(one)

    def _offered(self, node: str, offer: OfferSnapshot) -> None:
        member = self._host.member_named(offer.group, offer.to)
        is_unreadable = self._unreadable.get(offer.group) == SnapshotName(offer.index, offer.term)
        if member is None or is_unreadable or offer.group in self._installing:
            self._host.send_item(node, SnapshotTransferEnded(offer.group, offer.transfer))
            return
        stored = self._host.log.groups[offer.group]
        one = self._by_group[offer.group] = _Receiving(node, member, stored, offer)
        self._host.send_item(node, Want(offer.group, offer.transfer, one.after))

    def _acknowledge(self, one: _Receiving) -> None:
        """Tell the leader how many bytes have arrived, as soon as they are on disk."""
        if not one.waits_for_sync and one.octets > one.acknowledged:
            one.waits_for_sync = True
            self._host.log.when_synced(_Acknowledging(self, one), one.octets, one.offer.group)

    def synced(self, one: _Receiving, octets: int) -> None:
        """The first `octets` bytes are on disk."""
        one.waits_for_sync = False
        if self._by_group.get(one.offer.group) is one:
            one.acknowledged = octets
            self._host.send_item(
                one.node, SnapshotReceived(one.offer.group, one.offer.transfer, octets)
            )
            self._acknowledge(one)

    async def _install(self, one: _Receiving) -> None:
        offer, member = one.offer, one.member
        state = b"".join(one.state)
        try:
            if len(state) != offer.state_bytes:
                raise ValueError(f"only {len(state)} of its {offer.state_bytes} bytes have arrived")
            machine = await self._machine_of(one, state)
            configuration = decode_configuration(offer.configuration)
            live = machine.live()
            snapshot = TakenSnapshot(one.name, offer.configuration, state, live, offer.index)
            if offer.index > member.raft.state.commit:
                if self._by_group.get(offer.group) is not one:
                    return
                await self._host.rounds.install(one.stored, snapshot, one.after)
        except (StoreError, ValueError) as error:
            self._log(one, str(error))
            self._end(one, SnapshotTransferEnded(offer.group, offer.transfer))
            return
        self._errors.pop(offer.group, None)
        if self._host.member_named(offer.group, member.me) is not member:
            self._end(one, SnapshotTransferEnded(offer.group, offer.transfer))
            return
        if member.raft.install(offer.index, offer.term, configuration):
            member.installed(machine, offer.index)
            one.stored.live = live
        self._host.mark(member)
        self._end(one, SnapshotInstalled(offer.group, offer.transfer))

    async def _machine_of(self, one: _Receiving, state: bytes) -> GroupMachine:
        """The machine of a snapshot. Raises ValueError if a newer version has written it."""
        if not state:
            return self._host.kind.new()
        try:
            return await restored(self._host.kind.restore(state))
        except ValueError:
            self._unreadable[one.offer.group] = one.name
            raise

    def _log(self, one: _Receiving, error: str) -> None:
        group = one.offer.group
        if self._errors.get(group) != error:
            self._errors[group] = error
            logger.error(
                "cannot install a snapshot of %s from node %s: %s", one.member.queue_name,
                one.node, error,
            )  # fmt: skip

    def _installed(self, task: asyncio.Task[None], group: int) -> None:
        self._tasks.discard(task)
        self._installing.discard(group)

    def _end(self, one: _Receiving, item: GroupItem) -> None:
        if self._by_group.get(one.offer.group) is one:
            del self._by_group[one.offer.group]
            self._host.send_item(one.node, item)

    def removed(self, member: GroupMember) -> None:
        """Forget the snapshot of a member that is removed. Items that still arrive are dropped."""
        self._errors.pop(member.group, None)
        self._unreadable.pop(member.group, None)
        one = self._by_group.get(member.group)
        if one is not None and one.member is member:
            self._end(one, SnapshotTransferEnded(member.group, one.offer.transfer))

    def link_down(self, node: str) -> None:
        """The link to a node is down."""
        for group in [group for group, one in self._by_group.items() if one.node == node]:
            del self._by_group[group]


class _Acknowledging:
    """Waits for the sync of received bytes."""

    def __init__(self, receiving: SnapshotReceiving, one: _Receiving) -> None:
        self._receiving = receiving
        self._one = one

    def confirm(self, first: int, holder: object) -> None:
        """The first `first` bytes are on disk."""
        self._receiving.synced(self._one, first)
