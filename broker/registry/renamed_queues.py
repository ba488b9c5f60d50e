"""Queues that have one name on a node and another name on others, when it takes their content over.

A queue gets another name when its conversion ends (`ReplaceQueue`). What the node has of its
messages must stay: it would vote twice as a member of the queue's group if it began again.
"""

from typing import Any

from msgspec.structs import replace

from leveret.broker.declarations.decided_replacements import DECIDED_REPLACEMENT, decided
from leveret.broker.declarations.values import PutParameter, PutQueue, ReplaceQueue
from leveret.broker.registry.declared_objects import Place
from leveret.broker.runtime.names import QUEUE, SUCCESSOR_PREFIX

Content = dict[Place, Any]


def replacements(mine: Content, theirs: Content) -> list[ReplaceQueue]:
    """Replacements that the node has missed. They are made in `mine`."""
    named = _by_identity(theirs)
    missed = []
    for place, it in _successors(mine):
        other = named.get((it.vhost, it.identity))
        before = None if other is None else mine.get((QUEUE, it.vhost, other.name))
        if other is None or before is None or place in theirs:
            continue
        missed.append(
            ReplaceQueue(
                it.vhost, other.name, before.identity, it.name, it.identity, other.arguments,
                it.node, it.record,
            )
        )  # fmt: skip
        del mine[place]
        mine[QUEUE, it.vhost, other.name] = replace(it, name=other.name, arguments=other.arguments)
    return missed


def keep_replaced(mine: Content, theirs: Content) -> None:
    """Make decided replacements in `theirs` that this node has made before the others.

    The others carry them out, too; for this node nothing changes then.
    """
    named = _by_identity(mine)
    values = [
        it.value
        for it in theirs.values()
        if isinstance(it, PutParameter) and it.component == DECIDED_REPLACEMENT
    ]
    for it in decided(values):
        own = named.get((it.vhost, it.successor_identity))
        successor = theirs.get((QUEUE, it.vhost, it.successor))
        queue = theirs.get((QUEUE, it.vhost, it.name))
        if own is None or successor is None or queue is None or own.name != it.name:
            continue
        if (queue.identity, successor.identity) == (it.identity, it.successor_identity):
            del theirs[QUEUE, it.vhost, it.successor]
            theirs[QUEUE, it.vhost, it.name] = replace(
                successor, name=it.name, arguments=own.arguments
            )


def _successors(content: Content) -> list[tuple[Place, PutQueue]]:
    return [
        (place, it)
        for place, it in content.items()
        if isinstance(it, PutQueue) and it.name.startswith(SUCCESSOR_PREFIX)
    ]


def _by_identity(content: Content) -> dict[tuple[str, int], PutQueue]:
    return {
        (it.vhost, it.identity): it
        for it in content.values()
        if isinstance(it, PutQueue) and it.identity
    }
