"""Why a command failed."""

from __future__ import annotations


class Failure(Exception):
    """The command failed. is_usage: its arguments are wrong."""

    def __init__(self, text: str, is_usage: bool = False) -> None:
        super().__init__(text)
        self.is_usage = is_usage


def wrong_usage(text: str) -> Failure:
    """Return the error for wrong arguments."""
    return Failure(text, is_usage=True)
