"""The settings of the log: levels, the console and the file."""

from dataclasses import dataclass
from pathlib import Path

from leveret.broker.config.declaration import setting
from leveret.broker.config.value_kinds import BOOLEAN, NAME, PATH, Kind, one_of, unless

LEVEL_WORDS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LEVEL = one_of(*LEVEL_WORDS, "none")
LEVEL_OR_DEFAULT: Kind[str | None] = LEVEL


@dataclass(frozen=True)
class LogSettings:
    """`config.log`."""

    default_level: str = setting(
        "log.default.level",
        LEVEL,
        "info",
        "The log level of everything that has no level of its own.",
    )
    connection_level: str | None = setting(
        "log.connection.level",
        LEVEL_OR_DEFAULT,
        None,
        "The log level of connections.",
        default_text="log.default.level",
    )
    channel_level: str | None = setting(
        "log.channel.level",
        LEVEL_OR_DEFAULT,
        None,
        "The log level of channels.",
        default_text="log.default.level",
    )
    queue_level: str | None = setting(
        "log.queue.level",
        LEVEL_OR_DEFAULT,
        None,
        "The log level of queues.",
        default_text="log.default.level",
    )
    console: bool = setting("log.console", BOOLEAN, True, "Log to the standard output.")
    console_level: str | None = setting(
        "log.console.level",
        LEVEL_OR_DEFAULT,
        None,
        "The lowest level that is written there.",
        default_text="log.default.level",
    )
    file: str | None = setting(
        "log.file",
        unless(NAME, "false"),
        None,
        "Log to this file, in log.dir unless it is a full path.",
        default_text="false",
    )
    file_level: str | None = setting(
        "log.file.level",
        LEVEL_OR_DEFAULT,
        None,
        "The lowest level that is written there.",
        default_text="log.default.level",
    )
    dir: Path | None = setting(
        "log.dir",
        PATH,
        None,
        "The directory for log files.",
        default_text="log in the data directory",
    )
