"""Log levels by RabbitMQ's names; Python has no notice, alert and emergency."""

import logging

LEVELS = {
    "debug": logging.DEBUG, "info": logging.INFO, "notice": 25, "warning": logging.WARNING,
    "error": logging.ERROR, "critical": logging.CRITICAL, "alert": 60, "emergency": 70, "none": 100,
}  # fmt: skip
"""`none` is above all others."""
SEVERITIES = {
    "debug": 7, "info": 6, "notice": 5, "warning": 4, "error": 3, "critical": 2, "alert": 1,
    "emergency": 0,
}  # fmt: skip
"""Of syslog (RFC 5424, 6.2.1)."""
_SHORT = {
    3: {"debug": "dbg", "info": "inf", "notice": "ntc", "warning": "wrn", "error": "err",
        "critical": "crt", "alert": "alt", "emergency": "emg"},
    4: {"debug": "dbug", "info": "info", "notice": "noti", "warning": "warn", "error": "erro",
        "critical": "crit", "alert": "alrt", "emergency": "emgc"},
}  # fmt: skip
_DESCENDING = sorted(
    ((number, name) for name, number in LEVELS.items() if name != "none"), reverse=True
)


def name_of(number: int) -> str:
    """The name of a record's level: the highest that is not above it."""
    return next((name for lowest, name in _DESCENDING if number >= lowest), "debug")


def formatted(name: str, level_format: str) -> str:
    """A level as `formatter.level_format` says: `lc`, `uc`, or one of these with 3 or 4 letters."""
    letters = level_format[2:]
    text = _SHORT[int(letters)][name] if letters else name
    return text.upper() if level_format.startswith("u") else text
