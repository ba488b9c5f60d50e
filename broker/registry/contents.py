"""Everything that is declared, as declarations, and how to get from one content to another.

A node that joins a cluster, or comes back to one after it was away for long, gets the content of
another node's registry. It applies the difference to its own (`changes`): what is the same stays as
it is, so a queue that lives on the node keeps its messages.

A declaration has a place (`place`): the object that it declares. One that is put in the same place
replaces it, if such an object can be replaced or can become the other one
(`DeclaredObjects.becoming`); exchanges, queues and bindings are deleted first.
"""

from collections.abc import Iterable, Iterator

from leveret.broker.declarations import Declaration
from leveret.broker.registry.declared_objects import Place
from leveret.broker.registry.objects import KINDS
from leveret.broker.registry.registry import Registry


def contents(registry: Registry) -> Iterator[Declaration]:
    """All that is declared, in an order in which it applies.

    Declarations do not keep who made them: all are the node's own.
    """
    for objects in registry.objects:
        yield from objects.contents()


def changes(mine: Iterable[Declaration], theirs: Iterable[Declaration]) -> list[Declaration]:
    """What has to be applied to a registry with `mine` so that it has `theirs`.

    What is gone is deleted first; what the deletion takes with it is declared again if it is in
    `theirs`.
    """
    before = {place(one): one for one in mine}
    after = {place(one): one for one in theirs}
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
    # In `contents` what needs something comes after it, so it is deleted before it.
    deletions = [KINDS[type(one)].deletion(one) for one in reversed(gone.values())]
    put = []
    for key, one in after.items():
        needs = KINDS[type(one)].needs(one)
        if key not in before or key in gone or not gone.keys().isdisjoint(needs):
            put.append(one)
        elif (change := becoming.get(key)) is not None:
            put.append(change)
    return [*deletions, *put]


def lost(mine: Iterable[Declaration], theirs: Iterable[Declaration]) -> list[Declaration]:
    """What of `mine` is not in `theirs`, or is declared otherwise there."""
    after = {place(one): one for one in theirs}
    return [one for one in mine if after.get(place(one)) != one]


def place(it: Declaration) -> Place:
    """What a declaration declares; see `DeclaredObjects.place`."""
    return KINDS[type(it)].place(it)
