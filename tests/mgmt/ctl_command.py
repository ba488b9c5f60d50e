"""`leveretctl` in the test's own process: starting one for each command would take most of a test.

Tests start the commands that need a process of their own: another environment, a terminal.
"""

import contextlib
import io
import os
import sys
from typing import NamedTuple

from leveret.mgmt.ctl.leveretctl import main
from leveret.mgmt.ctl.tool import LEVERETCTL


class Done(NamedTuple):
    """The result of a command."""

    returncode: int
    stdout: str
    stderr: str


def run_command(*arguments, stdin="", tool=LEVERETCTL):
    """Run a command of a tool; arguments may be bytes, as of a shell with another encoding."""
    words = [os.fsdecode(one) if isinstance(one, bytes) else str(one) for one in arguments]
    out, errors, before = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = main(words, tool)
    finally:
        sys.stdin = before
    return Done(code, out.getvalue(), errors.getvalue())


class Ctl:
    """Runs commands on a node over its control socket."""

    def __init__(self, node):
        self._node = node

    def run(self, *arguments, stdin="", data_dir=None):
        """Return the result of a command."""
        where = ("--data-dir", data_dir or self._node.data_dir)
        return run_command(*where, *arguments, stdin=stdin)

    def __call__(self, *arguments, **options):
        """Return the output of a successful command."""
        done = self.run(*arguments, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def fails(self, *arguments, **options):
        """Return the exit code and the error output."""
        done = self.run(*arguments, **options)
        assert done.returncode != 0, done.stdout
        return done.returncode, done.stderr
