"""Writes declarations that are complete to the metadata store, and applies them to the registry.

Every node has one, whichever node ordered the declarations (declaration_log.py). It writes one
transaction, changes memory, then informs the audit. Very many declarations, and deletions of very
many objects, take many steps (broker/runtime/long_work.py).

DC1. Declarations are written before they are applied: a declaration that cannot be written changes
    nothing in memory.
DC2. Declarations that are submitted together are written in one transaction, even if it takes
    several turns of the event loop: if the node is killed before the end, nothing is written.
DC7. While the disk is full no new queue, exchange or binding is written: the remaining space is for
    deletions.
DC8. The audit gets applied declarations, in their order, before the answer is given.
"""

from collections.abc import Callable, Generator, Sequence

from msgspec.structs import replace

from leveret.broker.declarations.audit import Audit
from leveret.broker.declarations.requester import Requester
from leveret.broker.declarations.values import Declaration
from leveret.broker.queues.contract.queue_client import Consumer
from leveret.broker.registry import stored
from leveret.broker.registry.registry import Registry
from leveret.broker.runtime.long_work import Step
from leveret.broker.runtime.pending import Answer
from leveret.storage.metadata.metadata import Metadata, MetadataFull

WRITE_WORK, APPLY_WORK = 300, 150
"""The work of writing a declaration, and of applying one without deletions to memory, in the units
of broker/runtime/turns.py."""


class DeclarationWriter:
    """Writes to one metadata store and changes one registry.

    new_storage_id: allocates the number under which a durable queue's messages are stored; returns
    0 if the node stores none. is_disk_full: nothing new is written (DC7). disk_filled: called when
    there was no space for a declaration; releases the reserve of disk space. checkpoint: starts a
    checkpoint of the metadata; the answer is given at its end, None if it ends before this returns.
    performed_count, durable_count: the numbers of times that declarations of any kind, and of
    objects that survive a restart, were applied since the start. They are increased last: a reader
    of a count, and then of the registry, sees everything that was counted.
    """

    def __init__(
        self,
        registry: Registry,
        metadata: Metadata,
        new_storage_id: Callable[[], int],
        audit: Audit,
    ) -> None:
        self._registry = registry
        self._audit = audit
        self._metadata = metadata
        self._new_storage_id = new_storage_id
        self.is_disk_full = False
        self.performed_count = self.durable_count = 0
        self.disk_filled: Callable[[], object] = lambda: None
        self.checkpoint: Callable[[], Answer[None] | None] = self._checkpoint_now

    def performing(
        self,
        declarations: Sequence[Declaration],
        requester: Requester,
        alongside: Callable[[], None] | None = None,
    ) -> Generator[Step, None, Sequence[Consumer]]:
        """Write and apply declarations that `Registry.completing` returned.

        alongside: writes more in the same transaction.

        Yields the work of each step, or the answer that it waits for (broker/runtime/long_work.py);
        the caller performs nothing else before the last one. Returns the consumers of deleted
        queues, whose `tell_cancelled` the caller calls. Raises MetadataError, and changes nothing,
        if they cannot be written.
        """
        registry = self._registry
        # After a deletion this cannot be determined.
        has_durable = any(map(registry.is_durable, declarations))
        written = yield from self._writing(declarations, alongside)
        acts = registry.acts(written, requester)
        # All deleted objects leave the tables before the first of them is dismantled.
        begun = []
        for declaration in written:
            steps = registry.applying(declaration)
            yield next(steps, APPLY_WORK)
            begun.append(steps)
        for steps in begun:
            yield from steps
        self.performed_count += 1
        self.durable_count += has_durable
        for act in acts:
            self._audit.note(requester, act)
        return registry.take_cancelled()

    def _writing(
        self, declarations: Sequence[Declaration], alongside: Callable[[], None] | None
    ) -> Generator[Step, None, Sequence[Declaration]]:
        """Write the durable declarations; return all of them, with storage ids.

        On a full disk the metadata are checkpointed first. SQLite's log then starts again in its
        existing space, so that deletions, which need no more, can be written (DC7).
        """
        durable = [one for one in declarations if self._registry.is_durable(one)]
        is_new = any(map(self._registry.is_new, durable))
        if self.is_disk_full and is_new:
            raise MetadataFull("the disk is full: nothing new is declared until there is room")
        if not durable and alongside is None:
            return declarations
        try:
            return (yield from self._writing_once(declarations, alongside))
        except MetadataFull:
            self.disk_filled()
            answer = self.checkpoint()
            if is_new:
                raise
            if answer is not None:
                yield answer
        return (yield from self._writing_once(declarations, alongside))

    def _checkpoint_now(self) -> Answer[None] | None:
        self._metadata.checkpoint()
        return None

    def _writing_once(
        self, declarations: Sequence[Declaration], alongside: Callable[[], None] | None
    ) -> Generator[int, None, Sequence[Declaration]]:
        is_one_row = len(declarations) == 1 and not stored.deletes_much(declarations[0])
        if is_one_row and alongside is None:
            yield WRITE_WORK
            return [self._written(declarations[0])]
        written = []
        with self._metadata.batch():
            if alongside is not None:
                alongside()
            for declaration in declarations:
                if not self._registry.is_durable(declaration):
                    written.append(declaration)
                    continue
                yield from stored.deleting(declaration, self._metadata)
                written.append(self._written(declaration))
                yield WRITE_WORK
        return written

    def _written(self, declaration: Declaration) -> Declaration:
        if self._registry.stores_messages(declaration):
            declaration = replace(declaration, storage_id=self._new_storage_id())
        stored.write(declaration, self._metadata)
        return declaration
