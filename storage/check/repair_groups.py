"""Repairing the groups of quorum queues of a stopped node.

A member with a damaged or missing entry cannot be used. If its group has no other member, a record
in a new log file lets the log of the group begin after its snapshot, if that covers the entry, or
else end before the entry. Damaged entries are overwritten, so that they are not found again. So the
entries after it are lost, too: what they mean depends on it.

All other damage stays as it is. A majority may need what a member has acknowledged; and nothing
tells what the snapshot of a single member had, or the body of a message that it has.
"""

from leveret.storage.check.check_groups import EntryFiles
from leveret.storage.check.kept_originals import KeptOriginals
from leveret.storage.group_log.entry_blocks import EntryBlock
from leveret.storage.group_log.group_records import (
    CRC_BYTES,
    RESET,
    TRUNCATE,
    EncodedItem,
    GroupWrite,
    encode_item,
)
from leveret.storage.group_log.group_state import GroupState
from leveret.storage.messages.checksum import crc32


class GroupRepair:
    """Mends groups without other members. entries: in their files.

    items: what the log has to say of them.
    """

    def __init__(self, files: KeptOriginals, entries: EntryFiles) -> None:
        self.items: list[EncodedItem] = []
        self._files = files
        self._entries = entries

    def mend(self, state: GroupState) -> None:
        """Mend a group, if nothing but entries is damaged. Raises StoreError."""
        damaged = [
            (block, index)
            for block, index in self._entries.damaged(state)
            if index > state.discarded
        ]
        missing, reason = state.first_damaged()
        if state.damage != reason:
            return
        after = [index for _, index in damaged] + [missing] * bool(missing)
        covered = state.snapshot.index
        if any(index <= covered for index in after):
            self.items.append(_begin_after(state))
        first = min([index for index in after if index > covered], default=0)
        if first:
            self.items.append(encode_item(GroupWrite(TRUNCATE, state.group, first=first), []))
        for block, index in damaged:
            self._overwrite(block, index - block.first)

    def _overwrite(self, block: EntryBlock, place: int) -> None:
        path = self._entries.path(block.file)
        if path.exists():
            empty = bytes(block.sizes[place])
            begin = block.offsets[place] - CRC_BYTES
            self._files.keep(path)
            self._files.patch(path, {begin: crc32(empty).to_bytes(4, "little") + empty})


def _begin_after(state: GroupState) -> EncodedItem:
    """The entries that the snapshot covers count only as bodies of messages that it has."""
    name = state.snapshot
    return encode_item(
        GroupWrite(RESET, state.group, number=name.index, term=name.term, first=state.last), []
    )
