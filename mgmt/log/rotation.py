"""When a log file is rotated by date (`log.file.rotation.date`).

Source: RabbitMQ's `rabbit_logger_std_h`, whose format is lager's. Times are local.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from leveret.broker.config.log_settings import ROTATION_DATE

ONE_DAY = timedelta(days=1)
Turn = Callable[[datetime], datetime]
"""Returns the last time, at or before a given one, at which a file was due."""


def last_turn(date: str) -> Turn:
    """Parse a value of `log.file.rotation.date`, which its setting has checked."""
    match = ROTATION_DATE.fullmatch(date)
    assert match is not None
    if match["minute"] is not None:
        minute = int(match["minute"])
        return lambda now: _before(now, now.replace(minute=minute), timedelta(hours=1))
    if match["day_hour"] is not None:
        hour = int(match["day_hour"])
        return lambda now: _before(now, _at(now, hour), ONE_DAY)
    if match["week_day"] is not None:
        day, hour = int(match["week_day"]), int(match["week_hour"] or 0)
        return lambda now: _before(now, _at(now - ONE_DAY * _days_since(now, day), hour),
                                   7 * ONE_DAY)  # fmt: skip
    day_text, hour = match["month_day"], int(match["month_hour"] or 0)
    day = 31 if day_text in "lL" else int(day_text)
    return lambda now: _in_month(now, day, hour)


def _at(now: datetime, hour: int) -> datetime:
    return now.replace(hour=hour, minute=0, second=0, microsecond=0)


def _before(now: datetime, turn: datetime, period: timedelta) -> datetime:
    turn = turn.replace(second=0, microsecond=0)
    return turn if turn <= now else turn - period


def _days_since(now: datetime, day: int) -> int:
    """Days since this day of the week, where Sunday is 0."""
    return (now.isoweekday() - day) % 7


def _in_month(now: datetime, day: int, hour: int) -> datetime:
    """The day of this month, or of the one before; the last day if the month is shorter."""
    turn = _day_of_month(now, day, hour)
    if turn > now:
        turn = _day_of_month(now.replace(day=1) - ONE_DAY, day, hour)
    return turn


def _day_of_month(month: datetime, day: int, hour: int) -> datetime:
    first_of_next = (month.replace(day=28) + 4 * ONE_DAY).replace(day=1)
    last_day = (first_of_next - ONE_DAY).day
    return _at(month, hour).replace(day=min(day, last_day))
