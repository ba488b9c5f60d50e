"""The outputs of the log, as configured: console, file, syslog, and the exchange amq.rabbitmq.log.

All of the node's loggers are below `leveret`; aiohttp's server and asyncio have loggers of their
own, which get the same handlers.
"""

import io
import logging
import sys
from pathlib import Path

from leveret.broker.config import Config, SettingError
from leveret.broker.config.log_settings import OutputSettings
from leveret.broker.node.broker import Broker
from leveret.broker.runtime.private_files import make_directory
from leveret.mgmt.log.exchange import LogExchange
from leveret.mgmt.log.formatting import DEFAULT_FORMAT, formatter_of
from leveret.mgmt.log.levels import LEVELS
from leveret.mgmt.log.log_file import UNPRINTABLE, RotatedFile
from leveret.mgmt.log.recent_lines import RecentLines
from leveret.mgmt.log.syslog import Syslog

ROOT_LOGGER = "leveret"
OTHER_LOGGERS = ("aiohttp.server", "asyncio")
MESSAGE_ONLY = "$msg"
"""Syslog adds time, level and process itself."""


class LogOutputs:
    """The handlers of one process. Raises SettingError for an output that cannot be opened.

    recent: the last lines; None if there is a log file, which has them.
    """

    def __init__(self, config: Config) -> None:
        self._root = logging.getLogger(ROOT_LOGGER)
        self._exchange: LogExchange | None = None
        self._file: RotatedFile | None = None
        self.recent: RecentLines | None = None
        self._close_all()
        self._root.setLevel(LEVELS[config.log.default_level])
        self._root.propagate = False
        self._open_all(config)
        for name in OTHER_LOGGERS:
            other = logging.getLogger(name)
            other.handlers, other.propagate = self._root.handlers, False
        for category, level in (
            ("connection", config.log.connection_level),
            ("channel", config.log.channel_level),
            ("queue", config.log.queue_level),
        ):
            if level is not None:
                logging.getLogger(f"{ROOT_LOGGER}.{category}").setLevel(LEVELS[level])

    def _open_all(self, config: Config) -> None:
        log = config.log
        if log.console:
            stream = sys.stderr if log.console_stdio == "stderr" else sys.stdout
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors=UNPRINTABLE)
            self._add(logging.StreamHandler(stream), log.console_output)
        path = log.file_path(config.data_dir)
        if path is not None:
            self._file = _open_file(path, config)
            self._add(self._file, log.file_output)
        else:
            self.recent = RecentLines()
            self._add(self.recent, log.console_output)
        if log.syslog:
            self._add(Syslog(log.syslog_server), log.syslog_output, MESSAGE_ONLY)
        if log.exchange:
            self._exchange = LogExchange(log.exchange_output.formatter)
            self._add(self._exchange, log.exchange_output)

    def _add(
        self, handler: logging.Handler, output: OutputSettings, text_format: str = DEFAULT_FORMAT
    ) -> None:
        handler.setFormatter(formatter_of(output, text_format))
        if output.level is not None:
            handler.setLevel(LEVELS[output.level])
        self._root.addHandler(handler)

    def _close_all(self) -> None:
        """Close the handlers of an earlier node of this process."""
        for handler in tuple(self._root.handlers):
            self._root.removeHandler(handler)
            handler.close()

    def close(self) -> None:
        """Write waiting records, and close everything but the console."""
        for handler in tuple(self._root.handlers):
            if not isinstance(handler, logging.StreamHandler) or isinstance(handler, RotatedFile):
                self._root.removeHandler(handler)
                handler.close()

    def reopen(self) -> None:
        """Open the log file again, after it was moved."""
        if self._file is not None:
            self._file.reopenIfNeeded()

    async def attach(self, broker: Broker) -> None:
        """The broker has started: publish the log, if that is configured."""
        if self._exchange is not None:
            await self._exchange.attach(broker)


def _open_file(path: Path, config: Config) -> RotatedFile:
    try:
        make_directory(path.parent)
        return RotatedFile(path, config.log.rotation)
    except OSError as error:
        attribute = "log.file" if config.log.dir is None else "log.dir"
        reason = f"{path} cannot be written: {error.strerror or error}"
        raise SettingError(attribute, reason) from None


def set_level(word: str, category: str | None = None) -> None:
    """Set the level of the log, or of one category, until the node stops.

    word: one of `LEVELS`. A level for the whole log also replaces the outputs' own levels, as in
    RabbitMQ.
    """
    level = LEVELS[word]
    logger = logging.getLogger(f"{ROOT_LOGGER}.{category}" if category else ROOT_LOGGER)
    logger.setLevel(level)
    if category is None:
        for handler in logger.handlers:
            if handler.level != logging.NOTSET:
                handler.setLevel(level)


def locations(config: Config) -> list[str]:
    """Where the node logs to, as RabbitMQ lists it: paths, `<stdout>`, `syslog:HOST` and so on."""
    log = config.log
    path = log.file_path(config.data_dir)
    found = [] if path is None else [str(path)]
    if log.console:
        found.append(f"<{log.console_stdio}>")
    if log.exchange:
        found.append(f"exchange:amq.rabbitmq.log in vhost '{config.default_vhost}'")
    if log.syslog:
        found.append(f"syslog:{log.syslog_server.host}")
    return found
