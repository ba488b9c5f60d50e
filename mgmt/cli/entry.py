"""The entry point of the `leveret` command.

A subcommand that is a program of its own (subcommands.py) is loaded alone. The others, and the
help, need typer, which is imported only for them.
"""

import importlib
import sys

from leveret.mgmt.cli.subcommands import SUBCOMMANDS, run_subcommand

MISSING_LIBRARY = "libpcre2-8"
"""Its name in leveret.broker.runtime.pcre2, which cannot be imported without it."""


def main() -> None:
    """Run the command line."""
    try:
        _run()
    except ImportError as error:
        if error.name != MISSING_LIBRARY:
            raise
        sys.exit(f"leveret: {error}")


def _run() -> None:
    if len(sys.argv) > 1 and sys.argv[1] in SUBCOMMANDS:
        sys.exit(run_subcommand(sys.argv[1], sys.argv[2:]))
    importlib.import_module("leveret.mgmt.cli.application").app()


if __name__ == "__main__":
    main()
