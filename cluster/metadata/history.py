"""The end of the ordered log on disk, in the same transactions as the declarations of its entries.

Each kept entry is a row, and so are the last installed view and the beginnings of views. They are
rows of the table of parameters under separate components, which no client can set; so its checksums
cover them, and damage is reported as for other rows. After a restart the node reads its position
from them, reports it to the other nodes, and gets the entries that it missed.

HY1. The rows of an entry are written in the transaction of its declarations, so the position on
     disk matches the declarations on disk.
HY2. When a node gives way, that decision is on disk before it restarts and until it is in a view
     again, even if it crashes: the transaction that writes the others' metadata removes it.
HY3. The promise of a node stays when its log is replaced (promises.py).
"""

import base64
import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from leveret.broker.policies.parameters import NO_VHOST
from leveret.broker.registry.stored import CLUSTER_LOG, CLUSTER_PROMISE, CLUSTER_VIEW
from leveret.cluster.metadata.messages import NO_VIEW, LogEntry, View, ViewId, ViewStart
from leveret.cluster.metadata.ordered_log import OrderedLog
from leveret.storage.metadata.metadata import Metadata
from leveret.storage.metadata.metadata_rows import ParameterRow

ENTRIES_KEPT = 10_000
"""Entries that a node keeps for nodes that return. Each has a few hundred bytes."""
LAST_VIEW, HIGHEST_PROMISE = "last", "highest"

Value = TypeVar("Value")


class LastView(msgspec.Struct, frozen=True, array_like=True):
    """The last installed view, and the log at its beginning.

    companions: as last written (`WriteCompanions`). takes_from: the node discards its own metadata
    and takes everything from one of these nodes (HY2).
    """

    view: View
    starts: tuple[ViewStart, ...]
    base: int
    companions: frozenset[str]
    takes_from: tuple[str, ...] = ()


Kept = LogEntry | LastView | ViewId


class Saved(NamedTuple):
    """The state that a node reads from the store at the beginning of a run.

    promised: the highest view that the node has agreed to.
    """

    log: OrderedLog
    view: View | None
    companions: frozenset[str]
    takes_from: tuple[str, ...] = ()
    promised: ViewId = NO_VIEW


class History:
    """The end of the log in one metadata store, for the node that writes it."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._last: LastView | None = None
        self._gives_way_to: tuple[str, ...] = ()

    def read(self, parameters: Iterable[ParameterRow]) -> Saved:
        """The log and the last view from the rows of the store; empty and None if there are none.

        Entries beyond a gap are dropped, and all entries if there is no view: the node then gets
        more from the others than necessary.
        """
        last: LastView | None = None
        promised = NO_VIEW
        entries: dict[int, LogEntry] = {}
        for row in parameters:
            if row.component == CLUSTER_VIEW:
                last = value_of(row, LastView)
            elif row.component == CLUSTER_PROMISE:
                promised = value_of(row, ViewId)
            elif row.component == CLUSTER_LOG:
                entry = value_of(row, LogEntry)
                entries[entry.index] = entry
        if last is None:
            return Saved(OrderedLog(ENTRIES_KEPT), None, frozenset(), promised=promised)
        self._last = last
        index = last.base
        while index + 1 in entries:
            index += 1
        first = index
        while first in entries:
            first -= 1
        kept = [entries[one] for one in range(first + 1, index + 1)]
        log = OrderedLog(ENTRIES_KEPT, last.starts, index, kept)
        return Saved(log, last.view, last.companions, last.takes_from, promised)

    def transaction(self) -> AbstractContextManager[None]:
        """All writes in the block take effect together, or none does."""
        return self._metadata.batch()

    def begin(self, last: LastView, is_replaced: bool) -> None:
        """Write that a view holds. is_replaced: a snapshot has replaced all entries."""
        self._last = last = replace(last, takes_from=self._gives_way_to)
        with self._metadata.batch():
            if is_replaced:
                self._metadata.delete_parameters(CLUSTER_LOG)
            self._put(CLUSTER_VIEW, LAST_VIEW, last)

    def write_companions(self, companions: frozenset[str]) -> None:
        """Write the companions of the node."""
        assert self._last is not None, "a node that has been in no view proposes none with others"
        self._last = replace(self._last, companions=companions)
        self._put(CLUSTER_VIEW, LAST_VIEW, self._last)

    def write_promise(self, view: ViewId) -> None:
        """Write that the node is bound to a view."""
        self._put(CLUSTER_PROMISE, HIGHEST_PROMISE, view)

    def give_way(self, takes_from: tuple[str, ...]) -> None:
        """Write, for the rest of this run, that the next run takes everything from one of these."""
        assert self._last is not None, "a node that has been in no view has nothing to discard"
        self._gives_way_to = takes_from
        self._last = replace(self._last, takes_from=takes_from)
        self._put(CLUSTER_VIEW, LAST_VIEW, self._last)

    def append(self, entries: Sequence[LogEntry]) -> None:
        """Write entries, and remove the same number of the oldest."""
        with self._metadata.batch():
            for entry in entries:
                self._put(CLUSTER_LOG, str(entry.index), entry)
                old = str(entry.index - ENTRIES_KEPT)
                self._metadata.delete_parameter(NO_VHOST, CLUSTER_LOG, old)

    def forget(self) -> None:
        """Remove all rows: the node is no longer in a cluster."""
        self._last = None
        with self._metadata.batch():
            self._metadata.delete_parameters(CLUSTER_LOG)
            self._metadata.delete_parameters(CLUSTER_VIEW)
            self._metadata.delete_parameters(CLUSTER_PROMISE)

    def _put(self, component: str, name: str, value: Kept) -> None:
        self._metadata.put_parameter(row_of(component, name, value))


def row_of(component: str, name: str, value: Kept) -> ParameterRow:
    """The row that keeps a value."""
    text = json.dumps(base64.b64encode(msgspec.msgpack.encode(value)).decode())
    return ParameterRow(NO_VHOST, component, name, text)


def value_of(row: ParameterRow, kind: type[Value]) -> Value:
    """The value that a row keeps. Raises ValueError."""
    return msgspec.msgpack.decode(base64.b64decode(json.loads(row.value)), type=kind)
