"""Exchanges, queues and bindings: the declared objects that live in the vhosts of a node.

Clients declare any number of them, all the time. So declaring one again does not replace it, only
durable ones are written, and the audit reports few of them.

A queue or an exchange may have very many bindings, so it is deleted in steps
(broker/runtime/long_work.py). The first step removes it from the tables of its vhost: it can no
longer be bound or consumed from, and routing skips it (`is_deleted`). The next steps detach its
bindings, each with its event, and its own event comes last. No other declaration is applied between
the steps (declaration_log.py), so a new queue of the same name finds none of the old bindings.
"""

import logging
from abc import abstractmethod
from typing import TypeVar

from leveret.broker.amqp.errors import not_allowed
from leveret.broker.declarations.requester import AMQP, DEFINITIONS, Requester
from leveret.broker.declarations.values import InVhost
from leveret.broker.registry.declared_objects import DeclaredObjects
from leveret.broker.vhost.virtual_host import VirtualHost

logger = logging.getLogger("leveret.registry")

Put = TypeVar("Put", bound=InVhost)
Change = TypeVar("Change", bound=InVhost)


class ObjectsOfVhosts(DeclaredObjects[Put, Change]):
    """The objects of one kind in all vhosts."""

    are_replaced = False

    def check(self, it: Put | Change) -> None:
        """Check that a declaration is valid. Raises ChannelFault and ConnectionFault."""
        if it.vhost not in self._tables.vhosts:
            raise not_allowed(f"vhost {it.vhost} not found")

    @abstractmethod
    def is_durable(self, it: Put | Change) -> bool:
        """Whether the declaration changes the objects that exist after a restart."""

    def is_reported(self, it: Put | Change, requester: Requester) -> bool:
        """Report declarations of operators, but neither imports nor declarations of clients."""
        return requester.way not in (AMQP, DEFINITIONS)

    def _vhost_of(self, it: Put | Change) -> VirtualHost | None:
        vhost = self._tables.vhosts.get(it.vhost)
        if vhost is None:
            logger.error("%r is skipped: vhost %r does not exist", it, it.vhost)
        return vhost
