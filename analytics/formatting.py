"""Formats names, times and numbers for people. Pure.

Names come from clients and can hold any character: control characters are escaped, since they could
move a terminal's cursor.
"""

from datetime import UTC, datetime

SECOND_US, MINUTE_US, HOUR_US, DAY_US = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
_NAME_MAX = 255


def shown(name: object) -> str:
    """Return a name with unprintable characters escaped, cut after 255 characters."""
    text = str(name)
    if not text.isprintable():
        text = "".join(one if one.isprintable() else _escaped(one) for one in text)
    return text if len(text) <= _NAME_MAX else f"{text[:_NAME_MAX]}…"


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def exchange_shown(name: object) -> str:
    """Return an exchange's name for a sentence."""
    return f"exchange {shown(name)}" if name else "the default exchange"


def moment(time_us: int) -> str:
    """Format a time: UTC, with microseconds."""
    whole = datetime.fromtimestamp(time_us // SECOND_US, UTC)
    return f"{whole:%Y-%m-%d %H:%M:%S}.{time_us % SECOND_US:06d}"


def local_time(time_us: int) -> datetime:
    """Return a time in the zone of the reader, which is that of this process."""
    return datetime.fromtimestamp(time_us / SECOND_US, UTC).astimezone()


def amount(count: float) -> str:
    """Format a number of bytes: 900 bytes, 12 kB, 1.5 MB."""
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= size:
            return f"{_short(count / size)} {unit}"
    return f"{count:.0f} bytes"


def rate(count: float) -> str:
    """Format messages per second: 108, 3.5, 0.04."""
    return f"{count:,.0f}" if count >= 10 else f"{count:.2g}"


def duration(time_us: int) -> str:
    """Format a duration in microseconds: 12 ms, 4.2 s, 3 min 5 s."""
    if time_us < 0:
        return f"-{duration(-time_us)}"
    if time_us < 1_000:
        return f"{time_us} µs"
    if time_us < SECOND_US:
        return f"{_short(time_us / 1_000)} ms"
    if time_us < MINUTE_US:
        return f"{_short(time_us / SECOND_US)} s"
    for unit_us, unit, part_us, part in (
        (DAY_US, "d", HOUR_US, "h"),
        (HOUR_US, "h", MINUTE_US, "min"),
        (MINUTE_US, "min", SECOND_US, "s"),
    ):
        if time_us >= unit_us:
            rest = time_us % unit_us // part_us
            return f"{time_us // unit_us} {unit}" + (f" {rest} {part}" if rest else "")
    return f"{time_us} µs"


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if value < 10 else f"{value:.0f}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """Format a count with its noun: 1 queue, 2 queues."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(names: list[str]) -> str:
    """Join names: a, b and c."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
