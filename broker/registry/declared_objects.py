"""The base class of the modules in objects/, each of which handles one kind of declared object.

Such a module contains how declarations of its kind are checked, written, read and applied, the
events about its objects, and what the audit reports. To add a kind, write a module, list it in
objects/__init__.py, and define its declarations in broker/declarations/values.py. If its objects
are deleted with a vhost or a user, vhosts.py or users.py must remove them.

The static methods and class methods depend only on the declaration, so they also work on the files
of a stopped node and on the contents of other nodes. The other methods depend on existing objects.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar, Generic, TypeVar

from leveret.broker.declarations.audit import AuditedChange
from leveret.broker.declarations.requester import Requester
from leveret.broker.declarations.values import Declaration
from leveret.broker.registry.stored_rows import StoredRows
from leveret.broker.registry.tables import Tables
from leveret.storage.metadata.metadata import Metadata

Put = TypeVar("Put", bound=Declaration)
"""Adds an object, or replaces it."""
Change = TypeVar("Change", bound=Declaration)
"""Deletes an object, or changes one."""

Place = tuple[str, ...]
"""Identifies a declared object: its kind, and the names that distinguish it within its kind."""

VHOST, USER = "vhost", "user"
"""The kinds, besides exchanges and queues, whose deletion deletes other objects."""

NO_STEPS: Iterator[int] = iter(())
"""Everything was done at once."""


class DeclaredObjects(ABC, Generic[Put, Change]):
    """The objects of one kind on one node.

    types: the types of their declarations, with `Put` first. are_replaced: whether declaring an
    object again replaces it; otherwise it stays as it is until it is deleted, and clients may
    declare any number of them. components: the components of the parameters table whose rows belong
    to this kind.
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
        """The arguments of `Metadata.delete_part`, if the deletion may remove very many rows."""
        return None

    @staticmethod
    @abstractmethod
    def read(rows: StoredRows) -> Iterator[Put]:
        """The declarations of all objects in the metadata store."""

    # From one content to another (contents.py)

    @staticmethod
    @abstractmethod
    def place(it: Put) -> Place:
        """Identify the declared object. The kind comes first, then its vhost if it is in one."""

    @staticmethod
    def needs(it: Put) -> Iterable[Place]:
        """The places of the objects whose deletion also deletes the declared object."""
        return ()

    @staticmethod
    @abstractmethod
    def deletion(it: Put) -> Declaration:
        """The declaration that deletes the declared object."""

    @classmethod
    def becoming(cls, mine: Put, theirs: Put) -> Declaration | None:
        """The declaration that turns the object of `mine` into the one of another node.

        None if the object has to be deleted first. Both have the same place, and they differ.
        """
        return theirs if cls.are_replaced else None

    @abstractmethod
    def contents(self) -> Iterator[Put]:
        """The declarations of all objects that exist."""

    # Declaring

    def check(self, it: Put | Change) -> None:
        """Check that a declaration is valid. Raises the errors of `Registry.check`."""

    def completed(self, it: Put | Change) -> Declaration | None:
        """The declaration to write and apply in its place; None if it changes nothing.

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
        """Change the objects, then their dependents, then emit the event (RG3); never refuse (RG2).

        Returns the remaining steps of the deletion of an object that may have very many bindings;
        each yields its work (RG4).
        """

    # The audit

    def is_reported(self, it: Put | Change, requester: Requester) -> bool:
        """Whether the audit reports a declaration of this requester."""
        return True

    @abstractmethod
    def acts(self, it: Put | Change) -> Iterator[AuditedChange]:
        """The report of a declaration for the audit. Called before it is applied.

        The sentences are those of RabbitMQ 3.12's `rabbit_auth_backend_internal`, `rabbit_vhost`
        and `rabbit_policy`. RabbitMQ has none at this level for other kinds, which get similar
        ones.
        """
