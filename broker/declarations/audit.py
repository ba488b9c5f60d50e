"""Audit: acts, their requesters and where the requests came from, and the listeners that are told.

An act is one change of the node that a person would want to trace: a user was created, a policy
set, a queue purged. Each is one line of the log at the level info, and management keeps it in the
audit log (mgmt/events/audit.py). The words are RabbitMQ's where it logs the change itself; the
requester is added behind them.

The declaration log, which all declarations pass, tells of them (registry/declaration_log.py); each
kind of objects knows the sentences for its declarations (registry/objects/). Acts that are not
declarations, such as a purge, call `note`.
"""

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from leveret.broker.declarations.requester import Requester

logger = logging.getLogger("leveret.audit")


class AuditedChange(msgspec.Struct, frozen=True):
    """One change.

    action: the change of the object, in RabbitMQ's names of events where it has one, such as
    `user.created`. kind: the object's. text: the sentence of the log. detail: further facts, which
    are never secrets.
    """

    action: str
    kind: str
    name: str
    text: str
    vhost: str = ""
    detail: dict[str, Any] = {}


Listener = Callable[[Requester, AuditedChange], object]


def log_act(requester: Requester, act: AuditedChange) -> None:
    """Write the act to the log."""
    logger.info("%s (requested by %s)", act.text, requester)


class Audit:
    """Tells listeners of the acts on one broker."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call the listener with every act from now on. It must return at once and not raise."""
        self._listeners.append(listener)

    def note(self, requester: Requester, act: AuditedChange) -> None:
        """An act has taken place: log it, and tell the listeners."""
        log_act(requester, act)
        for listener in self._listeners:
            listener(requester, act)
