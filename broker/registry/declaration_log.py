"""The declaration log checks, writes and applies declarations.

The source of a change (a channel method, the management API, an expired queue) submits declarations
and awaits the answer. On a single node they are written to the metadata store and applied
immediately, and answered when they are on disk: many of them share one sync, which a thread does
(storage/metadata_sync.py). In a cluster other nodes may have to receive them first: then they are
applied later, too, and the caller must look at the registry again, since it may have changed
meanwhile.

L1. A declaration is checked before it is written, and written before it is applied: one that cannot
    be written changes nothing in memory.
L2. Declarations that are submitted together are written in one transaction.
L3. Declarations are applied in the order in which they are submitted.
L4. Declarations that are submitted together are checked against the state before all of them, so
    none of them may depend on another one.
L5. Declarations of what survives a restart are answered after a sync of all that was written until
    then, also if they change nothing: another client may have declared the same a moment ago.
    Others are answered immediately.
L6. Consumers of a deleted queue are told after the answer: delete-ok comes before basic.cancel.
L7. While the disk is full no new queue, exchange or binding is written: the room that there is, is
    for deletions.
L8. The audit is told of declarations that were applied, in the order of L3, and before the answer.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec.structs import replace

from leveret.broker.audit import Audit
from leveret.broker.declarations import Declaration, PutBinding, PutExchange, PutQueue
from leveret.broker.pending import Answer
from leveret.broker.queues.queue_client import Consumer
from leveret.broker.registry.acts import ActsOfDeclarations
from leveret.broker.registry.registry import Registry
from leveret.broker.registry.rows import write
from leveret.broker.requester import THE_NODE, Requester
from leveret.storage.metadata import Metadata, MetadataError, MetadataFull
from leveret.storage.metadata_sync import MetadataSync

NEW = (PutQueue, PutExchange, PutBinding)
"""What clients may declare any number of."""


class DeclarationLog(Protocol):
    """Accepts declarations.

    is_disk_full: nothing new is written (L7). disk_filled: called when there was no room for a
    declaration; gives the reserve of disk space up.
    """

    is_disk_full: bool
    disk_filled: Callable[[], object]

    def submit(
        self,
        *declarations: Declaration,
        answer: Answer[None] | None = None,
        nowait: bool = False,
        requester: Requester = THE_NODE,
    ) -> Answer[None]:
        """Write and apply declarations; the answer is given when they are applied and on disk.

        answer: the one to give and return, for a caller that acts on it before consumers of deleted
        queues are told. nowait: it is given when they are applied. requester: for the audit.

        Raises what `Registry.check` raises. The answer is refused with MetadataError if they
        cannot be written.
        """

    def synced(self) -> Answer[None]:
        """The answer is given when all that was submitted so far is on disk."""


class LocalDeclarationLog:
    """The log of a single node: SQLite, then the registry.

    new_storage_id: allocates the number under which a durable queue's messages are stored; returns
    0 if the node stores none.
    """

    def __init__(
        self,
        registry: Registry,
        metadata: Metadata,
        sync: MetadataSync,
        new_storage_id: Callable[[], int],
        audit: Audit,
    ) -> None:
        self._registry = registry
        self._acts = ActsOfDeclarations(registry.users, registry.vhosts)
        self._audit = audit
        self._metadata = metadata
        self._sync = sync
        self._new_storage_id = new_storage_id
        self.is_disk_full = False
        self.disk_filled: Callable[[], object] = lambda: None

    def submit(
        self,
        *declarations: Declaration,
        answer: Answer[None] | None = None,
        nowait: bool = False,
        requester: Requester = THE_NODE,
    ) -> Answer[None]:
        """See `DeclarationLog.submit`; the declarations are applied immediately."""
        registry = self._registry
        for declaration in declarations:
            registry.check(declaration)
        answer = answer if answer is not None else Answer()
        kept = registry.complete(declarations)
        needs_sync = not nowait and any(map(registry.is_durable, (*declarations, *kept)))
        try:
            kept = self._write(kept)
        except MetadataError as error:
            answer.refuse(error)
            return answer
        acts = self._acts.of(kept, requester)
        for declaration in kept:
            registry.apply(declaration)
        for act in acts:
            self._audit.note(requester, act)
        self._answer(answer, needs_sync, registry.take_cancelled())
        return answer

    def synced(self) -> Answer[None]:
        """See `DeclarationLog.synced`."""
        answer: Answer[None] = Answer()
        self._answer(answer, True, ())
        return answer

    def _answer(
        self, answer: Answer[None], needs_sync: bool, cancelled: Sequence[Consumer]
    ) -> None:
        """Give the answer, then tell the consumers of deleted queues."""

        def give(error: Exception | None) -> None:
            if error is not None:
                answer.refuse(error)
                return
            answer.give(None)
            for consumer in cancelled:
                consumer.tell_cancelled()

        if needs_sync and not self._sync.is_synced:
            self._sync.when_synced(give)
        else:
            give(None)

    def _write(self, declarations: list[Declaration]) -> list[Declaration]:
        """Write the durable ones in one transaction; returns the declarations with storage ids.

        On a full disk the metadata are checkpointed first. SQLite's log then begins again in the
        space that it has, so that deletions, which need no more, can be written (L7).
        """
        is_new = any(
            isinstance(one, NEW) and self._registry.is_durable(one) for one in declarations
        )
        if self.is_disk_full and is_new:
            raise MetadataFull("the disk is full: nothing new is declared until there is room")
        try:
            return self._write_at_once(declarations)
        except MetadataFull:
            self.disk_filled()
            self._metadata.checkpoint()
            if is_new:
                raise
            return self._write_at_once(declarations)

    def _write_at_once(self, declarations: list[Declaration]) -> list[Declaration]:
        if len(declarations) == 1:
            return [self._write_one(declarations[0])]
        with self._metadata.batch():
            return [self._write_one(declaration) for declaration in declarations]

    def _write_one(self, declaration: Declaration) -> Declaration:
        if not self._registry.is_durable(declaration):
            return declaration
        if self._registry.topology.stores_messages(declaration):
            declaration = replace(declaration, storage_id=self._new_storage_id())
        write(declaration, self._metadata)
        return declaration
