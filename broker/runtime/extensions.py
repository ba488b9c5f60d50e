"""Extensions from other packages: objects of one kind by name, such as exchange types.

A package lists its extensions in its entry points, in the group of the kind
(docs/reference/extensions.md):

    [project.entry-points."leveret.exchange_types"]
    x-first-word = "my_package.first_word:FirstWord"

Finding entry points reads the metadata of all installed packages, which takes 5 to 30 ms. So it is
done only once, when all names are listed or a name is looked up that Leveret does not define.
"""

import logging
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import Generic, TypeVar

T = TypeVar("T")

logger = logging.getLogger("leveret.extensions")


class Extensions(Mapping[str, T], Generic[T]):
    """The product's own objects of a kind, and those of installed packages.

    An extension that cannot be loaded is logged, and treated as not installed. A package cannot
    replace the product's own objects.
    """

    def __init__(self, group: str, own: Mapping[str, T]) -> None:
        self.group = group
        self.own = own

    def __getitem__(self, name: str) -> T:
        return self.own[name] if name in self.own else self._installed[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from self._installed

    def __len__(self) -> int:
        return len(self.own) + len(self._installed)

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
