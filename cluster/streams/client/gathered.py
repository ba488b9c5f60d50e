"""Gathers the requests of this node's clients to a stream in one turn, as few commands.

All publishers without a name share one command; each publisher with a name has its own, and each
name of a consumer has the last offset that was stored. So the entries of one publisher are in its
order, and so are its confirms.
"""

from collections.abc import Callable
from typing import Final

from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.contract.stream import StreamEntries
from leveret.cluster.replicated_queues.client.group_client import GroupClient
from leveret.cluster.replicated_queues.client.unapplied_hold import UnappliedHold
from leveret.cluster.streams.client.commands import Confirmed, KeepOffset, PublishEntries
from leveret.cluster.streams.client.entry_writing import EntryWriter
from leveret.cluster.streams.machine.commands import ENTRIES_MAX

APPEND_BYTES_MAX: Final = 512 * 1024
"""Nothing is added to a command of this size, as in quorum queues (quorum/client/gathered.py)."""


class Gathered:
    """The requests of one turn, not yet sent. writer: converts messages of AMQP 0-9-1."""

    def __init__(self, group: GroupClient, hold: UnappliedHold, writer: EntryWriter) -> None:
        self._group = group
        self._hold = hold
        self._writer = writer
        self._appends: dict[bytes, PublishEntries] = {}
        self._offsets: dict[bytes, int] = {}
        self._storing: dict[bytes, KeepOffset] = {}

    def publish(self, publication: Publication, is_traced: bool) -> None:
        """Append messages of AMQP 0-9-1."""
        messages = publication.messages
        if len(messages) > ENTRIES_MAX:
            first, second = publication.split(ENTRIES_MAX)
            self.publish(first, is_traced)
            self.publish(second, is_traced)
            return
        pieces: list[bytes] = []
        filter_values: list[bytes] = []
        size = self._writer.write(messages, pieces, filter_values)
        count = len(messages)
        append = self._append_of(b"", count)
        if is_traced:
            append.traced.append((append.message_count, [one.number for one in messages]))
        append.add(pieces, size, count, count, filter_values)
        if publication.publisher is not None:
            append.hold(publication.publisher, publication.first, count)
        self._flush_if_large(append)

    def append(self, entries: StreamEntries, confirmed: Confirmed) -> None:
        """Append entries of a client of the stream protocol."""
        publisher, ids, filter_values, message_count, pieces = entries
        count, size = len(pieces), 0
        for piece in pieces:
            size += len(piece)
        append = self._append_of(publisher, count)
        append.add(pieces, size, count, message_count, filter_values, ids)
        append.then(confirmed)
        self._flush_if_large(append)

    def _append_of(self, publisher: bytes, entry_count: int) -> PublishEntries:
        append = self._appends.get(publisher)
        if append is not None and append.entry_count + entry_count > ENTRIES_MAX:
            self._flush(publisher)
            append = None
        if append is None:
            append = self._appends[publisher] = PublishEntries(publisher, self._hold)
        return append

    def _flush_if_large(self, append: PublishEntries) -> None:
        if append.size >= APPEND_BYTES_MAX:
            self._flush(append.publisher)

    def _flush(self, publisher: bytes) -> None:
        self._group.add(self._appends.pop(publisher))

    def store_offset(self, name: bytes, offset: int) -> None:
        """Store the offset of a consumer."""
        self._offsets[name] = offset

    def flush(self) -> None:
        """Give the group commands with the gathered requests."""
        appends, self._appends = self._appends, {}
        for append in appends.values():
            self._group.add(append)
        offsets, self._offsets = self._offsets, {}
        for name, offset in offsets.items():
            command = self._storing[name] = KeepOffset(name, offset, self._stored)
            self._group.add(command)

    def when_stored(self, name: bytes, stored: Callable[[], object]) -> None:
        """Call this when the offset that was given last under a name is in the log."""
        self.flush()
        self._storing[name].waiting.append(stored)

    def _stored(self, command: KeepOffset) -> None:
        if self._storing.get(command.name) is command:
            del self._storing[command.name]

    def offset_of(self, name: bytes) -> int | None:
        """The last offset that clients of this node store under a name, if it is not in the log."""
        if name in self._offsets:
            return self._offsets[name]
        command = self._storing.get(name)
        return None if command is None else command.offset
