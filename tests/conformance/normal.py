"""Takes out of a transcript what legitimately differs from one run to the next."""

import datetime
import decimal
import re

from tests.conformance.field_table import readable

_SUBSTITUTIONS = [
    (re.compile(r"amq\.gen-[A-Za-z0-9_-]+={0,2}"), "amq.gen-*"),
    (re.compile(r"amq\.ctag-[A-Za-z0-9_-]+={0,2}"), "amq.ctag-*"),
    (re.compile(r"amq\.rabbitmq\.reply-to\.g\d\w+[A-Za-z0-9+/=._-]*"), "amq.rabbitmq.reply-to.*"),
    (re.compile(r"(rabbit|test|proto)@[A-Za-z0-9._-]+"), "<node>"),
]


def normalise(value, prefix):
    """A JSON-able copy of the transcript; names with the run's prefix become ``~name``."""
    if isinstance(value, dict):
        copy = {
            _normalise_text(str(key), prefix): normalise(item, prefix)
            for key, item in value.items()
        }
        return _without_death_time(copy)
    if isinstance(value, (list, tuple)):
        return [normalise(item, prefix) for item in value]
    if isinstance(value, bytes):
        return normalise(readable(value), prefix)
    if isinstance(value, str):
        return _normalise_text(value, prefix)
    if isinstance(value, datetime.datetime):
        return f"<time {int(value.timestamp())}>"
    if isinstance(value, decimal.Decimal):
        return f"<decimal {value}>"
    return value


def _without_death_time(table):
    """An entry of an x-death header with its time left out."""
    if {"reason", "queue", "time"} <= set(table):
        table["time"] = "<time>"
    return table


def _normalise_text(text, prefix):
    text = text.replace(prefix, "~")
    for pattern, replacement in _SUBSTITUTIONS:
        text = pattern.sub(replacement, text)
    return text
