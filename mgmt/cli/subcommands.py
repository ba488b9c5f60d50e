"""The subcommands of `leveret` that are programs of their own.

The node, and tools such as `ctl` and `perf`, have options of their own and are started often, in
scripts. Each is imported only when it is run, without the others and without typer. An installed
package names a subcommand in its entry points, in the group `leveret.subcommands`, with the module
whose `main` takes its arguments; the first line of the module's docstring describes it.
"""

import importlib
import sys
from types import ModuleType

from leveret.broker.plugins.extensions import Extensions

SUBCOMMANDS: Extensions[str | ModuleType] = Extensions(
    "leveret.subcommands",
    {
        "serve": "leveret.mgmt.cli.serve_command",
        "analyze": "leveret.analytics.analyze",
        "ctl": "leveret.mgmt.ctl.leveretctl",
        "journey": "leveret.analytics.journey_command",
        "perf": "leveret.mgmt.perf.perf_command",
        "replay": "leveret.mgmt.replay.replay_command",
        "report": "leveret.analytics.report_command",
        "trace-lines": "leveret.analytics.lines_command",
    },
)
"""Their names, and the modules whose `main` takes their arguments."""

DESCRIPTIONS = {
    "serve": "Run a broker until SIGTERM or SIGINT (--help).",
    "ctl": "Inspect and control a running node, as leveretctl does.",
    "perf": "Measure the throughput and latency of a broker, with PerfTest's options (--help).",
    "analyze": "Make tables and a report of trace logs (--help).",
    "journey": "Show the path of a message through the broker, from its traces (--help).",
    "replay": "Publish the messages of a trace again, to any broker (--help).",
    "report": "Write the results of an analysis to an HTML file (--help).",
    "trace-lines": "Print the records of trace logs as JSON lines (--help).",
}
"""Their descriptions in `leveret --help`, in this order."""

EXIT_USAGE = 2


def descriptions() -> dict[str, str]:
    """`DESCRIPTIONS`, and those of the subcommands of installed packages."""
    installed = SUBCOMMANDS.load_installed().items()
    return DESCRIPTIONS | {name: (one.__doc__ or "").partition("\n")[0] for name, one in installed}


def run_subcommand(name: str, arguments: list[str]) -> int:
    """Run a subcommand; its exit code."""
    try:
        named = SUBCOMMANDS[name]
        module = importlib.import_module(named) if isinstance(named, str) else named
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        sys.stderr.write(
            f"leveret {name} needs PyArrow and DuckDB: install Leveret again from its checkout or "
            f"wheel with the extra 'analytics', for instance {sys.executable} -m pip install "
            "'.[analytics]'\n"
        )
        return EXIT_USAGE
    status: int = module.main(arguments)
    return status
