"""The content of a registry as declarations, and the changes from one content to another.

A node that joins a cluster, or returns to one after a long time, gets the content of another node's
registry, and applies the difference to its own (`changes`): equal declarations stay as they are, so
a queue that lives on the node keeps its messages.

A declaration has a place (`place`), which identifies the object that it declares. An object whose
place has another declaration there is replaced or changed if its kind allows it
(`DeclaredObjects.becoming`); otherwise it is deleted and declared again. A queue that has another
name in one of the contents keeps its messages (renamed_queues.py).
"""

from collections.abc import Iterable, Iterator

from leveret.broker.declarations.values import Declaration
from leveret.broker.registry.declared_objects import Place
from leveret.broker.registry.objects import KINDS
from leveret.broker.registry.registry import Registry
from leveret.broker.registry.renamed_queues import keep_replaced, replacements


def contents(registry: Registry) -> Iterator[Declaration]:
    """All declared objects as declarations, in an order in which they apply.

    Who declared an object is not kept: the node itself counts as the declarer of all.
    """
    for objects in registry.objects:
        yield from objects.contents()


def changes(mine: Iterable[Declaration], theirs: Iterable[Declaration]) -> list[Declaration]:
    """The declarations that make a registry with `mine` have `theirs`.

    The deletions come first, after queues that get the names of others. Objects deleted as a
    consequence are declared again if `theirs` has them.
    """
    before = {place(one): one for one in mine}
    after = {place(one): one for one in theirs}
    replaced = replacements(before, after)
    keep_replaced(before, after)
    becoming = {
        key: KINDS[type(one)].becoming(one, after[key])
        for key, one in before.items()
        if key in after and one != after[key]
    }
    gone = {
        key: one
        for key, one in before.items()
        if key not in after or (key in becoming and becoming[key] is None)
    }
    # In `contents` an object comes after those that it needs, so it is deleted before them.
    deletions = [KINDS[type(one)].deletion(one) for one in reversed(gone.values())]
    put = []
    for key, one in after.items():
        needs = KINDS[type(one)].needs(one)
        if key not in before or key in gone or not gone.keys().isdisjoint(needs):
            put.append(one)
        elif (change := becoming.get(key)) is not None:
            put.append(change)
    return [*replaced, *deletions, *put]


def lost(mine: Iterable[Declaration], theirs: Iterable[Declaration]) -> list[Declaration]:
    """The declarations of `mine` that are missing in `theirs`, or differ there."""
    after = {place(one): one for one in theirs}
    return [one for one in mine if after.get(place(one)) != one]


def place(it: Declaration) -> Place:
    """Identify the object that a declaration declares (`DeclaredObjects.place`)."""
    return KINDS[type(it)].place(it)
