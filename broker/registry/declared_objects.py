"""One kind of declared objects, such as queues or users: the base class of the files in objects/.

A kind is one file there: how its declarations are checked, written, read and applied, the events
about its objects and what the audit says of them. A new kind is such a file, a line in
objects/__init__.py, and its declarations in broker/declarations.py; if it is deleted with a vhost
or a user, vhosts.py or users.py removes it.

The static methods depend on the declaration alone, so they serve the files of a node that does not
run, and the contents of other nodes. The other methods depend on what is declared.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar, Generic, TypeVar

from leveret.broker.audit import Act
from leveret.broker.declarations import Declaration
from leveret.broker.registry.stored_rows import StoredRows
from leveret.broker.registry.tables import Tables
from leveret.broker.requester import Requester
from leveret.storage.metadata import Metadata

Put = TypeVar("Put", bound=Declaration)
"""Adds an object, or replaces it."""
Change = TypeVar("Change", bound=Declaration)
"""Deletes an object, or changes one."""

Place = tuple[str, ...]
"""What a declaration declares: the kind of object, and the names that tell it from others."""

VHOST, USER = "vhost", "user"
"""The kinds of objects that others are deleted with, beside exchanges and queues."""

NO_STEPS: Iterator[int] = iter(())


class DeclaredObjects(ABC, Generic[Put, Change]):
    """The objects of one kind on one node.

    types: their declarations, `Put` first. are_replaced: whether an object that is declared again
    takes the place of the first. Others stay as they are until they are deleted, and clients may
    declare any number of them. components: whose rows in the parameters table are of this kind.
    """

    types: ClassVar[tuple[type[Declaration], ...]]
    are_replaced: ClassVar[bool] = True
    components: ClassVar[tuple[str, ...]] = ()

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    # On disk

    @staticmethod
    @abstractmethod
    def write(it: Put | Change, metadata: Metadata) -> None:
        """Write a durable declaration: one transaction. Raises MetadataError."""

    @staticmethod
    def rows_deleted_with(it: Put | Change) -> tuple[str, ...] | None:
        """What is deleted with very many rows, if something is; see `Metadata.delete_part`."""
        return None

    @staticmethod
    @abstractmethod
    def read(rows: StoredRows) -> Iterator[Put]:
        """The declarations of all objects that were written."""

    # From one content to another (contents.py)

    @staticmethod
    @abstractmethod
    def place(it: Put) -> Place:
        """What a declaration declares. The kind comes first, then the vhost if it is in one."""

    @staticmethod
    @abstractmethod
    def needs(it: Put) -> Iterable[Place]:
        """The places of what a declared object is deleted with."""

    @staticmethod
    @abstractmethod
    def deletion(it: Put) -> Declaration:
        """The declaration that deletes what another one declared."""

    @classmethod
    def becoming(cls, mine: Put, theirs: Put) -> Declaration | None:
        """What makes an object the one of the same place that others have declared.

        None if it is deleted first.
        """
        return theirs if cls.are_replaced else None

    @abstractmethod
    def contents(self) -> Iterator[Put]:
        """The declarations of all objects."""

    # Declaring

    def check(self, it: Put | Change) -> None:
        """Check that a declaration is valid. Raises what `Registry.check` raises."""

    def completed(self, it: Put | Change) -> Declaration | None:
        """What is written and applied in place of a declaration; None if it changes nothing.

        Raises ValueError for a change that is not possible.
        """
        return it

    def is_durable(self, it: Put | Change) -> bool:
        """Whether a declaration must be written to survive a restart."""
        return True

    def stores_messages(self, it: Put | Change) -> bool:
        """Whether the object is durable and needs a storage id for its messages."""
        return False

    @abstractmethod
    def apply(self, it: Put | Change) -> Iterator[int]:
        """Change the objects, then their dependents, and emit the event (R3), whatever it finds
        (R2).

        Returns the steps of what is left to do, if it deletes what may have very many bindings.
        They yield their work; after the first it is gone for everybody (R4).
        """

    # The audit

    def is_told(self, it: Put | Change, requester: Requester) -> bool:
        """Whether the audit is told of a declaration."""
        return True

    @abstractmethod
    def acts(self, it: Put | Change) -> Iterator[Act]:
        """What a declaration changes, before it is applied.

        The sentences are those of RabbitMQ 3.12's `rabbit_auth_backend_internal`, `rabbit_vhost`
        and `rabbit_policy`. It has none at this level for the others, which are worded alike.
        """
