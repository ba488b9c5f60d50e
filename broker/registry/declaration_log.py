"""The declaration log checks, writes and applies declarations.

The source of a change (a channel method, the management API, an expired queue) submits declarations
and awaits the answer. On a single node they are written to the metadata store, applied and answered
immediately. Whoever tells a client of them awaits `Answer.synced`, too: many of them share one
sync, which a thread does (storage/metadata_sync.py). In a cluster other nodes may have to receive
them first: then they are applied later, and the caller must look at the registry again, since it
may have changed meanwhile.

L1, L2, L7 and L8 are the promises of what writes and applies them (declaration_writer.py).

L3. Declarations are applied in the order in which they are submitted, each checked before.
L4. Declarations that are submitted together are checked against the state before all of them, so
    none of them may depend on another one.
L5. `synced` of the answer to declarations of what survives a restart is given after a sync of all
    that was written until then, also if they change nothing: another client may have declared the
    same a moment ago. For others it is given immediately, and no sync is done for nobody.
L6. Consumers of a deleted queue are told after the answer, and after its sync: delete-ok comes
    before basic.cancel, and a power cut brings no queue back whose consumers were cancelled.
"""

from collections.abc import Sequence
from typing import Protocol

from leveret.broker.declarations import Declaration
from leveret.broker.pending import Answer, Synced, given
from leveret.broker.queues.queue_client import Consumer
from leveret.broker.registry.declaration_writer import DeclarationWriter
from leveret.broker.registry.registry import Registry
from leveret.broker.requester import THE_NODE, Requester
from leveret.storage.metadata import MetadataError
from leveret.storage.metadata_sync import MetadataSync


class DeclarationLog(Protocol):
    """Accepts declarations."""

    def submit(
        self,
        *declarations: Declaration,
        answer: Answer[None] | None = None,
        requester: Requester = THE_NODE,
    ) -> Answer[None]:
        """Write and apply declarations; the answer is given when they are applied, and its `synced`
        when they are on disk.

        answer: the one to give and return, for a caller that acts on it before consumers of deleted
        queues are told. requester: for the audit.

        Raises what `Registry.check` raises. The answer is refused with MetadataError if they
        cannot be written.
        """

    def synced(self) -> Answer[None]:
        """The answer is given when all that was submitted so far is on disk."""


class LocalDeclarationLog:
    """The log of a single node: a declaration is written and applied when it is submitted."""

    def __init__(self, registry: Registry, writer: DeclarationWriter, sync: MetadataSync) -> None:
        self._registry = registry
        self._writer = writer
        self._sync = sync

    def submit(
        self,
        *declarations: Declaration,
        answer: Answer[None] | None = None,
        requester: Requester = THE_NODE,
    ) -> Answer[None]:
        """See `DeclarationLog.submit`; the declarations are applied immediately."""
        registry = self._registry
        for declaration in declarations:
            registry.check(declaration)
        answer = answer if answer is not None else Answer()
        kept = registry.complete(declarations)
        needs_sync = any(map(registry.is_durable, (*declarations, *kept)))
        try:
            cancelled = self._writer.perform(kept, requester)
        except MetadataError as error:
            answer.refuse(error)
            return answer
        synced = self._synced() if needs_sync else None
        answer.give(None, synced)
        self._tell_cancelled(cancelled, synced is not None)
        return answer

    def synced(self) -> Answer[None]:
        """See `DeclarationLog.synced`."""
        return self._synced() or given(None)

    def _synced(self) -> Synced | None:
        """None if all is on disk."""
        return None if self._sync.is_synced else Synced(self._sync.when_synced)

    def _tell_cancelled(self, cancelled: Sequence[Consumer], needs_sync: bool) -> None:
        """Tell the consumers of deleted queues (L6)."""

        def tell(error: Exception | None) -> None:
            for consumer in cancelled if error is None else ():
                consumer.tell_cancelled()

        if needs_sync and cancelled:
            self._sync.when_synced(tell)
        else:
            tell(None)
