"""Pages of plugins beside those of management: ES modules, which are served while the plugin runs.

A browser asks `/api/extensions` for them after the login, as RabbitMQ's pages do. Beside the module
of a page, the other files of its directory that a browser may need are served.
"""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from leveret.broker.plugins.contributions import loaded
from leveret.broker.plugins.known_plugins import PLUGINS
from leveret.broker.plugins.plugin import Plugin
from leveret.mgmt.running_node import RunningNode

_FILE: Final = re.compile(r"[\w-][\w.-]*\.(css|js|json|png|svg)")

logger = logging.getLogger("leveret.plugins")


def pages_of_plugins(node: RunningNode) -> list[dict[str, Any]]:
    """The pages of the plugins that run, as browsers get them. javascript: below `ui/`."""
    return [
        {"javascript": f"plugins/{plugin}/{file.name}", "plugin": plugin, "page": name}
        for plugin, name, file in _pages(node)
    ]


def file_of_plugin(node: RunningNode, plugin: str, name: str) -> Path | None:
    """A file for browsers from the directory of a page; None if there is none."""
    if _FILE.fullmatch(name) is None:
        return None
    for owner, _, page in _pages(node):
        file = page.with_name(name)
        if owner == plugin and file.is_file():
            return file
    return None


def _pages(node: RunningNode) -> Iterator[tuple[str, str, Path]]:
    """The pages of the plugins that run: the plugin, the page's name, and its module."""
    for name in () if node.facade is None else node.facade.plugins.running:
        plugin = PLUGINS.get(name)
        if isinstance(plugin, Plugin):
            for page, contribution in plugin.management_pages.items():
                file = _file(plugin, page, contribution)
                if file is not None:
                    yield name, page, file


def _file(plugin: Plugin, page: str, contribution: Any) -> Path | None:
    # The module of a package may raise anything.
    try:
        file = loaded(contribution)
        if not (isinstance(file, Path) and file.suffix == ".js" and file.is_file()):
            raise TypeError(f"{file!r} is not the path of a file NAME.js")
    except Exception as error:
        logger.error(
            "%r: its page %s cannot be loaded: %s: %s", plugin, page, type(error).__name__, error
        )
        return None
    return file
