"""A setting that turns out to be wrong during the start: a file is missing, a port is taken.

The part that finds the problem names the setting by its attribute (`tls.options.keyfile`), and does
not know where it was set. `explain` adds that place: the file and line, the variable or the option;
or, for a default, how to set it.
"""

import os

from leveret.broker.config.declaration import Setting
from leveret.broker.config.known_settings import OWN, with_packages
from leveret.broker.config.settings import PORT_OF_ALL, Config
from leveret.storage.disk.disk import NO_SPACE

_INSTEAD = {"tcp.listeners": PORT_OF_ALL}
"""Settings for which the command line has a simpler one."""


class SettingError(Exception):
    """A setting cannot be applied. attribute: the dotted path of its value below `Config`.

    It may also be `advanced`, for settings of advanced.config.
    """

    def __init__(self, attribute: str, reason: str) -> None:
        self.attribute = attribute
        super().__init__(reason)


def explain(config: Config, error: SettingError) -> str:
    """The place of the setting, and the problem."""
    origin = config.origins.get(error.attribute)
    if origin is not None:
        return f"{origin}: {error}"
    own = OWN.by_attribute.get(error.attribute)
    setting = with_packages().by_attribute[error.attribute] if own is None else own
    key = setting.keys[0] if setting.keys else setting.flag
    return f"{key.removesuffix('.$name')}: {error}; {_ways_to_set(setting)}"


def explain_key(config: Config, text: str) -> str:
    """A text that begins with a key and a colon, with the place where the file has that key."""
    key, colon, reason = text.partition(": ")
    return f"{config.origins.get(key, key)}{colon}{reason}"


def described(error: OSError) -> str:
    """An error of the system in words: its file, if it has one, and the reason."""
    if error.filename is None or error.strerror is None:
        return str(error)
    advice = "; make room on its disk" if error.errno in NO_SPACE else ""
    return f"{os.fsdecode(error.filename)} cannot be used: {error.strerror}{advice}"


def _ways_to_set(setting: Setting) -> str:
    simple = _INSTEAD.get(setting.attribute, setting)
    option = f" or --{simple.flag.replace('_', '-')}" if simple.flag else ""
    return f"set it in the configuration file, or with {simple.variable}{option}"
