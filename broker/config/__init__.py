"""The configuration of a broker: `Config`, and how one is loaded.

`settings` declares each setting once; a file (`files`, `parser`), the environment and the command
line become a `Config` in `loader`; `description` writes the page of documentation. A program that
embeds a broker makes a `Config` itself and needs none of that.
"""

from broker.config.declaration import Setting
from broker.config.description import describe_settings
from broker.config.loader import ConfigError, load_config
from broker.config.settings import SETTINGS, Config, IgnoredSetting
from broker.config.values import Listener

__all__ = [
    "SETTINGS",
    "Config",
    "ConfigError",
    "IgnoredSetting",
    "Listener",
    "Setting",
    "describe_settings",
    "load_config",
]
