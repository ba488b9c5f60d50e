"""The settings of the log: levels, outputs, and the form of a line.

The four outputs (console, file, exchange amq.rabbitmq.log, syslog) have the same settings of their
lines, `OutputSettings`. Names, defaults and meanings are RabbitMQ's (`rabbit.schema`), but for two
defaults: the node logs to the console and to no file.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from leveret.broker.config.declaration import section, setting
from leveret.broker.config.tls_settings import ClientTlsOptions
from leveret.broker.config.value_kinds import (
    BOOLEAN,
    HOST,
    NAME,
    PATH,
    PORT,
    TEXT,
    Kind,
    one_of,
    size,
    unless,
    whole_number,
)

LEVEL_WORDS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LEVEL = one_of(*LEVEL_WORDS, "none")
LEVEL_OR_DEFAULT: Kind[str | None] = LEVEL
PLAIN_TEXT, JSON = "plaintext", "json"
TIME_FORMATS = ("rfc3339_space", "rfc3339_T", "epoch_usecs", "epoch_secs", "lager_default")
LEVEL_FORMATS = ("lc", "uc", "lc3", "uc3", "lc4", "uc4")
UDP, TCP, TLS_TRANSPORTS = "udp", "tcp", ("tls", "ssl")
RFC3164, RFC5424 = "rfc3164", "rfc5424"
SYSLOG_PORT = 514
FACILITIES = {
    "kern": 0, "kernel": 0, "user": 1, "mail": 2, "daemon": 3, "auth": 4, "syslog": 5, "lpr": 6,
    "news": 7, "uucp": 8, "cron": 9, "authpriv": 10, "ftp": 11, "ntp": 12, "audit": 13, "alert": 14,
    "clock": 15, **{f"local{number}": 16 + number for number in range(8)},
}  # fmt: skip
"""The facilities of syslog, with their codes (RFC 5424, 6.2.1)."""
LOG_DIRECTORY = "logs"
"""The directory's name in the data directory, where `log` belongs to the store."""
ROTATION_DATE = re.compile(
    r"\$?(?:H(?P<minute>[0-5]?\d)"
    r"|D(?P<day_hour>[01]?\d|2[0-3])"
    r"|W(?P<week_day>[0-6])(?:D(?P<week_hour>[01]?\d|2[0-3]))?"
    r"|M(?P<month_day>0?[1-9]|[12]\d|3[01]|[lL])(?:D(?P<month_hour>[01]?\d|2[0-3]))?)"
)
"""$H30: every hour at half past; $D23: every day at 23:00; $W0D2: on Sundays at 2:00; $M1D0: on the
first of each month at midnight; $ML: on its last day."""


def _read_rotation_date(text: str) -> str:
    if text and not ROTATION_DATE.fullmatch(text):
        raise ValueError
    return text


ROTATION_DATE_KIND = Kind(
    "a time such as $D0 (every day at midnight), $D23, $W0D23 (on Sundays), $M1D0 (on the first of "
    "each month) or $H30 (every hour at half past)",
    _read_rotation_date,
)


@dataclass(frozen=True)
class OutputSettings:
    """The levels of one output, and the form of its lines."""

    level: str | None = setting(
        "level",
        LEVEL_OR_DEFAULT,
        None,
        "The lowest level that is written there.",
        default_text="log.default.level",
    )
    formatter: str = setting(
        "formatter", one_of(PLAIN_TEXT, JSON), PLAIN_TEXT, "Whether lines are text or JSON."
    )
    time_format: str = setting(
        "formatter.time_format", one_of(*TIME_FORMATS), TIME_FORMATS[0], "How times are written."
    )
    level_format: str = setting(
        "formatter.level_format",
        one_of(*LEVEL_FORMATS),
        LEVEL_FORMATS[0],
        "How levels are written: in lower or upper case, in full or with three or four letters.",
    )
    single_line: bool = setting(
        "formatter.single_line", BOOLEAN, False, "Write a message of several lines as one line."
    )
    plaintext_format: str | None = setting(
        "formatter.plaintext.format",
        TEXT,
        None,
        "The form of a line of text, with the variables $time, $level, $pid, $domain, $file, $line "
        "and $msg.",
        default_text="$time [$level] $pid $msg; for syslog $msg",
    )
    json_field_map: str = setting(
        "formatter.json.field_map",
        TEXT,
        "time level msg gl:- logger_formatter:- report_cb:- error_logger:-",
        "The order and names of JSON fields: time:ts renames a field, time:- leaves it out, *:- "
        "leaves out all others.",
    )
    json_verbosity_map: str = setting(
        "formatter.json.verbosity_map",
        TEXT,
        "",
        "Numbers for levels, such as debug:7 info:6, in the JSON field verbosity.",
        default_text="none",
    )


@dataclass(frozen=True)
class RotationSettings:
    """When the log file is renamed and a new one started; by default never."""

    date: str = setting(
        "date",
        ROTATION_DATE_KIND,
        "",
        "When a new file is started: every day ($D0: at midnight), week ($W0D0: on Sundays), month "
        "($M1D0) or hour ($H0), in local time.",
        default_text="not set",
    )
    size_bytes: int | None = setting(
        "size", size(), None, "The size above which a new file is started."
    )
    count: int = setting(
        "count", whole_number("files"), 0, "How many older files are kept: NAME.0 is the newest."
    )
    compress: bool = setting("compress", BOOLEAN, False, "Compress older files (gzip).")


@dataclass(frozen=True)
class SyslogSettings:
    """Where syslog is, and the form of its messages."""

    host: str = setting(
        "ip host", HOST, "127.0.0.1", "The address or the name of the host of syslog."
    )
    port: int = setting("port", PORT, SYSLOG_PORT, "The port of syslog.")
    transport: str = setting(
        "transport", one_of(UDP, TCP, *TLS_TRANSPORTS), UDP, "How messages are sent."
    )
    protocol: str | None = setting(
        "protocol",
        unless(one_of(RFC3164, RFC5424)),
        None,
        "The form of messages.",
        default_text="rfc3164; with TLS rfc5424",
    )
    identity: str = setting("identity", NAME, "leveret", "The name of the program in messages.")
    facility: str = setting("facility", one_of(*FACILITIES), "daemon", "The facility of messages.")
    multiline_mode: bool = setting(
        "multiline_mode",
        BOOLEAN,
        False,
        "Send several lines in one message, not one message for each line.",
    )
    tls: ClientTlsOptions = section(ClientTlsOptions, "ssl_options")


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
    console_stdio: str = setting(
        "log.console.stdio", one_of("stdout", "stderr"), "stdout", "The output that is written to."
    )
    console_output: OutputSettings = section(OutputSettings, "log.console")
    file: str | None = setting(
        "log.file",
        unless(NAME, "false"),
        None,
        "Log to this file, in log.dir unless it is a full path.",
        default_text="false",
    )
    dir: Path | None = setting(
        "log.dir",
        PATH,
        None,
        "The directory for log files.",
        default_text="logs in the data directory",
    )
    file_output: OutputSettings = section(OutputSettings, "log.file", described_as="log.console")
    rotation: RotationSettings = section(RotationSettings, "log.file.rotation")
    exchange: bool = setting(
        "log.exchange",
        BOOLEAN,
        False,
        "Publish the log to the topic exchange amq.rabbitmq.log of the default virtual host.",
    )
    exchange_output: OutputSettings = section(
        OutputSettings, "log.exchange", described_as="log.console"
    )
    syslog: bool = setting("log.syslog", BOOLEAN, False, "Log to syslog.")
    syslog_server: SyslogSettings = section(SyslogSettings, "log.syslog")
    syslog_output: OutputSettings = section(
        OutputSettings, "log.syslog", described_as="log.console"
    )

    def directory(self, data_dir: Path | None) -> Path:
        """The directory for log files, as a full path."""
        return (self.dir or (data_dir or Path()) / LOG_DIRECTORY).absolute()

    def file_path(self, data_dir: Path | None) -> Path | None:
        """The full path of the log file; None if there is none."""
        return None if self.file is None else self.directory(data_dir) / self.file
