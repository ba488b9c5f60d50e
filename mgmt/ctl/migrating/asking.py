"""What a migration asks at a terminal: the other broker's password, and whether to begin.

Scripts have no terminal: they give the password in a file or in the environment, and agree with
`--yes`. The end of the input (Ctrl-D) is no password, and no agreement.
"""

import getpass
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from leveret.mgmt.ctl.errors import INTERRUPTED, USAGE, CtlError, bad_argument, failure

PASSWORD_VARIABLE: Final = "LEVERET_MIGRATION_PASSWORD"
YES, NO = (b"y", b"yes"), (b"", b"n", b"no")


def password_of(user: str, place: str, path: str) -> str:
    """The password of the other broker's user, from a file, the environment or the terminal.

    path: of the file; may be empty. Raises CtlError if there is none.
    """
    if path:
        try:
            return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise bad_argument(f"--password-file {path} cannot be read: {error}") from None
    given = os.environ.get(PASSWORD_VARIABLE)
    if given is not None:
        return given
    if not _is_at_terminal():
        raise failure(
            f"the password of {user} is missing: give --password-file, or set {PASSWORD_VARIABLE}",
            USAGE,
        )
    try:
        return getpass.getpass(f"Password of {user} at {place}: ")
    except EOFError:
        raise CtlError(
            "\nError:\nno password was given. Nothing is changed by this command", USAGE
        ) from None
    except KeyboardInterrupt:
        raise CtlError("\nBroken off. Nothing is changed by this command", INTERRUPTED) from None


def is_agreed(say: Callable[[str], object]) -> bool:
    """Whether the plan is to be carried out."""
    if not _is_at_terminal():
        say("Nothing is changed: --yes carries the plan out.")
        return False
    while True:
        sys.stdout.write("Carry this out? [y/N] ")
        sys.stdout.flush()
        # Bytes: a terminal may send what is no text in its encoding.
        line = sys.stdin.buffer.readline()
        if not line:
            say("")
        answer = line.strip().lower()
        if answer in YES:
            return True
        if answer in NO:
            say("Nothing is changed.")
            return False
        say("Answer y or n.")


def _is_at_terminal() -> bool:
    # A process that was started without standard input has none.
    return sys.stdin is not None and sys.stdin.isatty()
