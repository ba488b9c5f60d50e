"""Bold text, as rabbitmqctl prints it to terminals and files alike, unless NO_COLOR is set.

https://no-color.org: a program adds no escape sequences if the variable is there and not empty.
"""

import os

BOLD, PLAIN = "\x1b[1m", "\x1b[0m"


def bold(text: str) -> str:
    """Make a text bold."""
    return text if os.environ.get("NO_COLOR") else f"{BOLD}{text}{PLAIN}"


def heading(text: str) -> str:
    """Format a heading of a report."""
    return f"{bold(text)}\n"
