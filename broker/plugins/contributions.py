"""Contributions of packages and plugins: objects, or places, which are imported when they are used.

Commands import this module, so it imports little.
"""

from importlib import import_module
from typing import Any, Final

GROUP: Final = "leveret.plugins"
"""The group of entry points of packages with plugins."""


def loaded(contribution: Any) -> Any:
    """The object of a contribution, which may be given as a text: `module:name`, or a module.

    Raises what its module raises.
    """
    if not isinstance(contribution, str):
        return contribution
    module, _, name = contribution.partition(":")
    imported = import_module(module)
    return getattr(imported, name) if name else imported
