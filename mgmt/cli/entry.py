"""Where the `leveret` command begins.

Tools such as `ctl` and `perf` have options of their own and are started often, in scripts; so each
is loaded without the rest, which halves the time that it takes to start.
"""

import importlib
import sys

TOOLS = {
    "analyze": "analytics.main",
    "ctl": "mgmt.ctl.main",
    "journey": "analytics.journey",
    "perf": "mgmt.perf.main",
    "replay": "mgmt.replay.main",
    "report": "analytics.report",
}
"""Subcommands, and the modules whose `main` takes their arguments."""

EXIT_USAGE = 2


def run_tool(name: str, arguments: list[str]) -> int:
    """Run a tool; its exit code."""
    try:
        module = importlib.import_module(TOOLS[name])
    except ModuleNotFoundError as error:
        if error.name not in ("pyspark", "pyarrow"):
            raise
        sys.stderr.write(f"leveret {name} needs PySpark: run pip install 'leveret[analytics]'\n")
        return EXIT_USAGE
    status: int = module.main(arguments)
    return status


def main() -> None:
    """Run the command line."""
    if len(sys.argv) > 1 and sys.argv[1] in TOOLS:
        sys.exit(run_tool(sys.argv[1], sys.argv[2:]))
    importlib.import_module("mgmt.cli.main").app()


if __name__ == "__main__":
    main()
