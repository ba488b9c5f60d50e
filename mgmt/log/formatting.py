"""The forms of a log line: text and JSON, as RabbitMQ's formatters write them.

Sources: `rabbit_logger_text_fmt`, `rabbit_logger_json_fmt`, `rabbit_logger_fmt_helpers`. In text,
control characters are escaped, so that the name of a client or an object can neither forge a line
nor control a terminal; only a traceback has several lines, and each begins like the first.

A line of RabbitMQ names the Erlang process that wrote it. The node is one process: `$pid` is the
number that the operating system gave it, in the same form.
"""

import json
import logging
import os
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from aiohttp.http_exceptions import HttpProcessingError

from leveret.broker.config.log_settings import JSON, OutputSettings
from leveret.mgmt.log.levels import formatted, name_of

DEFAULT_FORMAT = "$time [$level] $pid $msg"
VARIABLE = re.compile(r"\$(\w+)")
LINE_BREAK = re.compile(r",?\r?\n\s*")
ROOT, DOMAIN = "leveret", "rabbitmq"
REMOVED, OTHERS = "-", "*"
CONTROL_CHARACTERS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


class LogFormatter(logging.Formatter):
    """The base of both forms."""

    def __init__(self, settings: OutputSettings) -> None:
        super().__init__()
        self._settings = settings

    def formatException(self, ei: Any) -> str:
        """Leave out the text of an invalid HTTP request, because it may contain a login."""
        if isinstance(ei[1], HttpProcessingError):
            return f"{type(ei[1]).__name__}: the request cannot be read"
        return super().formatException(ei)

    def lines(self, record: logging.LogRecord) -> list[str]:
        """The lines of a record without their prefix: the message, then its traceback."""
        found = [record.getMessage().translate(CONTROL_CHARACTERS)]
        for text in self._tracebacks(record):
            found += [line.translate(CONTROL_CHARACTERS) for line in text.splitlines()]
        return found

    def message(self, record: logging.LogRecord) -> str:
        """The message and its traceback, unescaped."""
        text = "\n".join((record.getMessage(), *self._tracebacks(record)))
        return LINE_BREAK.sub(", ", text.strip()) if self._settings.single_line else text

    def _tracebacks(self, record: logging.LogRecord) -> list[str]:
        traceback = [] if record.exc_info is None else [self.formatException(record.exc_info)]
        return traceback if record.stack_info is None else [*traceback, record.stack_info]

    def facts(self, record: logging.LogRecord) -> dict[str, Any]:
        """The fields of a record besides its message, by RabbitMQ's names."""
        settings, level = self._settings, name_of(record.levelno)
        return {
            "time": time_of(record, settings.time_format, settings.formatter == JSON),
            "level": formatted(level, settings.level_format),
            "domain": domain_of(record.name),
            "file": record.filename,
            "line": record.lineno,
            "mfa": [record.module, record.funcName],
            "pid": process_of(record),
        }


class TextFormatter(LogFormatter):
    """Lines of text. default_format: where `plaintext.format` is not set."""

    def __init__(self, settings: OutputSettings, default_format: str = DEFAULT_FORMAT) -> None:
        super().__init__(settings)
        form = settings.plaintext_format
        self._form = default_format if form is None else form

    def format(self, record: logging.LogRecord) -> str:
        """The lines of a record; each has the format's text around `$msg`."""
        lines, facts = self.lines(record), self.facts(record)
        if self._settings.single_line:
            lines = [", ".join(map(str.strip, lines))]

        def line(text: str) -> str:
            def value(match: re.Match[str]) -> str:
                name = match[1]
                return text if name == "msg" else str(facts.get(name, f"<unknown {name}>"))

            return VARIABLE.sub(value, self._form).rstrip()

        return "\n".join(map(line, lines))


class JsonFormatter(LogFormatter):
    """One JSON object for each record."""

    def __init__(self, settings: OutputSettings) -> None:
        super().__init__(settings)
        self._names = [_pair(word) for word in settings.json_field_map.split()]
        self._verbosities = dict(_pair(word) for word in settings.json_verbosity_map.split())

    def format(self, record: logging.LogRecord) -> str:
        """The object, with its fields in the order of the map."""
        facts = self.facts(record) | {"msg": self.message(record)}
        verbosity = self._verbosities.get(name_of(record.levelno))
        if verbosity is not None:
            facts["verbosity"] = int(verbosity)
        ordered: dict[str, Any] = {}
        for name, new in self._names:
            if name == OTHERS:
                facts = {} if new == REMOVED else facts
            elif name in facts:
                value = facts.pop(name)
                if new != REMOVED:
                    ordered[new] = value
        return json.dumps(ordered | facts, ensure_ascii=False, separators=(",", ":"))


def formatter_of(settings: OutputSettings, default_format: str = DEFAULT_FORMAT) -> LogFormatter:
    """The formatter of an output. default_format: the default for text."""
    if settings.formatter == JSON:
        return JsonFormatter(settings)
    return TextFormatter(settings, default_format)


def _pair(word: str) -> tuple[str, str]:
    """Parse `old:new`, or a name that is kept."""
    old, colon, new = word.partition(":")
    return old, new if colon else old


def domain_of(name: str) -> str:
    """RabbitMQ's domain of a logger: `rabbitmq.connection` for leveret.connection."""
    first, dot, rest = name.partition(".")
    return f"{DOMAIN}{dot}{rest}" if first == ROOT else name


def process_of(record: logging.LogRecord) -> str:
    """The process in the form of an Erlang process."""
    return f"<0.{record.process or os.getpid()}.0>"


def time_of(record: logging.LogRecord, time_format: str, is_json: bool) -> str | int:
    """The time of a record as `formatter.time_format` says. Numbers are numbers in JSON."""
    return TIMES[time_format](record.created, is_json)


def _rfc3339(separator: str) -> Callable[[float, bool], str]:
    def text(time_s: float, _is_json: bool) -> str:
        local = datetime.fromtimestamp(time_s).astimezone()
        return local.isoformat(separator, "microseconds")

    return text


TIMES: dict[str, Callable[[float, bool], str | int]] = {
    "rfc3339_space": _rfc3339(" "),
    "rfc3339_T": _rfc3339("T"),
    "epoch_secs": lambda time_s, is_json: int(time_s) if is_json else f"{time_s:.6f}",
    "epoch_usecs": lambda time_s, is_json: int(time_s * 1e6) if is_json else str(int(time_s * 1e6)),
    "lager_default": lambda time_s, _: datetime.fromtimestamp(time_s).isoformat(
        " ", "milliseconds"
    ),
}
