"""Exit codes, as rabbitmqctl has them (sysexits.h), and the errors that carry one."""

from typing import Any

OK, USAGE, DATA_ERROR, NO_USER, UNAVAILABLE, SOFTWARE = 0, 64, 65, 67, 69, 70
NO_PERMISSION, TIMED_OUT = 77, 75


class CtlError(Exception):
    """A command failed. text: for the standard error. facts: instead of the text, in JSON."""

    def __init__(
        self, text: str, code: int = SOFTWARE, facts: dict[str, Any] | None = None
    ) -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.facts = facts


class UsageError(CtlError):
    """The arguments are wrong; how the command is used is told, too."""

    def __init__(self, text: str, code: int = USAGE) -> None:
        super().__init__(f"Error (argument validation): {text}", code)


class StateError(CtlError):
    """The node is not in the state that the command needs; its usage is told, too."""

    def __init__(self, text: str) -> None:
        super().__init__(f"Error: {text}", USAGE)


def bad_argument(reason: str = "") -> UsageError:
    """An argument that is there and makes no sense."""
    return UsageError(f"Bad argument: {reason}" if reason else "Bad argument.", DATA_ERROR)


def failure(reason: str, code: int = UNAVAILABLE) -> CtlError:
    """What was asked for cannot be done. reason: one line or more."""
    return CtlError(f"Error:\n{reason}", code)


def no_such_vhost(name: str) -> CtlError:
    """There is no vhost of this name."""
    return CtlError(f"Virtual host '{name}' does not exist", DATA_ERROR)
