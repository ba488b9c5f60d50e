"""Exchanges, queues and bindings: the declared objects that live in the vhosts of a node.

Clients declare any number of them, all the time. So they are not replaced, they are written only if
they are durable, and the audit is told of few of them.

A queue or an exchange may have very many bindings, so it is deleted in steps (broker/long_work.py).
In the first one it leaves the tables of its vhost: it cannot be declared, bound or consumed from
any more, and routes pass it over (`is_deleted`). Its bindings are detached in the next ones, each
with its event, and its own event comes last. Nothing else is declared meanwhile
(declaration_log.py), so a new queue of the same name finds none of the old bindings.
"""

import logging
from abc import abstractmethod
from typing import TypeVar

from leveret.broker.amqp.errors import not_allowed
from leveret.broker.declarations import (
    ChangeQueueMirrors,
    DeleteBinding,
    DeleteExchange,
    DeleteQueue,
    PutBinding,
    PutExchange,
    PutQueue,
    PutQueueHome,
    PutQueueMirrors,
)
from leveret.broker.registry.declared_objects import DeclaredObjects
from leveret.broker.requester import AMQP, DEFINITIONS, Requester
from leveret.broker.vhost import VirtualHost

logger = logging.getLogger("leveret.registry")

PutInVhost = TypeVar("PutInVhost", bound=PutExchange | PutQueue | PutBinding)
ChangeInVhost = TypeVar(
    "ChangeInVhost",
    bound=DeleteExchange
    | DeleteQueue
    | PutQueueHome
    | ChangeQueueMirrors
    | PutQueueMirrors
    | DeleteBinding,
)


class ObjectsOfVhosts(DeclaredObjects[PutInVhost, ChangeInVhost]):
    """The objects of one kind in all vhosts."""

    are_replaced = False

    def check(self, it: PutInVhost | ChangeInVhost) -> None:
        """Check that a declaration is valid. Raises ChannelFault and ConnectionFault."""
        if it.vhost not in self._tables.vhosts:
            raise not_allowed(f"vhost {it.vhost} not found")

    @abstractmethod
    def is_durable(self, it: PutInVhost | ChangeInVhost) -> bool:
        """Whether the declaration changes what exists after a restart."""

    def is_told(self, it: PutInVhost | ChangeInVhost, requester: Requester) -> bool:
        """Whether the audit is told: of what operators declare, but not of what they import."""
        return requester.way not in (AMQP, DEFINITIONS)

    def _vhost_of(self, it: PutInVhost | ChangeInVhost) -> VirtualHost | None:
        vhost = self._tables.vhosts.get(it.vhost)
        if vhost is None:
            logger.error("%r is skipped: vhost %r does not exist", it, it.vhost)
        return vhost
