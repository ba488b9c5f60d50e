"""Extensions from other packages: objects of one kind by name, such as exchange types.

A package lists its extensions in its entry points, in the group of the kind
(docs/reference/plugins.md):

    [project.entry-points."leveret.exchange_types"]
    x-first-word = "my_package.first_word:FirstWord"

Such an extension is available as soon as its package is installed. A plugin that a node enables
adds its own with `contribute`, to all tables of the group, until it is stopped.

Finding entry points reads the metadata of all installed packages, which takes 5 to 30 ms. So it is
done only once, when all names are listed or a name is looked up that Leveret does not define.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from importlib import import_module
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from leveret.broker.plugins.contributions import GROUP, loaded

T = TypeVar("T")

Owned = tuple[str, Any]
"""A contribution of a plugin, with the plugin's name."""

_contributed: dict[str, dict[str, list[Owned]]] = defaultdict(dict)
"""By group and name. The list has one entry for each node of the process that has the plugin."""
_own: dict[str, set[str]] = defaultdict(set)
"""The names of Leveret's own extensions, by group."""

logger = logging.getLogger("leveret.extensions")


def contribute(group: str, name: str, extension: Any, plugin: str) -> None:
    """Add an extension of a plugin to all tables of a group.

    Raises ValueError if Leveret or another plugin has the name.
    """
    if name in _own[group]:
        raise ValueError(f"'{name}' of {group} is defined by Leveret")
    there = _contributed[group].setdefault(name, [])
    if there and there[0][0] != plugin:
        raise ValueError(f"'{name}' of {group} is already contributed by plugin {there[0][0]}")
    there.append((plugin, extension))


def withdraw(group: str, name: str) -> None:
    """Remove what `contribute` has added."""
    there = _contributed[group][name]
    there.pop()
    if not there:
        del _contributed[group][name]


NAMED_ELSEWHERE = {
    f"leveret.{field}": field
    for field in ("auth_backends", "commands", "peer_discovery", "settings")
}
"""The groups whose names are in settings or on command lines, with the fields of plugins that add
to them even where the plugin is not enabled.
"""


class Extensions(Mapping[str, T], Generic[T]):
    """Leveret's own objects of a kind, and those of installed packages.

    own: objects that every node uses. places: the places of the objects that Leveret's plugins
    contribute (own_plugins.py); they are imported when they are looked up.

    An extension that cannot be loaded is logged, and treated as not installed. A package cannot
    replace an object of Leveret.
    """

    def __init__(
        self, group: str, own: Mapping[str, T], places: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.group = group
        self.own = own
        self.places = places
        self._loaded: dict[str, T] = {}
        _own[group].update(own, places)

    def __getitem__(self, name: str) -> T:
        if name in self.own:
            return self.own[name]
        if name in self._loaded:
            return self._loaded[name]
        if name in self.places:
            return self._loaded.setdefault(name, loaded(self.places[name]))
        contributed = _contributed[self.group].get(name)
        if contributed:
            extension: T = contributed[0][1]
            return extension
        return self._installed[name]

    def __iter__(self) -> Iterator[str]:
        contributed = _contributed[self.group]
        yield from dict.fromkeys((*self.own_names, *contributed, *self._installed))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names of Leveret's own objects."""
        return (*self.own, *self.places)

    def load_installed(self) -> Mapping[str, T]:
        """The extensions of installed packages."""
        return self._installed

    @cached_property
    def _installed(self) -> dict[str, T]:
        installed: dict[str, T] = {}
        for name, value, load in _found(self.group):
            if name in self.own_names or name in installed:
                logger.warning("ignoring %s of %s: the name '%s' is taken", value, self.group, name)
                continue
            # The module of a package may raise anything.
            try:
                installed[name] = load()
            except Exception as error:
                logger.error(
                    "'%s' of %s cannot be loaded from %s: %s: %s",
                    name, self.group, value, type(error).__name__, error,
                )  # fmt: skip
        return installed


def _found(group: str) -> Iterator[tuple[str, object, Callable[[], Any]]]:
    """The extensions of installed packages: name, place, and a function that loads each."""
    entry_points = import_module("importlib.metadata").entry_points
    for entry in entry_points(group=group):
        yield entry.name, entry.value, entry.load
    if group in NAMED_ELSEWHERE:
        for entry in entry_points(group=GROUP):
            try:
                contributions = getattr(entry.load(), NAMED_ELSEWHERE[group])
            except Exception as error:
                logger.error(
                    "plugin %s cannot be loaded from %s: %s: %s",
                    entry.name, entry.value, type(error).__name__, error,
                )  # fmt: skip
                continue
            for name, contribution in contributions.items():
                yield name, f"plugin {entry.name}", partial(loaded, contribution)
