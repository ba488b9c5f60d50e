"""Changes of the list of enabled plugins, as `leveret-plugins` makes them.

The list has the names that an operator has enabled. The plugins that these require are enabled with
them, and are not in the list.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from leveret.broker.plugins.known_plugins import requiring, with_required

Act = Literal["enable", "disable", "set"]


class ChangedList(NamedTuple):
    """A list before and after a change."""

    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def configured(self) -> list[str]:
        """The plugins that are enabled after the change, with those that they require."""
        return sorted(with_required(self.after))

    @property
    def enabled(self) -> list[str]:
        """The plugins that were not enabled before, with those that they require."""
        return sorted({*with_required(self.after)} - {*with_required(self.before)})

    @property
    def disabled(self) -> list[str]:
        """The plugins that are no longer enabled, with those that only they required."""
        return sorted({*with_required(self.before)} - {*with_required(self.after)})


def changed(before: Sequence[str], act: Act, names: Iterable[str]) -> ChangedList:
    """The list after an act. Plugins that require a disabled plugin are disabled, too."""
    names = list(names)
    match act:
        case "enable":
            after = (*before, *names)
        case "disable":
            gone: set[str] = set()
            for name in names:
                gone |= requiring(name, before)
            after = tuple(name for name in before if name not in gone)
        case "set":
            after = tuple(names)
    return ChangedList(tuple(before), tuple(dict.fromkeys(after)))
