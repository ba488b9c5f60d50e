"""The declaration log checks, writes and applies declarations.

The source of a change (a channel method, the management API, an expired queue) submits declarations
and awaits the answer. On a single node they are written to the metadata store and applied
immediately. In a cluster other nodes may have to receive them first: then the answer comes later,
and the caller must look at the registry again, since it may have changed meanwhile.

L1. A declaration is checked before it is written, and written before it is applied: one that cannot
    be written changes nothing in memory.
L2. Declarations that are submitted together are written in one transaction.
L3. Declarations are applied in the order in which they are submitted.
L4. Declarations that are submitted together are checked against the state before all of them, so
    none of them may depend on another one.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from leveret.broker.declarations import Declaration, PutQueue
from leveret.broker.pending import Answer
from leveret.broker.registry.registry import Registry
from leveret.broker.registry.rows import write
from leveret.storage.metadata import Metadata, MetadataError


class DeclarationLog(Protocol):
    """Accepts declarations."""

    def submit(self, *declarations: Declaration) -> Answer[None]:
        """Write and apply declarations; the answer is given when they are applied.

        Raises what `Registry.check` raises. The answer is refused with MetadataError if they
        cannot be written.
        """


class LocalDeclarationLog:
    """The log of a single node: SQLite, then the registry.

    new_storage_id: allocates the number under which a durable queue's messages are stored; returns
    0 if the node stores none.
    """

    def __init__(
        self, registry: Registry, metadata: Metadata, new_storage_id: Callable[[], int]
    ) -> None:
        self._registry = registry
        self._metadata = metadata
        self._new_storage_id = new_storage_id

    def submit(self, *declarations: Declaration) -> Answer[None]:
        """See `DeclarationLog.submit`; the answer is given immediately."""
        for declaration in declarations:
            self._registry.check(declaration)
        answer: Answer[None] = Answer()
        try:
            kept = self._write(self._registry.complete(declarations))
        except MetadataError as error:
            answer.refuse(error)
            return answer
        for declaration in kept:
            self._registry.apply(declaration)
        answer.give(None)
        return answer

    def _write(self, declarations: list[Declaration]) -> list[Declaration]:
        """Write the durable ones in one transaction; returns the declarations with storage ids."""
        if len(declarations) == 1:
            return [self._write_one(declarations[0])]
        with self._metadata.batch():
            return [self._write_one(declaration) for declaration in declarations]

    def _write_one(self, declaration: Declaration) -> Declaration:
        if not self._registry.is_durable(declaration):
            return declaration
        if isinstance(declaration, PutQueue):
            declaration = replace(declaration, storage_id=self._new_storage_id())
        write(declaration, self._metadata)
        return declaration
