"""Writes declarations that are complete to the metadata store, and applies them to the registry.

It is the part of a declaration log that every node does, whoever has ordered the declarations
(declaration_log.py): one transaction, then memory, then the audit.

L1. Declarations are written before they are applied: what cannot be written changes nothing in
    memory.
L2. Declarations that come together are written in one transaction.
L7. While the disk is full no new queue, exchange or binding is written: the room that there is, is
    for deletions.
L8. The audit is told of declarations that were applied, in their order, before the answer.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from leveret.broker.audit import Audit
from leveret.broker.declarations import Declaration, PutBinding, PutExchange, PutQueue
from leveret.broker.queues.queue_client import Consumer
from leveret.broker.registry.acts import ActsOfDeclarations
from leveret.broker.registry.registry import Registry
from leveret.broker.registry.rows import write
from leveret.broker.requester import Requester
from leveret.storage.metadata import Metadata, MetadataFull

NEW = (PutQueue, PutExchange, PutBinding)
"""What clients may declare any number of."""


class DeclarationWriter:
    """Writes to one metadata store and changes one registry.

    new_storage_id: allocates the number under which a durable queue's messages are stored; returns
    0 if the node stores none. is_disk_full: nothing new is written (L7). disk_filled: called when
    there was no room for a declaration; gives the reserve of disk space up.
    """

    def __init__(
        self,
        registry: Registry,
        metadata: Metadata,
        new_storage_id: Callable[[], int],
        audit: Audit,
    ) -> None:
        self._registry = registry
        self._acts = ActsOfDeclarations(registry.users, registry.vhosts)
        self._audit = audit
        self._metadata = metadata
        self._new_storage_id = new_storage_id
        self.is_disk_full = False
        self.disk_filled: Callable[[], object] = lambda: None

    def perform(
        self,
        declarations: Sequence[Declaration],
        requester: Requester,
        alongside: Callable[[], None] | None = None,
    ) -> Sequence[Consumer]:
        """Write and apply declarations that `Registry.complete` returned.

        alongside: writes more in the same transaction.

        Returns the consumers of deleted queues, whose `tell_cancelled` the caller calls. Raises
        MetadataError, and changes nothing, if they cannot be written.
        """
        registry = self._registry
        written = self._write(declarations, alongside)
        acts = self._acts.of(written, requester)
        for declaration in written:
            registry.apply(declaration)
        for act in acts:
            self._audit.note(requester, act)
        return registry.take_cancelled()

    def _write(
        self, declarations: Sequence[Declaration], alongside: Callable[[], None] | None
    ) -> list[Declaration]:
        """Write the durable ones; returns the declarations with storage ids.

        On a full disk the metadata are checkpointed first. SQLite's log then begins again in the
        space that it has, so that deletions, which need no more, can be written (L7).
        """
        is_new = any(
            isinstance(one, NEW) and self._registry.is_durable(one) for one in declarations
        )
        if self.is_disk_full and is_new:
            raise MetadataFull("the disk is full: nothing new is declared until there is room")
        try:
            return self._write_at_once(declarations, alongside)
        except MetadataFull:
            self.disk_filled()
            self._metadata.checkpoint()
            if is_new:
                raise
            return self._write_at_once(declarations, alongside)

    def _write_at_once(
        self, declarations: Sequence[Declaration], alongside: Callable[[], None] | None
    ) -> list[Declaration]:
        if len(declarations) == 1 and alongside is None:
            return [self._write_one(declarations[0])]
        with self._metadata.batch():
            if alongside is not None:
                alongside()
            return [self._write_one(declaration) for declaration in declarations]

    def _write_one(self, declaration: Declaration) -> Declaration:
        if not self._registry.is_durable(declaration):
            return declaration
        if self._registry.topology.stores_messages(declaration):
            declaration = replace(declaration, storage_id=self._new_storage_id())
        write(declaration, self._metadata)
        return declaration
