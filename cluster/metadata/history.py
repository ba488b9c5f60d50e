"""The end of the ordered log on disk, in the same transactions as what its entries declare.

Each kept entry is a row, and so are the view that was installed last and the beginnings of views.
They are rows of the table of parameters under components of their own, which no client can set; so
they have its checksums, and a damaged one is reported with the others. After a restart the node
tells the others its position by them, and gets the entries that it missed.

Y3. The rows of an entry are written in the transaction of its declarations, so that the position on
    disk is that of the declarations on disk.
"""

import base64
import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from leveret.broker.policies.parameters import NO_VHOST
from leveret.broker.registry.rows import CLUSTER_LOG, CLUSTER_VIEW
from leveret.cluster.metadata.messages import Entry, View, ViewStart
from leveret.cluster.metadata.ordered_log import OrderedLog
from leveret.storage.metadata import Metadata
from leveret.storage.metadata_rows import ParameterRow

ENTRIES_KEPT = 10_000
"""Entries that a node keeps for those that come back. Each has some hundred bytes."""
LAST_VIEW = "last"


class LastView(msgspec.Struct, frozen=True, array_like=True):
    """The view that was installed last, and the log at its beginning. companions: `Established`."""

    view: View
    starts: tuple[ViewStart, ...]
    base: int
    companions: frozenset[str]


class Saved(NamedTuple):
    """What was read from the store: a node begins its next run with it."""

    log: OrderedLog
    view: View | None
    companions: frozenset[str]


class History:
    """The end of the log in one metadata store, for the node that writes it."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._last: LastView | None = None

    def transaction(self) -> AbstractContextManager[None]:
        """What is written in the block is written as a whole, or not at all."""
        return self._metadata.batch()

    def begin(self, last: LastView, is_replaced: bool) -> None:
        """Write that a view holds. is_replaced: a snapshot took the place of all entries."""
        self._last = last
        with self._metadata.batch():
            if is_replaced:
                self._metadata.delete_parameters(CLUSTER_LOG)
            self._put(CLUSTER_VIEW, LAST_VIEW, msgspec.msgpack.encode(last))

    def establish(self, companions: frozenset[str]) -> None:
        """Write that all members have installed the view."""
        assert self._last is not None, "a view is installed before it is established"
        self._last = replace(self._last, companions=companions)
        self._put(CLUSTER_VIEW, LAST_VIEW, msgspec.msgpack.encode(self._last))

    def append(self, entries: Sequence[Entry]) -> None:
        """Write entries, and remove as many that are too old."""
        with self._metadata.batch():
            for entry in entries:
                self._put(CLUSTER_LOG, str(entry.index), msgspec.msgpack.encode(entry))
                old = str(entry.index - ENTRIES_KEPT)
                self._metadata.delete_parameter(NO_VHOST, CLUSTER_LOG, old)

    def forget(self) -> None:
        """The node is in no cluster any more."""
        with self._metadata.batch():
            self._metadata.delete_parameters(CLUSTER_LOG)
            self._metadata.delete_parameters(CLUSTER_VIEW)

    def _put(self, component: str, name: str, value: bytes) -> None:
        text = json.dumps(base64.b64encode(value).decode())
        self._metadata.put_parameter(ParameterRow(NO_VHOST, component, name, text))


def read(parameters: Iterable[ParameterRow]) -> Saved:
    """The log and the last view from the rows of the store; empty and None if there are none.

    Entries behind a missing one are left out, as is everything without a view: the node then gets
    more from the others than it had to.
    """
    last: LastView | None = None
    entries: dict[int, Entry] = {}
    for row in parameters:
        if row.component == CLUSTER_VIEW:
            last = msgspec.msgpack.decode(_value(row), type=LastView)
        elif row.component == CLUSTER_LOG:
            entry = msgspec.msgpack.decode(_value(row), type=Entry)
            entries[entry.index] = entry
    if last is None:
        return Saved(OrderedLog(ENTRIES_KEPT), None, frozenset())
    index = last.base
    while index + 1 in entries:
        index += 1
    first = index
    while first in entries:
        first -= 1
    kept = [entries[one] for one in range(first + 1, index + 1)]
    log = OrderedLog(ENTRIES_KEPT, last.starts, index, kept)
    return Saved(log, last.view, last.companions)


def _value(row: ParameterRow) -> bytes:
    return base64.b64decode(json.loads(row.value))
