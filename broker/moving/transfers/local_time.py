"""When the state of a shovel or link changed, as RabbitMQ shows it: `2026-11-25 9:05:03`. Pure."""

from datetime import datetime


def local_time(since_s: float) -> str:
    """A time in this machine's zone. since_s: seconds since the epoch."""
    at = datetime.fromtimestamp(since_s)
    return f"{at:%Y-%m-%d} {at.hour}:{at:%M:%S}"
