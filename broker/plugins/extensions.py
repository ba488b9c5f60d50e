"""Extensions from other packages: objects of one kind by name, such as exchange types.

A package lists its extensions in its entry points, in the group of the kind
(docs/reference/plugins.md):

    [project.entry-points."leveret.exchange_types"]
    x-first-word = "my_package.first_word:FirstWord"

Such an extension is there as soon as its package is installed. A plugin that a node enables adds
its own with `contribute`, to all tables of the group, until it is stopped.

Finding entry points reads the metadata of all installed packages, which takes 5 to 30 ms. So it is
done only once, when all names are listed or a name is looked up that Leveret does not define.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Owned = tuple[str, Any]
"""What a plugin has contributed, with the plugin's name."""

_contributed: dict[str, dict[str, list[Owned]]] = defaultdict(dict)
"""By group and name. The list has one entry for each node of the process that has the plugin."""

logger = logging.getLogger("leveret.extensions")


def contribute(group: str, name: str, extension: Any, plugin: str) -> None:
    """Add an extension of a plugin to all tables of a group.

    Raises ValueError if another plugin has contributed the name; Leveret's own take precedence.
    """
    there = _contributed[group].setdefault(name, [])
    if there and there[0][0] != plugin:
        raise ValueError(f"'{name}' of {group} is already of plugin {there[0][0]}")
    there.append((plugin, extension))


def withdraw(group: str, name: str) -> None:
    """Remove what `contribute` has added."""
    there = _contributed[group][name]
    there.pop()
    if not there:
        del _contributed[group][name]


class Extensions(Mapping[str, T], Generic[T]):
    """The product's own objects of a kind, and those of installed packages.

    An extension that cannot be loaded is logged, and treated as not installed. A package cannot
    replace the product's own objects.
    """

    def __init__(self, group: str, own: Mapping[str, T]) -> None:
        self.group = group
        self.own = own

    def __getitem__(self, name: str) -> T:
        if name in self.own:
            return self.own[name]
        contributed = _contributed[self.group].get(name)
        if contributed:
            extension: T = contributed[0][1]
            return extension
        return self._installed[name]

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys((*self.own, *_contributed[self.group], *self._installed))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def load_installed(self) -> Mapping[str, T]:
        """The extensions of installed packages."""
        return self._installed

    @cached_property
    def _installed(self) -> dict[str, T]:
        installed: dict[str, T] = {}
        for entry in import_module("importlib.metadata").entry_points(group=self.group):
            if entry.name in self.own or entry.name in installed:
                logger.warning(
                    "%s is left out of %s: the name '%s' is taken",
                    entry.value, self.group, entry.name,
                )  # fmt: skip
                continue
            # The module of a package may raise anything.
            try:
                installed[entry.name] = entry.load()
            except Exception as error:
                logger.error(
                    "'%s' of %s cannot be loaded from %s: %s: %s",
                    entry.name, self.group, entry.value, type(error).__name__, error,
                )  # fmt: skip
        return installed
