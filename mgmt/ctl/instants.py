"""Instants as commands show them: in UTC, to the millisecond."""

from datetime import UTC, datetime


def utc_text(time_ms: int) -> str:
    """A time in milliseconds since 1970 as a text: `2026-01-31T12:00:00.000Z`."""
    instant = datetime.fromtimestamp(time_ms / 1000, UTC)
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
