"""Declarations as rows of the metadata store: writes them, and reads them after a restart.

Only objects that survive a restart have rows: durable exchanges and queues, bindings between them,
and everything that operators set. Each kind of object (objects/) writes and reads its own rows.
"""

from collections.abc import Iterator

from leveret.broker.declarations.values import Declaration, PutExchange, PutQueue
from leveret.broker.queues.contract.placement import HERE, Placement
from leveret.broker.registry.objects import KINDS, OBJECTS
from leveret.broker.registry.stored_rows import StoredRows
from leveret.storage.check.check import DeclaredIds
from leveret.storage.metadata.metadata import Metadata
from leveret.storage.metadata.metadata_rows import Definitions

CLUSTER_LOG, CLUSTER_VIEW, CLUSTER_PROMISE = "cluster-log", "cluster-view", "cluster-promise"
"""The components of the rows of the end of a cluster's log (cluster/metadata/history.py), which
declare nothing."""
CLAIMED = {CLUSTER_LOG, CLUSTER_VIEW, CLUSTER_PROMISE}.union(*(kind.components for kind in OBJECTS))
"""The components of the parameters table whose rows are not parameters."""
ROW_WORK = 20
"""The work of deleting a row, in the units of broker/runtime/turns.py."""


def deletes_much(it: Declaration) -> bool:
    """Whether a declaration may delete very many rows."""
    return KINDS[type(it)].rows_deleted_with(it) is not None


def deleting(it: Declaration, metadata: Metadata) -> Iterator[int]:
    """Delete the many rows that depend on a deleted object, before `write`, in its batch.

    Yields the work of each step. Raises MetadataError.
    """
    place = KINDS[type(it)].rows_deleted_with(it)
    while place is not None and (deleted := metadata.delete_part(*place)):
        yield deleted * ROW_WORK


def write(it: Declaration, metadata: Metadata) -> None:
    """Write a durable declaration: one transaction. Raises MetadataError."""
    KINDS[type(it)].write(it, metadata)


def declarations(definitions: Definitions) -> Iterator[Declaration]:
    """The content of the metadata store as declarations, in an order in which they apply."""
    rows = StoredRows(definitions, CLAIMED)
    for kind in OBJECTS:
        yield from kind.read(rows)


def declared_ids(definitions: Definitions) -> DeclaredIds:
    """The ids under which a node stores the messages of declared objects."""
    here: set[int] = set()
    movable: set[int] = set()
    for it in declarations(definitions):
        if isinstance(it, PutExchange):
            here.add(it.storage_id)
        elif isinstance(it, PutQueue):
            # A queue of a cluster may live on another node, now or later.
            (here if Placement(it.node, it.identity) == HERE else movable).add(it.storage_id)
    return DeclaredIds(here, movable)
