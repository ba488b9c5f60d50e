"""The settings that a node knows, by each of their names: Leveret's own, and those of packages.

An installed package has its settings in a section of its own: a dataclass of settings
(declaration.py), which its entry point in the group `leveret.settings` names. `Config.extension`
gives the package its section. Packages are searched only if a file or the environment names a
setting that is not Leveret's own.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from typing import Any, Final

from leveret.broker.config.declaration import Setting, Shape, family_of, settings_of
from leveret.broker.config.key_patterns import KeyPatterns
from leveret.broker.config.rabbitmq_keys import RABBITMQ_KEYS
from leveret.broker.config.settings import SETTINGS
from leveret.broker.plugins.extensions import Extensions

SECTIONS: Final[Extensions[type[Any]]] = Extensions("leveret.settings", {})
"""The sections of installed packages."""

logger = logging.getLogger("leveret.extensions")


class KnownSettings:
    """Settings by key, family, variable, flag and attribute.

    keys: patterns of all known keys, including RabbitMQ's keys without effect. sections: of
    packages, by name.
    """

    def __init__(self, settings: Iterable[Setting], sections: dict[str, type[Any]]) -> None:
        self.sections = sections
        self.by_key: dict[str, Setting] = {}
        self.by_family: dict[str, Setting] = {}
        self.by_variable: dict[str, Setting] = {}
        self.by_flag: dict[str, Setting] = {}
        self.by_attribute: dict[str, Setting] = {}
        for setting in settings:
            self._add(setting)
        self.keys = KeyPatterns((*self.by_key, *self.by_family, *RABBITMQ_KEYS))

    def _add(self, setting: Setting) -> None:
        self.by_attribute[setting.attribute] = setting
        self.by_variable[setting.variable] = setting
        if setting.flag:
            self.by_flag[setting.flag] = setting
        for key in setting.keys:
            self.by_key[key] = setting
            if setting.shape is not Shape.SINGLE and key.rpartition(".")[2].startswith("$"):
                self.by_family[family_of(key)] = setting

    def find(self, words: tuple[str, ...]) -> Setting | None:
        """The setting of a key; None if it is not known, or has no effect."""
        pattern = self.keys.find(words) or ""
        return self.by_family.get(pattern) or self.by_key.get(pattern)


OWN: Final = KnownSettings(SETTINGS, {})


def with_packages() -> KnownSettings:
    """Leveret's own settings, and those of installed packages.

    A section that has a key or a variable of another setting is logged and left out.
    """
    settings, sections = list(SETTINGS), {}
    for name, section in SECTIONS.items():
        if (reason := _conflict(section, settings)) is not None:
            logger.error("'%s' of %s is left out: %s", name, SECTIONS.group, reason)
            continue
        sections[name] = section
        settings += settings_of_package(name, section)
    return KnownSettings(settings, sections) if sections else OWN


def settings_of_package(name: str, section: type[Any]) -> Iterator[Setting]:
    """The settings of a package's section. Their attributes begin with the section's name."""
    return settings_of(section, path_of(name))


def path_of(name: str) -> str:
    """The beginning of the attributes of a package's settings, with a dot at its end."""
    return f"extensions.{name}."


def _conflict(section: type[Any], settings: Iterable[Setting]) -> str | None:
    if not is_dataclass(section):
        return "it is not a dataclass of settings"
    taken = {name for setting in settings for name in (*setting.keys, setting.variable)}
    for setting in settings_of(section):
        for name in (*setting.keys, setting.variable):
            if name in taken:
                return f"there is another setting '{name}'"
    return None
