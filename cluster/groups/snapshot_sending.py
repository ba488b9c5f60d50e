"""Sends snapshots to members that lack entries which the leader has discarded.

    leader                      member
    OfferSnapshot         ->
                          <-    Want: it has committed entries through an index
    StatePiece, Body ...  ->
                          <-    SnapshotReceived: how many bytes are on disk
    AllSent               ->
                          <-    SnapshotInstalled

Of the entries that the snapshot refers to, the member has those that it has committed itself. At
most `WINDOW_BYTES` of a transfer, and `TRANSFERS_MAX` transfers to one node, are on the way; others
wait. While clients publish, all transfers have one pace (catch_up_pace.py). Either end can end a
transfer early with `SnapshotTransferEnded`. The entries of the snapshot stay on disk until it ends.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Protocol

from leveret.cluster.groups.catch_up_pace import CatchUpPace
from leveret.cluster.groups.group_frames import (
    AllSent,
    Body,
    GroupItem,
    OfferSnapshot,
    SnapshotInstalled,
    SnapshotReceived,
    SnapshotTransferEnded,
    StatePiece,
    Want,
)
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.groups.member_nodes import MemberNodes
from leveret.storage.contract.backing_queue import BeingRead
from leveret.storage.disk.disk import StoreError
from leveret.storage.group_log.entry_blocks import EntryBlock, needed_blocks
from leveret.storage.group_log.group_log import GroupLog
from leveret.storage.group_log.rounds import Rounds

PIECE_BYTES = 256 * 1024
WINDOW_BYTES = 1024 * 1024
TRANSFERS_MAX = 4
"""How many transfers to one node can be active."""


class SendingHost(Protocol):
    """The service of the node."""

    log: GroupLog
    nodes: MemberNodes
    catch_up_pace: CatchUpPace

    @property
    def rounds(self) -> Rounds:
        """The snapshots on disk."""

    def now_ms(self) -> int:
        """A time that never goes back."""

    def mark(self, member: GroupMember) -> None:
        """Have the member's turn ended."""

    def send_item(self, node: str, item: GroupItem) -> None:
        """Send an item to a node."""

    def is_congested(self, node: str) -> bool:
        """Whether nothing more should be sent to a node for now."""


class _Transfer:
    """A snapshot that is being sent. pieces: those that are still to be sent.

    waits: for a read, or for its turn.
    """

    def __init__(self, number: int, member: GroupMember, to: str, node: str) -> None:
        self.number = number
        self.member = member
        self.to = to
        self.node = node
        self.index = 0
        self.state = b""
        self.pieces: Iterator[GroupItem | None] = iter(())
        self.sent = self.taken = 0
        self.is_ended = self.waits = False


class SnapshotSending:
    """All snapshots that this node sends."""

    def __init__(self, host: SendingHost) -> None:
        self._host = host
        self._number = 0
        self._transfers: dict[int, _Transfer] = {}
        self._waiting: deque[_Transfer] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, member: GroupMember, to: str) -> None:
        """Send the newest snapshot of a group."""
        self._number += 1
        node = self._host.nodes.of(member.group, to)
        self._waiting.append(_Transfer(self._number, member, to, node))
        self._start_waiting()

    def cancel(self, member: GroupMember, to: str) -> None:
        """Stop sending a snapshot."""
        for one in [*self._transfers.values(), *self._waiting]:
            if one.member is member and one.to == to:
                self._host.send_item(one.node, SnapshotTransferEnded(member.group, one.number))
                self._end(one)

    def removed(self, member: GroupMember) -> None:
        """Stop all transfers of a member that is removed."""
        for one in [*self._transfers.values(), *self._waiting]:
            if one.member is member:
                self._host.send_item(one.node, SnapshotTransferEnded(member.group, one.number))
                self._end(one)

    def link_down(self, node: str) -> None:
        """The link to a node is down: end the transfers to it."""
        for one in [*self._transfers.values(), *self._waiting]:
            if one.node == node:
                self._fail(one)

    def drained(self, node: str) -> None:
        """More can be sent to a node."""
        for one in list(self._transfers.values()):
            if one.node == node:
                self._go_on(one)

    def take(self, node: str, item: GroupItem) -> None:
        """Take an item about a transfer."""
        number = getattr(item, "transfer", 0)
        one = self._transfers.get(number)
        if one is None or one.node != node:
            return
        if isinstance(item, Want):
            one.pieces = self._pieces(one, item.after)
            self._go_on(one)
        elif isinstance(item, SnapshotReceived):
            one.taken = item.octets
            self._go_on(one)
        elif isinstance(item, SnapshotInstalled):
            one.member.raft.snapshot_sent(one.to, one.index)
            self._end(one)
            self._host.mark(one.member)
        elif isinstance(item, SnapshotTransferEnded):
            self._fail(one)

    def _start_waiting(self) -> None:
        busy: dict[str, int] = {}
        for one in self._transfers.values():
            busy[one.node] = busy.get(one.node, 0) + 1
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            if busy.get(one.node, 0) >= TRANSFERS_MAX:
                self._waiting.append(one)
            else:
                busy[one.node] = busy.get(one.node, 0) + 1
                self._transfers[one.number] = one
                task = asyncio.get_running_loop().create_task(self._offer(one))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _offer(self, one: _Transfer) -> None:
        group = one.member.group
        try:
            name, configuration, one.state = await self._host.rounds.pin(group, one)
        except KeyError:
            self._fail(one)
            return
        except StoreError as error:
            one.member.lost_entry(error)
            self._fail(one)
            return
        if one.is_ended:
            self._take_out_pin(one)
            return
        one.index = name.index
        offer = OfferSnapshot(
            group, one.number, one.to, name.index, name.term, configuration, len(one.state)
        )
        self._host.send_item(one.node, offer)

    def _pieces(self, one: _Transfer, after: int) -> Iterator[GroupItem | None]:
        """The items to send, in order. None while a thread reads."""
        group, number = one.member.group, one.number
        for start in range(0, len(one.state), PIECE_BYTES):
            yield StatePiece(group, number, one.state[start : start + PIECE_BYTES])
        stored = self._host.log.groups[group]
        lacked = [(max(first, after + 1), last) for first, last in stored.pins[one] if last > after]
        for block in needed_blocks(stored.blocks, one.index, lacked):
            if block.first <= one.index:
                yield from self._bodies(one, block)
        yield AllSent(group, number)

    def _bodies(self, one: _Transfer, block: EntryBlock) -> Iterator[GroupItem | None]:
        index, last = block.first, min(block.last, one.index)
        while index <= last:
            try:
                payloads = self._host.log.reader.read(block, index, last, PIECE_BYTES)
            except BeingRead as reading:
                one.waits = True
                reading.when_done(lambda: self._continue(one))
                yield None
                continue
            for payload in payloads:
                yield Body(one.member.group, one.number, index, block.term, block.kind, payload)
                index += 1

    def _continue(self, one: _Transfer) -> None:
        one.waits = False
        self._go_on(one)

    def _go_on(self, one: _Transfer) -> None:
        """Send as many pieces as the window and the pace allow."""
        pace = self._host.catch_up_pace
        while (
            not one.is_ended and not one.waits and one.sent - one.taken < WINDOW_BYTES
            and not self._host.is_congested(one.node)
        ):  # fmt: skip
            if not pace.may_send(lambda: self._continue(one)):
                one.waits = True
                return
            try:
                piece = next(one.pieces, None)
            except StoreError as error:
                self._host.send_item(one.node, SnapshotTransferEnded(one.member.group, one.number))
                one.member.lost_entry(error)
                self._fail(one)
                return
            if piece is None:
                return
            octets = octets_of(piece)
            one.sent += octets
            pace.sent(octets)
            self._host.send_item(one.node, piece)

    def _fail(self, one: _Transfer) -> None:
        if not one.is_ended:
            self._end(one)
            one.member.raft.snapshot_failed(one.to, self._host.now_ms())
            self._host.mark(one.member)

    def _end(self, one: _Transfer) -> None:
        one.is_ended = True
        self._transfers.pop(one.number, None)
        if one in self._waiting:
            self._waiting.remove(one)
        self._take_out_pin(one)
        self._start_waiting()

    def _take_out_pin(self, one: _Transfer) -> None:
        stored = self._host.log.groups.get(one.member.group)
        if stored is not None:
            stored.pins.pop(one, None)


def octets_of(piece: GroupItem) -> int:
    """The bytes that a piece takes in the window."""
    if isinstance(piece, StatePiece):
        return len(piece.data)
    return len(piece.payload) if isinstance(piece, Body) else 0
