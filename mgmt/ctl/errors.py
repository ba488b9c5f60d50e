"""Exit codes of rabbitmqctl (sysexits.h), and the errors that have one."""

from typing import Any

OK, USAGE, DATA_ERROR, NO_USER, UNAVAILABLE, SOFTWARE = 0, 64, 65, 67, 69, 70
NO_PERMISSION, TIMED_OUT = 77, 75
INTERRUPTED = 130
"""After Ctrl-C, as shells have it."""
MISSING_LIBRARY = "libpcre2-8"
"""Its name in leveret.broker.runtime.pcre2, which needs it, and which a few commands import."""


class CtlError(Exception):
    """A command failed. text: for standard error. facts: printed instead of the text for JSON."""

    def __init__(
        self, text: str, code: int = SOFTWARE, facts: dict[str, Any] | None = None
    ) -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.facts = facts


class UsageError(CtlError):
    """Invalid arguments; the usage is printed, too."""

    def __init__(self, text: str, code: int = USAGE) -> None:
        super().__init__(f"Error (argument validation): {text}", code)


class NodeStateError(CtlError):
    """The node is not in the state that the command needs; the usage is printed, too."""

    def __init__(self, text: str) -> None:
        super().__init__(f"Error: {text}", USAGE)


def bad_argument(reason: str) -> UsageError:
    """Return the error for an invalid argument."""
    return UsageError(f"Bad argument: {reason}", DATA_ERROR)


def failure(reason: str, code: int = UNAVAILABLE) -> CtlError:
    """Return the error for a request that cannot be executed. reason: may have several lines."""
    return CtlError(f"Error:\n{reason}", code)


def no_such(kind: str, name: str, vhost: str = "", code: int = UNAVAILABLE) -> CtlError:
    """Return the error for an object that does not exist. kind: `Queue`, with a capital."""
    where = f" in vhost '{vhost}'" if vhost else ""
    return failure(f"{kind} '{name}' does not exist{where}", code)


def no_such_vhost(name: str) -> CtlError:
    """Return the error for a virtual host that does not exist."""
    return CtlError(f"Virtual host '{name}' does not exist", DATA_ERROR)
